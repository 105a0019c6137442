// Elements of tensors from and to JSON.
//
// Thread-safe: pure functions.
#pragma once

#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>

#include "tensor/tensor.h"

namespace stoker {

// Calls `visit` with a value of the C++ type of elements that JSON can hold, a
// bool of BOOL; false for FP16, BF16 and BYTES, whose elements are other
// things.
template <typename Visit>
bool WithJsonType(DataType dtype, Visit visit) {
  switch (dtype) {
    case DataType::kBool:
      return visit(bool{}), true;
    case DataType::kUint8:
      return visit(uint8_t{}), true;
    case DataType::kUint16:
      return visit(uint16_t{}), true;
    case DataType::kUint32:
      return visit(uint32_t{}), true;
    case DataType::kUint64:
      return visit(uint64_t{}), true;
    case DataType::kInt8:
      return visit(int8_t{}), true;
    case DataType::kInt16:
      return visit(int16_t{}), true;
    case DataType::kInt32:
      return visit(int32_t{}), true;
    case DataType::kInt64:
      return visit(int64_t{}), true;
    case DataType::kFp32:
      return visit(float{}), true;
    case DataType::kFp64:
      return visit(double{}), true;
    case DataType::kFp16:
    case DataType::kBf16:
    case DataType::kBytes:
      break;
  }
  return false;
}

// Whether the text is a number as JSON has it, as far as its ends show.
inline bool IsJsonNumber(std::string_view text) {
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  if (!text.empty() && text.front() == '-') text.remove_prefix(1);
  if (text.empty() || !digit(text.front()) || !digit(text.back())) return false;
  return text.size() == 1 || text.front() != '0' || !digit(text[1]);
}

// What an element's text says, to the last bit. False: it is none of that type,
// or is too large for it.
template <typename T>
bool ReadElement(std::string_view text, T& element) {
  if constexpr (std::is_same_v<T, bool>) {
    element = text == "true";
    return element || text == "false";
  } else {
    if constexpr (std::is_floating_point_v<T>) {
      using Limits = std::numeric_limits<T>;
      if (text == "NaN") return element = Limits::quiet_NaN(), true;
      if (text == "Infinity") return element = Limits::infinity(), true;
      if (text == "-Infinity") return element = -Limits::infinity(), true;
    }
    if (!IsJsonNumber(text)) return false;
    const char* const end = text.data() + text.size();
    const std::from_chars_result read =
        std::from_chars(text.data(), end, element);
    if (read.ec == std::errc() && read.ptr == end) return true;
    if constexpr (std::is_floating_point_v<T>) {
      if (read.ec != std::errc::result_out_of_range) return false;
      // Too small is as good as zero, too large is not.
      const double value = std::strtod(std::string(text).c_str(), nullptr);
      if (std::abs(value) > 1) return false;
      element = static_cast<T>(value);
      return true;
    }
    return false;
  }
}

// The longest text of an element.
inline constexpr size_t kMaxElementText = 32;

// The shortest text that says the same element; `out` has room for the longest.
// Returns its end.
template <typename T>
char* WriteElement(T element, char* out) {
  const auto put = [&out](std::string_view text) {
    std::memcpy(out, text.data(), text.size());
    return out + text.size();
  };
  if constexpr (std::is_same_v<T, bool>) {
    return put(element ? "true" : "false");
  } else {
    if constexpr (std::is_floating_point_v<T>) {
      if (std::isnan(element)) return put("NaN");
      if (std::isinf(element))
        return put(element > 0 ? "Infinity" : "-Infinity");
    }
    char* const end = std::to_chars(out, out + kMaxElementText, element).ptr;
    if constexpr (std::is_floating_point_v<T>) {
      // "3" would be an integer to whoever reads it.
      const std::string_view text(out, static_cast<size_t>(end - out));
      if (text.find_first_of(".e") == text.npos) {
        end[0] = '.';
        end[1] = '0';
        return end + 2;
      }
    }
    return end;
  }
}

}  // namespace stoker
