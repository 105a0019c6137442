// A model that is a graph of models: which steps there are, and which tensors
// go from one to another. What the steps' models declare is not known here.
//
// Immutable values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tensor/tensor.h"

namespace stoker {

// An input or output of the pipeline, and what its author says of it.
struct PipelineTensor {
  std::string name;
  std::optional<DataType> dtype;
  // With the batch; -1: any size.
  std::optional<Shape> dims;
};

// A tensor of a step's model, and which of the pipeline's it is.
struct StepTensor {
  std::string own;     // the model's name for it
  std::string tensor;  // the pipeline's
};

struct PipelineStep {
  std::string name;  // each its own
  // Of the model in whose queue it is run; empty: a tokenizer.
  std::string model;
  int64_t version = 0;  // 0: the alias says
  std::string alias;    // empty: any
  // A tokenizer.json, of which at most so many tokens are taken; 0: as many as
  // the file says.
  std::string tokenizer_path;
  int64_t max_length = 0;

  std::vector<StepTensor> inputs;
  std::vector<StepTensor> outputs;

  bool is_tokenizer() const { return model.empty(); }
};

struct PipelineSpec {
  std::vector<PipelineTensor> inputs;
  std::vector<PipelineTensor> outputs;
  // Each behind those whose tensors it takes.
  std::vector<PipelineStep> steps;
  int64_t max_batch_size = 0;  // 0: as the steps' models have it

  // Models of its steps, each once.
  std::vector<std::string> ModelNames() const;
};

// The only input of a tokenizer, strings, and the outputs that there may be.
inline constexpr char kTokenizerInput[] = "text";
inline constexpr char kInputIds[] = "input_ids";
inline constexpr char kAttentionMask[] = "attention_mask";
inline constexpr char kTokenTypeIds[] = "token_type_ids";

}  // namespace stoker
