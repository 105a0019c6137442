// Tensors from and over the forms in which a request carries elements: raw
// bytes, typed contents, and where they lie in shared memory.
//
// No bytes are copied where the wire's form is the tensor's and they lie in one
// piece; `owner` then keeps the request alive. Such a view may have any
// alignment. Sizes are compared with what really arrived before any allocation.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "open_inference.pb.h"
#include "rpc/request_reader.h"
#include "rpc/shared_memory.h"
#include "tensor/tensor.h"

namespace stoker {

// What one input of a request must hold; its names are for errors.
struct TensorForm {
  absl::string_view input;
  absl::string_view model;
  DataType dtype = DataType::kFp32;
  Shape shape;  // no negative dimension
};

// Bytes that `form` takes. INVALID_ARGUMENT when no memory could hold them.
absl::StatusOr<size_t> ByteSize(const TensorForm& form);

// A view of the bytes, or aligned memory with a copy of them when they are
// scattered. INVALID_ARGUMENT: wrong size, or a BOOL that is neither 0 nor 1:
// torch reads such a byte as undefined behaviour, and what a client meant by it
// is anybody's guess.
absl::StatusOr<Tensor> TensorFromRaw(const TensorForm& form,
                                     const RawContents& raw,
                                     std::shared_ptr<const void> owner);

// A copy of the range, which has the tensor's size. As TensorFromRaw, and what
// SharedMemoryRegion::Read says.
absl::StatusOr<Tensor> TensorFromSharedMemory(const TensorForm& form,
                                              const SharedMemoryRange& range);

// A view of the field that the dtype uses; INT8, INT16, UINT8 and UINT16 are
// narrowed into new memory. INVALID_ARGUMENT: wrong field, wrong count, a value
// out of range, or a dtype that has no typed form (FP16, BF16).
absl::StatusOr<Tensor> TensorFromContents(
    const TensorForm& form, const inference::InferTensorContents& contents,
    std::shared_ptr<const void> owner);

}  // namespace stoker
