// The shapes of a request's inputs against the model's: fills in the sizes of
// the model's dimensions, axis by axis. Not here: their bounds, which
// ModelHandle::Submit knows.
//
// Not thread-safe. Borrows the model's declaration.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensor/shape_bucket.h"
#include "tensor/tensor.h"

namespace stoker {

struct InputSpec;
struct ModelSpec;

// What came for an input, as clients have it.
struct GivenTensor {
  std::string_view datatype;  // the protocol's name
  const Shape& shape;
};

// Of the elements of an input of BYTES.
struct LongestElement {
  size_t bytes = 0;
  size_t index = 0;
};

// Every method that returns a status: INVALID_ARGUMENT, with input, model, what
// was expected and what came.
class ShapeReader {
 public:
  explicit ShapeReader(const ModelSpec& spec);

  // `index`: of the model's input. First of all, for each input; last for those
  // of BYTES, of which the one with the longest element comes first.
  // `longest`: of these.
  absl::Status ReadInput(int index, const GivenTensor& got,
                         const LongestElement* longest = nullptr);

  // What is made of each batch, for this request alone; after ReadInput of
  // every input.
  void SizeBatchInputs();

  bool LacksSizes() const;

  // The dimensions that stand alone at no axis; after ReadInput of every input.
  absl::Status SolveInput(int index, const GivenTensor& got);

  // Constants and expressions; after SolveInput.
  absl::Status CheckInput(int index, const GivenTensor& got) const;

  // INTERNAL where a dimension is no axis of any input.
  absl::Status CheckBatch() const;

  // As the program has it; after ReadInput.
  const Shape& ShapeOf(int index, const GivenTensor& got) const;
  const DimensionSizes& sizes() const { return sizes_; }
  int64_t rows() const;

 private:
  absl::StatusOr<int64_t> RowBytes(const InputSpec& input,
                                   const LongestElement& longest) const;
  absl::Status SetDimension(int dimension, int index, size_t axis,
                            const GivenTensor& got);
  std::string WrongRankHint(const InputSpec& input,
                            const GivenTensor& got) const;
  absl::Status WrongShape(const InputSpec& input, const GivenTensor& got,
                          absl::string_view hint) const;

  const ModelSpec& spec_;
  // By input, where clients have another shape; empty: where none does.
  std::vector<Shape> reshaped_;
  DimensionSizes sizes_;
  absl::InlinedVector<int, 4> first_input_;
};

}  // namespace stoker
