// Models and pipelines as somebody declares them, for tests.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "repository/model_spec.h"
#include "repository/pipeline_spec.h"

namespace stoker {

// Rows of the batch go through it: [batch, width] of `in` to [batch, width] of
// `out`; width -1 is a dimension of its own, "tokens".
inline ModelSpec RowsModel(const std::string& name, DataType in, DataType out,
                           int64_t in_width = -1, int64_t out_width = -1) {
  ModelSpec spec;
  spec.name = name;
  spec.dimensions = {{"batch", "s0", 1, 64, true},
                     {"tokens", "s1", 1, 128, true}};
  const auto width = [](int64_t size) {
    return size < 0 ? DimExpr::Dimension(1) : DimExpr::Constant(size);
  };
  if (in_width >= 0) spec.dimensions.pop_back();
  spec.inputs.resize(1);
  spec.inputs[0].name = "in";
  spec.inputs[0].dtype = in;
  spec.inputs[0].dims = {DimExpr::Dimension(0), width(in_width)};
  spec.outputs = {{"out", out, {DimExpr::Dimension(0), width(out_width)}}};
  spec.batch_dimension = 0;
  spec.max_batch_size = 8;
  return spec;
}

// A chain: x -> the steps -> y.
inline std::shared_ptr<ModelSpec> ChainOf(const std::string& name,
                                          std::vector<std::string> models) {
  auto pipeline = std::make_shared<PipelineSpec>();
  pipeline->inputs = {{"x", std::nullopt, std::nullopt}};
  pipeline->outputs = {{"y", std::nullopt, std::nullopt}};
  std::string before = "x";
  for (size_t i = 0; i < models.size(); ++i) {
    const std::string after =
        i + 1 == models.size() ? "y" : "t" + std::to_string(i);
    PipelineStep step;
    step.name = "step" + std::to_string(i);
    step.model = models[i];
    step.inputs = {{"in", before}};
    step.outputs = {{"out", after}};
    pipeline->steps.push_back(std::move(step));
    before = after;
  }
  auto spec = std::make_shared<ModelSpec>();
  spec->name = name;
  spec->pipeline = std::move(pipeline);
  spec->compile.enabled = false;
  spec->keep_in_memory = true;
  return spec;
}

}  // namespace stoker
