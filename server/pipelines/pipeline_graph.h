// A pipeline's steps and tensors by number, as a run of it needs them.
//
// An immutable value.
#pragma once

#include <string>
#include <vector>

#include "repository/pipeline_spec.h"

namespace stoker {

// What served a request of a pipeline, as InferResult has it.
inline constexpr char kPipelineTier[] = "pipeline";

struct PipelineGraph {
  // Of a step, with the name that its model has for it.
  struct Link {
    std::string own;
    int tensor = 0;
  };
  struct Step {
    std::string name;
    std::vector<Link> inputs, outputs;
  };

  explicit PipelineGraph(const PipelineSpec& spec);

  std::vector<Step> steps;
  std::vector<std::string> tensors;  // their names
  std::vector<int> inputs, outputs;  // of the pipeline
  // How often each tensor is taken, by steps and by the answer.
  std::vector<int> readers;
};

}  // namespace stoker
