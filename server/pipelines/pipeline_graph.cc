#include "pipelines/pipeline_graph.h"

#include <map>

namespace stoker {

PipelineGraph::PipelineGraph(const PipelineSpec& spec) {
  std::map<std::string, int> numbers;
  const auto number = [&](const std::string& name) {
    const auto [known, is_new] =
        numbers.emplace(name, static_cast<int>(tensors.size()));
    if (is_new) tensors.push_back(name);
    return known->second;
  };
  for (const PipelineTensor& input : spec.inputs) {
    inputs.push_back(number(input.name));
  }
  for (const PipelineStep& step : spec.steps) {
    Step& added = steps.emplace_back();
    added.name = step.name;
    for (const StepTensor& in : step.inputs) {
      added.inputs.push_back({in.own, number(in.tensor)});
    }
    for (const StepTensor& out : step.outputs) {
      added.outputs.push_back({out.own, number(out.tensor)});
    }
  }
  for (const PipelineTensor& output : spec.outputs) {
    outputs.push_back(number(output.name));
  }
  readers.resize(tensors.size());
  for (const Step& step : steps) {
    for (const Link& in : step.inputs) {
      ++readers[static_cast<size_t>(in.tensor)];
    }
  }
  for (const int output : outputs) ++readers[static_cast<size_t>(output)];
}

}  // namespace stoker
