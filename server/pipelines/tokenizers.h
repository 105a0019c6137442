// Where the steps come from that make tokens of strings.
//
// Thread-safe.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "pipelines/step_model.h"
#include "repository/pipeline_spec.h"

namespace stoker {

class Tokenizers {
 public:
  virtual ~Tokenizers() = default;
  // Reads the step's file, which takes up to seconds. INVALID_ARGUMENT or
  // NOT_FOUND, with its path: there is none, or it isn't one that can be used;
  // UNIMPLEMENTED: this host has no library for it.
  virtual absl::StatusOr<std::shared_ptr<StepModel>> Load(
      const PipelineStep& step) const = 0;
};

}  // namespace stoker
