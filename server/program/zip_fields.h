// The numbers of ZIP's records, all little-endian. Private to this room.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace stoker {

// In a field of 16 or 32 bits: the number is in a ZIP64 record.
inline constexpr uint16_t kIn64Bit16 = 0xffff;
inline constexpr uint32_t kIn64Bit32 = 0xffffffff;

// A forward reader over bytes whose number was checked by whoever made it.
class ZipFields {
 public:
  explicit ZipFields(std::string_view bytes) : bytes_(bytes) {}

  uint16_t U16() { return static_cast<uint16_t>(Number(2)); }
  uint32_t U32() { return static_cast<uint32_t>(Number(4)); }
  uint64_t U64() { return Number(8); }
  std::string_view Bytes(size_t count) {
    const std::string_view taken = bytes_.substr(0, count);
    bytes_.remove_prefix(taken.size());
    return taken;
  }
  size_t left() const { return bytes_.size(); }

 private:
  uint64_t Number(size_t count) {
    uint64_t value = 0;
    const std::string_view taken = Bytes(count);
    for (size_t i = taken.size(); i > 0; --i) {
      value = value << 8 | static_cast<unsigned char>(taken[i - 1]);
    }
    return value;
  }

  std::string_view bytes_;
};

}  // namespace stoker
