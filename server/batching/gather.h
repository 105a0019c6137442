// Puts the inputs of a batch together, padded to the sizes that it runs in.
//
// Not thread-safe: each device thread has its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "absl/types/span.h"
#include "batching/batch.h"
#include "batching/batch_layout.h"
#include "batching/padding.h"
#include "tensor/shape_bucket.h"
#include "tensor/tensor.h"

namespace stoker {

class Gatherer {
 public:
  using NewBuffer = std::function<Buffer(size_t bytes)>;
  // The layout outlives this object. `new_buffer` gives the memory to copy to.
  explicit Gatherer(
      const BatchLayout& layout,
      NewBuffer new_buffer = [](size_t bytes) { return Buffer(bytes); });

  // The batch's inputs in `sizes`, which hold the batch's own. An input that
  // needs no padding and is 64-byte aligned already is the task's own tensor;
  // every other is copied once, into memory of this object (no owner) that the
  // next call writes again. Rows that padding adds repeat the last real one, so
  // that their values are valid; all else that it adds is the input's pad
  // value. Inputs that are made of the tasks are made here.
  absl::Span<const Tensor> Gather(const Batch& batch,
                                  absl::Span<const int64_t> sizes);

  // Lets go of the tasks' memory that the last Gather's tensors show.
  void Release();

 private:
  void GatherInput(size_t index, const Batch& batch, Tensor& input);
  void MakeInput(size_t index, const Batch& batch, Tensor& input);
  void GatherRows(size_t index, const Batch& batch, const Tensor& input,
                  std::byte* out, const ElementBytes& pad) const;
  // Room for `bytes`, 64-byte aligned, kept for the same input of later
  // batches.
  std::byte* Reserve(size_t index, size_t bytes);

  const BatchLayout& layout_;
  const NewBuffer new_buffer_;
  std::vector<Buffer> staging_;  // per input
  std::vector<Tensor> inputs_;
};

}  // namespace stoker
