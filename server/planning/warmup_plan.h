// What a version's warm-up has to do: pure data, made from the spec.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compile_broker/compiler.h"
#include "repository/model_spec.h"
#include "runner/toolchain.h"
#include "tensor/shape_bucket.h"

namespace stoker {

struct WarmupStep {
  // Index in ModelSpec::buckets, and behind those in SizesOfForms.
  int bucket = 0;
  ShapeBucket sizes;
  std::string name;        // "batch=8,tokens=32"
  CompileRequest request;  // the artifact's key, and how to make it
  // False: a dynamic form that takes it is enough to be ready.
  bool wanted = true;

  bool dynamic() const { return IsDynamic(sizes); }
};

// The smallest size of an open dimension that compiled code is for.
inline constexpr int64_t kLeastDynamicSize = 2;

// What is compiled with dynamic dimensions, where model.yaml asks for it: the
// program for any sizes, and, because such code is for two rows or more, for
// one row and any other sizes. They run in exactly a batch's own sizes.
std::vector<ShapeBucket> SizesOfForms(const ModelSpec& spec);

// One step per bucket, in the spec's order, then one per dynamic form.
// For a model on a GPU `toolchain.gpu` is set, and `device` is the one that
// compiles, "cuda:0".
std::vector<WarmupStep> MakeWarmupPlan(const ModelSpec& spec,
                                       const Toolchain& toolchain,
                                       const std::string& device = "cpu");

}  // namespace stoker
