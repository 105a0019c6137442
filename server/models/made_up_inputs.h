// Inputs that a version is tried on where nobody has sent any. They look like
// what the program takes as far as its operators and model.yaml say; where
// eager refuses them all the same, another kind is tried: a divisor of zero,
// boundaries in no order and a matrix that has no root are no fault of the
// program.
//
// Thread-safe.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "promotion/seeded_inputs.h"
#include "repository/model_spec.h"
#include "tensor/tensor.h"

namespace stoker {

class MadeUpInputs {
 public:
  // The spec outlives this object.
  explicit MadeUpInputs(const ModelSpec& spec) : spec_(spec) {}

  // Of these sizes, of the kind that was accepted last. The same on every host.
  std::vector<Tensor> Of(absl::Span<const int64_t> sizes, uint64_t seed) const;

  // Of that kind, the ends of their ranges: the first and last row of a table,
  // zero, next to nothing and much. The program may refuse them.
  std::vector<Tensor> Extremes(absl::Span<const int64_t> sizes,
                               uint64_t seed) const;

  // Of that kind, with integers from wide apart where nothing says their range:
  // of small ones i // 7 and i // 8 are the same. The program may refuse them.
  // Empty where there are none.
  std::vector<Tensor> WideIntegers(absl::Span<const int64_t> sizes,
                                   uint64_t seed) const;

  // As Of, but each integer and boolean is another one of those it may be.
  // Empty where there are none.
  std::vector<Tensor> OtherIntegers(absl::Span<const int64_t> sizes,
                                    uint64_t seed) const;

  // Calls `run` with inputs of one kind after the other, that one first, until
  // it returns something else than INVALID_ARGUMENT, and returns that. When all
  // are refused: INVALID_ARGUMENT, as the first was.
  absl::Status Try(
      absl::Span<const int64_t> sizes, uint64_t seed,
      absl::FunctionRef<absl::Status(absl::Span<const Tensor>)> run) const;

 private:
  // With what is made of a batch, for these.
  std::vector<Tensor> Made(std::vector<Tensor> inputs) const;
  std::vector<InputDomain> Domains(absl::Span<const int64_t> sizes) const;

  const ModelSpec& spec_;
  mutable std::atomic<size_t> accepted_ = 0;  // a kind
};

}  // namespace stoker
