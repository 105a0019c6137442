#include "loadtest/generator/input_values.h"

#include <bit>
#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/absl_view.h"

namespace stoker::loadtest {
namespace {

// What a range may use of an element's limits. None for BOOL, which is even
// odds; of the floats' largest numbers, the round ones.
ValueLimits RangeLimits(DataType dtype) {
  switch (dtype) {
    case DataType::kBool:
      return {0, -1};
    case DataType::kFp32:
    case DataType::kBf16:
      return {-3e38, 3e38};
    case DataType::kFp64:
      return {-1e308, 1e308};
    default:
      return LimitsOf(dtype);
  }
}

// IEEE 754 binary16, rounded towards zero; the value is within its range.
uint16_t ToFp16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint16_t>((bits >> 16) & 0x8000);
  const int exponent = static_cast<int>((bits >> 23) & 0xff) - 127 + 15;
  const uint32_t fraction = bits & 0x7fffff;
  if (exponent >= 31) return sign | 0x7bff;
  if (exponent > 0)
    return sign | static_cast<uint16_t>(exponent << 10 | fraction >> 13);
  if (exponent < -10) return sign;
  return sign | static_cast<uint16_t>((fraction | 0x800000) >> (14 - exponent));
}

template <class T>
void Append(T value, std::string* bytes) {
  static_assert(std::endian::native == std::endian::little);
  bytes->append(reinterpret_cast<const char*>(&value), sizeof(value));
}

void AppendInteger(DataType dtype, int64_t value, std::string* bytes) {
  static_assert(std::endian::native == std::endian::little);
  bytes->append(reinterpret_cast<const char*>(&value), DataTypeSize(dtype));
}

void AppendFloat(DataType dtype, double value, std::string* bytes) {
  const auto single = static_cast<float>(value);
  if (dtype == DataType::kFp64) {
    Append(value, bytes);
  } else if (dtype == DataType::kFp32) {
    Append(single, bytes);
  } else if (dtype == DataType::kBf16) {
    Append(static_cast<uint16_t>(std::bit_cast<uint32_t>(single) >> 16), bytes);
  } else {
    Append(ToFp16(single), bytes);
  }
}

}  // namespace

absl::Status CheckRange(DataType dtype, const ValueRange& range) {
  const ValueLimits limits = RangeLimits(dtype);
  if (range.min < limits.least || range.max > limits.most) {
    if (limits.least > limits.most) {
      return absl::InvalidArgumentError(
          absl::StrCat("expected no range for ", Absl(DataTypeName(dtype))));
    }
    return absl::InvalidArgumentError(absl::StrFormat(
        "expected a range within [%g, %g] for %s, got [%g, %g]", limits.least,
        limits.most, std::string(DataTypeName(dtype)), range.min, range.max));
  }
  if (IsInteger(dtype) && std::ceil(range.min) > std::floor(range.max)) {
    return absl::InvalidArgumentError(
        absl::StrFormat("expected a range that holds an integer, got [%g, %g]",
                        range.min, range.max));
  }
  return absl::OkStatus();
}

std::string RawValues(DataType dtype, int64_t count,
                      const std::optional<ValueRange>& range, Random& random) {
  const ValueRange bounds = range.value_or(ValueRange{});
  const auto least = static_cast<int64_t>(std::ceil(bounds.min));
  const auto greatest = static_cast<int64_t>(std::floor(bounds.max));
  std::string bytes;
  bytes.reserve(static_cast<size_t>(count) * DataTypeSize(dtype));
  for (int64_t i = 0; i < count; ++i) {
    if (dtype == DataType::kBytes) {
      const std::string text = absl::StrFormat("%016x", random.Bits());
      Append(static_cast<uint32_t>(text.size()), &bytes);
      bytes += text;
    } else if (dtype == DataType::kBool) {
      bytes.push_back(static_cast<char>(random.Integer(0, 1)));
    } else if (IsInteger(dtype)) {
      AppendInteger(dtype, random.Integer(least, greatest), &bytes);
    } else {
      const double value =
          range ? range->min + (range->max - range->min) * random.Unit()
                : random.Normal();
      AppendFloat(dtype, value, &bytes);
    }
  }
  return bytes;
}

}  // namespace stoker::loadtest
