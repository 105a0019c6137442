#include "batching/gather.h"

#include <cstring>
#include <utility>

#include "batching/padding.h"

namespace stoker {
namespace {

constexpr uintptr_t kAlignment = 64;  // what compiled kernels may assume

bool IsAligned(const std::byte* data) {
  return reinterpret_cast<uintptr_t>(data) % kAlignment == 0;
}

bool HasRows(const BatchLayout& layout, size_t input) {
  const std::vector<DimExpr>& dims = layout.inputs[input].dims;
  return layout.batch_dimension && !dims.empty() && dims[0].is_dimension() &&
         dims[0].dimension() == *layout.batch_dimension;
}

}  // namespace

Gatherer::Gatherer(const BatchLayout& layout, NewBuffer new_buffer)
    : layout_(layout),
      new_buffer_(std::move(new_buffer)),
      staging_(layout.inputs.size(), Buffer(0)),
      inputs_(layout.inputs.size()) {}

absl::Span<const Tensor> Gatherer::Gather(const Batch& batch,
                                          absl::Span<const int64_t> sizes) {
  for (size_t i = 0; i < inputs_.size(); ++i) {
    Tensor& input = inputs_[i];
    input.dtype = layout_.inputs[i].dtype;
    input.shape.clear();
    for (const DimExpr& dim : layout_.inputs[i].dims) {
      input.shape.push_back(dim.Evaluate(sizes).value_or(0));
    }
    GatherInput(i, batch, input);
  }
  return inputs_;
}

void Gatherer::Release() {
  for (Tensor& input : inputs_) input.owner.reset();
}

void Gatherer::GatherInput(size_t index, const Batch& batch, Tensor& input) {
  if (layout_.inputs[index].batch_input.has_value()) {
    return MakeInput(index, batch, input);
  }
  const Tensor& first = batch.tasks[0]->inputs[index];
  if (batch.tasks.size() == 1 && first.shape == input.shape &&
      IsAligned(first.data)) {
    input = first;
    return;
  }
  const size_t element_size = DataTypeSize(input.dtype);
  const ElementBytes pad =
      EncodeElement(layout_.inputs[index].pad_value, input.dtype);
  const int64_t elements = ElementCount(input.shape).value_or(0);
  input.byte_size = static_cast<size_t>(elements) * element_size;
  std::byte* const out = Reserve(index, input.byte_size);
  input.data = out;
  input.owner.reset();

  if (!HasRows(layout_, index)) {  // a single task
    CopyResized(first.data, first.shape, out, input.shape, element_size, pad);
    return;
  }
  GatherRows(index, batch, input, out, pad);
}

void Gatherer::MakeInput(size_t index, const Batch& batch, Tensor& input) {
  const BatchInput& made = *layout_.inputs[index].batch_input;
  std::vector<int64_t> elements;
  elements.reserve(batch.tasks.size());
  for (const auto& task : batch.tasks) {
    const Tensor& source = task->inputs[static_cast<size_t>(made.source)];
    elements.push_back(ElementCount(source.shape).value_or(0));
  }
  const int64_t size = ElementCount(input.shape).value_or(0);
  input.byte_size = static_cast<size_t>(size) * DataTypeSize(input.dtype);
  std::byte* const out = Reserve(index, input.byte_size);
  FillBatchInput(made.kind, elements, input.dtype, size, out);
  input.data = out;
  input.owner.reset();
}

void Gatherer::GatherRows(size_t index, const Batch& batch, const Tensor& input,
                          std::byte* out, const ElementBytes& pad) const {
  const size_t element_size = DataTypeSize(input.dtype);
  const int64_t rows = input.shape[0];
  const size_t row_bytes =
      rows == 0 ? 0 : input.byte_size / static_cast<size_t>(rows);
  std::byte* const end = out + input.byte_size;
  std::byte* next = out;
  Shape padded = input.shape;
  for (const auto& task : batch.tasks) {
    const Tensor& tensor = task->inputs[index];
    padded[0] = tensor.shape[0];
    CopyResized(tensor.data, tensor.shape, next, padded, element_size, pad);
    next += row_bytes * static_cast<size_t>(padded[0]);
  }
  if (next == out) {  // no row to repeat
    FillElements(out, ElementCount(input.shape).value_or(0), element_size, pad);
    return;
  }
  for (; next < end; next += row_bytes) {
    std::memcpy(next, next - row_bytes, row_bytes);
  }
}

std::byte* Gatherer::Reserve(size_t index, size_t bytes) {
  Buffer& buffer = staging_[index];
  if (buffer.size() < bytes) buffer = new_buffer_(bytes);
  return buffer.data();
}

}  // namespace stoker
