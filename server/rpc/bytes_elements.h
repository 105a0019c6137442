// Elements of BYTES, which programs have as rows of UINT8: read from a request,
// and written for an answer.
//
// Thread-safe: pure functions on values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "open_inference.pb.h"
#include "rpc/request_reader.h"
#include "rpc/shared_memory.h"
#include "rpc/typed_contents.h"
#include "tensor/tensor.h"

namespace stoker {

// The elements of one input. Keeps what it copied, and borrows the rest of the
// request.
class BytesElements {
 public:
  // `form` has the shape that came. The elements are `raw`, or in `range`, or
  // in `contents`; the others are null. INVALID_ARGUMENT: they aren't as many
  // as the shape says, or don't end where their lengths say; and what
  // SharedMemoryRegion::Read says.
  static absl::StatusOr<BytesElements> Read(
      const TensorForm& form, const RawContents* raw,
      const SharedMemoryRange* range,
      const inference::InferTensorContents* contents);

  // Of the longest element, and its index.
  size_t longest() const { return longest_; }
  size_t longest_index() const { return longest_index_; }

  // UINT8 of `form`, whose last axis is no shorter than the longest element and
  // whose others have as many rows as there are elements; what one lacks is
  // `pad`. INVALID_ARGUMENT: more than memory can hold.
  absl::StatusOr<Tensor> Rows(const TensorForm& form, std::byte pad) const;

 private:
  // False: `visit` said so, or the lengths don't fit the bytes.
  template <typename Visit>
  bool ForEach(Visit visit) const;

  std::optional<Buffer> copy_;
  std::string_view raw_;
  const inference::InferTensorContents* contents_ = nullptr;
  size_t longest_ = 0;
  size_t longest_index_ = 0;
};

// UINT8 of the shape [..., n] as BYTES of the shape [...]: an element is a row
// without the zero bytes at its end, as NumPy's S has it.
Tensor RowsToBytes(const Tensor& rows);

}  // namespace stoker
