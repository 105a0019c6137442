// A model with a batch and a number of tokens, both of which may be padded.
#pragma once

#include "repository/model_spec.h"

namespace stoker {

inline ModelSpec Encoder() {
  ModelSpec spec;
  spec.name = "encoder";
  spec.weights_digest = "0123";
  spec.dimensions = {{.name = "batch", .symbol = "s0", .min = 1, .max = 64},
                     {.name = "tokens",
                      .symbol = "s1",
                      .min = 8,
                      .max = 128,
                      .padding = true}};
  spec.batch_dimension = 0;
  spec.inputs = {{.name = "ids",
                  .dtype = DataType::kInt64,
                  .dims = {DimExpr::Dimension(0), DimExpr::Dimension(1)}}};
  spec.outputs = {{.name = "y", .dims = {DimExpr::Dimension(0)}}};
  return spec;
}

}  // namespace stoker
