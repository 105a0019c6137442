// The weight of linear layers that are computed with eight-bit integers.
// Private to this room.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/TensorImpl.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"

namespace stoker {

// Hangs on the tensor that compiled code is bound to as such a weight: linear
// layers that are given it, by the functions of AOTInductor's C interface in
// int8_weight.cc, are computed here, so that code that was compiled for float32
// needs no other. Sums are INT32, all else is FP32. Activations are quantised
// row by row (int8_rows.h). Thread-safe; runs that have begun may or may not
// see what is changed meanwhile.
class Int8Weight final : public c10::BackendMeta {
 public:
  // `dense`: float32 [out, in], contiguous, on the host; not kept.
  explicit Int8Weight(const at::Tensor& dense);

  // That of a tensor; null where there is none.
  static Int8Weight* Of(const at::Tensor& tensor);

  // x: float32 [..., in]; bias: float32 [out]. Returns float32 [..., out] of
  // memory of its own. Throws what torch throws.
  at::Tensor Product(const at::Tensor& x,
                     const std::optional<at::Tensor>& bias) const;

  // The weight as oneDNN takes it, of float32 or rounded to bfloat16, where
  // layers are to be computed with that after all; null: they aren't. What
  // `instead` points to outlives this.
  void UseInstead(const at::Tensor* instead) { instead_ = instead; }
  const at::Tensor* instead() const { return instead_; }

  // Whether the largest inputs of each column are noted, where layers are
  // computed with float32.
  void Note(bool noting) ABSL_LOCKS_EXCLUDED(mu_);
  bool noting() const { return noting_.load(std::memory_order_relaxed); }
  void NoteInputs(const at::Tensor& x) ABSL_LOCKS_EXCLUDED(mu_);
  // By which columns of inputs like those are to be divided, and those of
  // `dense` multiplied; empty where nothing was noted. (int8_linears.h)
  std::vector<float> FactorsOfNoted(const at::Tensor& dense) const
      ABSL_LOCKS_EXCLUDED(mu_);
  // Quantises it again, with these factors, one for each column.
  void Even(const at::Tensor& dense, absl::Span<const float> factors);

  int64_t bytes() const;

  // Frees what it holds: nothing runs any more. AOTInductor's containers hold
  // on to tensors for ever (pytorch #194480), and so to this.
  void Release();

 private:
  struct Quantised {
    at::Tensor integers;  // INT8 [out, in]
    at::Tensor scales;    // FP32 [out]
    at::Tensor offsets;   // FP32 [out]: scales times sums
    at::Tensor nothing;   // FP32 [out]: zeros, for a layer without bias
    at::Tensor factors;   // FP32 [in], of inputs
  };
  static std::shared_ptr<const Quantised> Quantise(
      const at::Tensor& dense, absl::Span<const float> factors);

  std::atomic<std::shared_ptr<const Quantised>> quantised_;
  std::atomic<const at::Tensor*> instead_ = nullptr;
  std::atomic<bool> noting_ = false;
  mutable absl::Mutex mu_;
  std::vector<float> largest_ ABSL_GUARDED_BY(mu_);  // inputs of each column
};

// What oneDNN computes of a linear layer's result on its way out, by its name
// in AOTInductor's interface; in place. Throws for a name that it doesn't have.
void ApplyUnary(at::Tensor& result, std::string_view name,
                absl::Span<const double* const> scalars,
                std::string_view algorithm);
void ApplyBinary(at::Tensor& result, const at::Tensor& other,
                 std::string_view name);

}  // namespace stoker
