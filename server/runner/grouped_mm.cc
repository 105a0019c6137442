#include "runner/grouped_mm.h"

#include <ATen/ATen.h>
#include <torch/library.h>

#include <cstdint>

namespace stoker {
namespace {

at::Tensor GroupedMm(const at::Tensor& input, const at::Tensor& weight,
                     const at::Tensor& offsets) {
  TORCH_CHECK(
      input.dim() == 2 && weight.dim() == 3 && input.size(1) == weight.size(1),
      "grouped_mm: expected input [S, in] and weight [experts, in, "
      "out], got ",
      input.sizes(), " and ", weight.sizes());
  TORCH_CHECK(offsets.dim() == 1 && offsets.size(0) == weight.size(0),
              "grouped_mm: expected an offset for each of ", weight.size(0),
              " experts, got ", offsets.sizes());
  TORCH_CHECK(
      offsets.scalar_type() == at::kInt || offsets.scalar_type() == at::kLong,
      "grouped_mm: expected offsets of INT32 or INT64, got ",
      offsets.scalar_type());
  const at::Tensor ends = offsets.to(at::kLong).contiguous();
  const int64_t* const end = ends.const_data_ptr<int64_t>();
  at::Tensor output =
      at::zeros({input.size(0), weight.size(2)}, input.options());
  int64_t begin = 0;
  for (int64_t expert = 0; expert < weight.size(0); ++expert) {
    TORCH_CHECK(begin <= end[expert] && end[expert] <= input.size(0),
                "grouped_mm: expected offsets from ", begin, " to ",
                input.size(0), ", got ", end[expert], " for expert ", expert);
    if (begin == end[expert]) continue;
    at::Tensor rows = output.slice(/*dim=*/0, begin, end[expert]);
    at::mm_out(rows, input.slice(/*dim=*/0, begin, end[expert]),
               weight.select(/*dim=*/0, expert));
    begin = end[expert];
  }
  return output;
}

// Registered for as long as the libraries live.
bool RegisterOnce() {
  static torch::Library* const schemas =
      new torch::Library(torch::Library::FRAGMENT, "transformers", std::nullopt,
                         __FILE__, __LINE__);
  schemas->def(
      "grouped_mm_fallback(Tensor input, Tensor weight, Tensor offs) -> "
      "Tensor");
  static torch::Library* const kernels =
      new torch::Library(torch::Library::IMPL, "transformers",
                         c10::DispatchKey::CPU, __FILE__, __LINE__);
  kernels->impl("grouped_mm_fallback", GroupedMm);
  return true;
}

}  // namespace

void RegisterGroupedMm() {
  static const bool registered = RegisterOnce();
  static_cast<void>(registered);
}

}  // namespace stoker
