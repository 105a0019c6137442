// What a version's warm-up has to do: pure data, made from the spec.
#pragma once

#include <string>
#include <vector>

#include "compile_broker/compile_broker.h"
#include "repository/model_spec.h"
#include "runner/toolchain.h"

namespace stoker {

struct WarmupStep {
  int bucket = 0;          // index in ModelSpec::buckets
  std::string name;        // "batch=8,tokens=32"
  CompileRequest request;  // the artifact's key, and how to make it
};

// One step per bucket, in the spec's order. `threads` are the compute threads
// per device thread; they are baked into the code and so are part of the key.
// For a model on a GPU `toolchain.gpu` is set, and `device` is the one that
// compiles, "cuda:0".
std::vector<WarmupStep> MakeWarmupPlan(const ModelSpec& spec, int threads,
                                       const Toolchain& toolchain,
                                       const std::string& device = "cpu");

}  // namespace stoker
