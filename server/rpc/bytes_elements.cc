#include "rpc/bytes_elements.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error_text.h"
#include "base/status_macros.h"
#include "rpc/append_bytes_element.h"

namespace stoker {
namespace {

using Length = uint32_t;

absl::Status WrongElements(const TensorForm& form, const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat(
      "input '", form.input, "' for model '", form.model, "': ", what));
}

// Nothing but texts.
bool HasOnlyBytes(const inference::InferTensorContents& contents) {
  return contents.bool_contents().empty() && contents.int_contents().empty() &&
         contents.int64_contents().empty() &&
         contents.uint_contents().empty() &&
         contents.uint64_contents().empty() &&
         contents.fp32_contents().empty() && contents.fp64_contents().empty();
}

}  // namespace

template <typename Visit>
bool BytesElements::ForEach(Visit visit) const {
  if (contents_ != nullptr) {
    for (const std::string& element : contents_->bytes_contents()) {
      if (!visit(std::string_view(element))) return false;
    }
    return true;
  }
  for (std::string_view rest = raw_; !rest.empty();) {
    Length length = 0;
    if (rest.size() < sizeof(length)) return false;
    std::memcpy(&length, rest.data(), sizeof(length));
    rest.remove_prefix(sizeof(length));
    if (length > rest.size() || !visit(rest.substr(0, length))) return false;
    rest.remove_prefix(length);
  }
  return true;
}

absl::StatusOr<BytesElements> BytesElements::Read(
    const TensorForm& form, const RawContents* raw,
    const SharedMemoryRange* range,
    const inference::InferTensorContents* contents) {
  BytesElements elements;
  elements.contents_ = contents;
  const std::byte* data = nullptr;
  size_t size = 0;
  if (contents != nullptr && !HasOnlyBytes(*contents)) {
    return WrongElements(
        form, "expected BYTES elements in bytes_contents, got others");
  }
  if (range != nullptr) {
    ASSIGN_OR_RETURN(elements.copy_,
                     range->region->Read(range->offset, range->byte_size));
    data = elements.copy_->data();
    size = range->byte_size;
  } else if (raw != nullptr) {
    data = raw->data;
    size = raw->size;
    if (raw->scattered != nullptr) {
      elements.copy_.emplace(size);
      raw->scattered->CopyTo(raw->offset, size, elements.copy_->data());
      data = elements.copy_->data();
    }
  }
  if (size > 0) elements.raw_ = {reinterpret_cast<const char*>(data), size};

  const std::optional<int64_t> wanted = ElementCount(form.shape);
  if (!wanted.has_value()) {
    return WrongElements(form, absl::StrCat("shape ", ShapeExcerpt(form.shape),
                                            " is none that a tensor can have"));
  }
  int64_t count = 0;
  const bool whole = elements.ForEach([&](std::string_view element) {
    if (count == 0 || element.size() > elements.longest_) {
      elements.longest_ = element.size();
      elements.longest_index_ = static_cast<size_t>(count);
    }
    return ++count <= *wanted;
  });
  if (count > *wanted || (whole && count < *wanted)) {
    return WrongElements(
        form,
        absl::StrCat("expected ", *wanted, " string elements by its shape ",
                     ShapeExcerpt(form.shape), ", got ",
                     count > *wanted ? "more" : absl::StrCat(count)));
  }
  if (whole) return elements;
  return WrongElements(
      form, absl::StrCat("string element ", count,
                         " is cut off: expected its length, of four bytes, and "
                         "so many bytes behind it"));
}

absl::StatusOr<Tensor> BytesElements::Rows(const TensorForm& form,
                                           std::byte pad) const {
  ASSIGN_OR_RETURN(const size_t size, ByteSize(form));
  const auto row_bytes = static_cast<size_t>(form.shape.back());
  const Buffer buffer(size);
  std::byte* out = buffer.data();
  ForEach([&](std::string_view element) {
    if (!element.empty()) std::memcpy(out, element.data(), element.size());
    std::fill(out + element.size(), out + row_bytes, pad);
    out += row_bytes;
    return true;
  });
  return Tensor{form.dtype, form.shape, buffer.data(), size, buffer.share()};
}

Tensor RowsToBytes(const Tensor& rows) {
  Shape shape = rows.shape;
  const auto row_bytes = static_cast<size_t>(shape.back());
  shape.pop_back();
  const auto count = static_cast<size_t>(ElementCount(shape).value_or(0));
  std::string bytes;
  bytes.reserve(rows.byte_size + count * sizeof(Length));
  const auto* data = reinterpret_cast<const char*>(rows.data);
  for (size_t row = 0; row < count; ++row, data += row_bytes) {
    size_t length = row_bytes;
    while (length > 0 && data[length - 1] == 0) --length;
    AppendBytesElement({data, length}, bytes);
  }
  const auto owner = std::make_shared<const std::string>(std::move(bytes));
  return Tensor{DataType::kBytes, std::move(shape),
                reinterpret_cast<const std::byte*>(owner->data()),
                owner->size(), owner};
}

}  // namespace stoker
