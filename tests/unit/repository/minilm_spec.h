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

// FP32 x [elements] and INT64 marks [requests + 1] → sum [requests], each
// [elements].
inline ModelSpec RaggedSpec() {
  const DimExpr elements = DimExpr::Dimension(0),
                requests = DimExpr::Dimension(1);
  ModelSpec spec;
  spec.dimensions = {{.name = "x.0", .symbol = "s1", .max = 1 << 20},
                     {.name = "marks.0", .symbol = "s2", .max = 1 << 20}};
  spec.inputs.resize(2);
  spec.inputs[0].name = "x";
  spec.inputs[0].dims = {elements};
  spec.inputs[1].name = "marks";
  spec.inputs[1].dtype = DataType::kInt64;
  spec.inputs[1].dims = {
      DimExpr::Binary(DimExpr::Kind::kAdd, requests, DimExpr::Constant(1))};
  spec.outputs = {{"sum", DataType::kFp32, {requests}},
                  {"each", DataType::kFp32, {elements}}};
  return spec;
}

}  // namespace stoker
