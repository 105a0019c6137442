// Writes protobuf fields one after the other to memory whose size was counted
// before, with the functions that count it. For messages with large `bytes`
// fields, whose content stays where it lies.
//
// Not thread-safe.
#pragma once

#include <google/protobuf/io/coded_stream.h>

#include <cstdint>
#include <cstring>
#include <string_view>

#include "absl/types/span.h"

namespace stoker {

// Of a length-delimited field without its content; field numbers up to 15, as
// all of ours are.
inline size_t PrefixSize(size_t length) {
  return 1 + google::protobuf::io::CodedOutputStream::VarintSize64(length);
}
inline size_t DelimitedSize(size_t length) {
  return PrefixSize(length) + length;
}
// proto3 leaves out an empty text.
inline size_t TextSize(std::string_view text) {
  return text.empty() ? 0 : DelimitedSize(text.size());
}
inline size_t VarintsSize(absl::Span<const int64_t> values) {
  size_t size = 0;
  for (const int64_t value : values) {
    size += google::protobuf::io::CodedOutputStream::VarintSize64(
        static_cast<uint64_t>(value));
  }
  return size;
}

class FieldWriter {
 public:
  explicit FieldWriter(uint8_t* begin) : next_(begin) {}

  const uint8_t* next() const { return next_; }

  // `length` bytes of content come next.
  void Prefix(int field, size_t length) {
    *next_++ = static_cast<uint8_t>(field << 3 | 2);
    next_ = google::protobuf::io::CodedOutputStream::WriteVarint64ToArray(
        length, next_);
  }
  void Content(const void* data, size_t size) {
    if (size > 0) std::memcpy(next_, data, size);
    next_ += size;
  }
  void Text(int field, std::string_view text) {
    if (text.empty()) return;
    Prefix(field, text.size());
    Content(text.data(), text.size());
  }
  void PackedVarints(int field, absl::Span<const int64_t> values) {
    if (values.empty()) return;
    Prefix(field, VarintsSize(values));
    for (const int64_t value : values) {
      next_ = google::protobuf::io::CodedOutputStream::WriteVarint64ToArray(
          static_cast<uint64_t>(value), next_);
    }
  }

 private:
  uint8_t* next_;
};

}  // namespace stoker
