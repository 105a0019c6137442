#include "tensor/element.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace stoker {
namespace {

template <typename T>
ElementBytes Bytes(T value) {
  static_assert(sizeof(T) <= sizeof(ElementBytes));
  ElementBytes bytes{};
  std::memcpy(bytes.data(), &value, sizeof(T));
  return bytes;
}

template <typename T>
ElementBytes SaturatedBytes(double value) {
  using Limits = std::numeric_limits<T>;
  if (std::isnan(value)) return Bytes<T>(0);
  // max() may round up to a power of two as a double, hence >=.
  if (value >= static_cast<double>(Limits::max())) return Bytes(Limits::max());
  if (value <= static_cast<double>(Limits::min())) return Bytes(Limits::min());
  return Bytes(static_cast<T>(value));
}

// Bits of the 16-bit floating-point number nearest to `value`, ties to even.
// One rounding step from double: going through float would round twice.
uint16_t RoundTo16Bits(double value, int exponent_bits, int mantissa_bits) {
  const uint64_t bits = std::bit_cast<uint64_t>(value);
  const uint16_t sign = static_cast<uint16_t>((bits >> 63) << 15);
  const int exponent = static_cast<int>((bits >> 52) & 0x7ff);
  const uint64_t mantissa = bits & ((uint64_t{1} << 52) - 1);
  const uint64_t infinity = ((uint64_t{1} << exponent_bits) - 1)
                            << mantissa_bits;
  if (exponent == 0x7ff) {
    const uint64_t quiet =
        mantissa == 0 ? 0 : uint64_t{1} << (mantissa_bits - 1);
    return static_cast<uint16_t>(sign | infinity | quiet);
  }
  if (exponent == 0) return sign;  // zero, or far below the smallest number

  const uint64_t significand = mantissa | (uint64_t{1} << 52);
  const int biased = exponent - 1023 + (1 << (exponent_bits - 1)) - 1;
  const int shift = 52 - mantissa_bits + (biased > 0 ? 0 : 1 - biased);
  if (shift > 53) return sign;
  uint64_t rounded = significand >> shift;
  const uint64_t rest = significand & ((uint64_t{1} << shift) - 1);
  const uint64_t half = uint64_t{1} << (shift - 1);
  if (rest > half || (rest == half && (rounded & 1) != 0)) ++rounded;
  // The leading one of a normal number adds 1 to the exponent field, as does a
  // carry out of the rounding.
  if (biased > 0) rounded += static_cast<uint64_t>(biased - 1) << mantissa_bits;
  return static_cast<uint16_t>(sign | std::min(rounded, infinity));
}

}  // namespace

ElementBytes EncodeElement(double value, DataType dtype) {
  switch (dtype) {
    case DataType::kBool:
      return Bytes<uint8_t>(value != 0);
    case DataType::kUint8:
      return SaturatedBytes<uint8_t>(value);
    case DataType::kUint16:
      return SaturatedBytes<uint16_t>(value);
    case DataType::kUint32:
      return SaturatedBytes<uint32_t>(value);
    case DataType::kUint64:
      return SaturatedBytes<uint64_t>(value);
    case DataType::kInt8:
      return SaturatedBytes<int8_t>(value);
    case DataType::kInt16:
      return SaturatedBytes<int16_t>(value);
    case DataType::kInt32:
      return SaturatedBytes<int32_t>(value);
    case DataType::kInt64:
      return SaturatedBytes<int64_t>(value);
    case DataType::kFp16:
      return Bytes(RoundTo16Bits(value, 5, 10));
    case DataType::kBf16:
      return Bytes(RoundTo16Bits(value, 8, 7));
    case DataType::kFp32:
      return Bytes(static_cast<float>(value));
    case DataType::kFp64:
      return Bytes(value);
    case DataType::kBytes:
      break;  // no element has a size: nothing is ever filled with it
  }
  return ElementBytes{};
}

void FillElements(std::byte* out, int64_t count, size_t element_size,
                  const ElementBytes& element) {
  if (count <= 0) return;
  const size_t bytes = static_cast<size_t>(count) * element_size;
  const bool zero = std::all_of(element.begin(), element.begin() + element_size,
                                [](std::byte b) { return b == std::byte{0}; });
  if (zero) {
    std::memset(out, 0, bytes);
    return;
  }
  std::memcpy(out, element.data(), element_size);
  for (size_t done = element_size; done < bytes;) {
    const size_t next = std::min(done, bytes - done);
    std::memcpy(out + done, out, next);
    done += next;
  }
}

}  // namespace stoker
