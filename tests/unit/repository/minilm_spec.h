// The spec of a sentence encoder as ReadProgram gives it: INT64 input_ids and
// attention_mask [batch 1..64, tokens 1..512] → token_embeddings,
// sentence_embedding.
#pragma once

#include "repository/model_spec.h"

namespace stoker {

inline ModelSpec MiniLmSpec() {
  const DimExpr batch = DimExpr::Dimension(0), tokens = DimExpr::Dimension(1);
  const DimExpr width = DimExpr::Constant(384);
  ModelSpec spec;
  spec.dimensions = {{.name = "batch", .symbol = "s43", .max = 64},
                     {.name = "input_ids.1", .symbol = "s53", .max = 512}};
  spec.dimensions[0].padding = true;
  spec.batch_dimension = 0;
  for (const char* name : {"input_ids", "attention_mask"}) {
    InputSpec& input = spec.inputs.emplace_back();
    input.name = name;
    input.dtype = DataType::kInt64;
    input.dims = {batch, tokens};
  }
  spec.outputs = {{"token_embeddings", DataType::kFp32, {batch, tokens, width}},
                  {"sentence_embedding", DataType::kFp32, {batch, width}}};
  return spec;
}

}  // namespace stoker
