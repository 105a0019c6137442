#include "promotion/seeded_inputs.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <type_traits>
#include <utility>

#include "promotion/half_float.h"

namespace stoker {
namespace {

// splitmix64 (Steele, Lea, Flood 2014): its n-th number is a pure function of
// the seed and n, in integer arithmetic only.
class SplitMix64 {
 public:
  explicit SplitMix64(uint64_t seed) : state_(seed) {}

  uint64_t Next() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }

  // In [0, 1), of 53 bits.
  double NextUnit() { return static_cast<double>(Next() >> 11) * 0x1p-53; }

  // Nearly N(0, 1): the sum of twelve uniform numbers less six (Irwin-Hall),
  // kept in integers. The usual transforms need log and cos, whose last bit
  // differs between C libraries.
  double NextNormal() {
    int64_t sum = 0;
    for (int i = 0; i < 6; ++i) {
      const uint64_t both = Next();
      sum += static_cast<int64_t>(both >> 32);
      sum += static_cast<int64_t>(both & 0xffffffff);
    }
    return static_cast<double>(sum) * 0x1p-32 - 6;
  }

 private:
  uint64_t state_;
};

// `value` as T, held inside what T can say; NaN becomes 0.
template <typename T>
T Clamped(double value) {
  if (std::isnan(value)) return 0;
  if (value <= static_cast<double>(std::numeric_limits<T>::min())) {
    return std::numeric_limits<T>::min();
  }
  if (value >= static_cast<double>(std::numeric_limits<T>::max())) {
    return std::numeric_limits<T>::max();
  }
  return static_cast<T>(value);
}

template <typename T>
void FillIntegers(const InputDomain& domain, SplitMix64& random,
                  Buffer& buffer) {
  const T low = Clamped<T>(std::round(domain.low));
  const T high = std::max(low, Clamped<T>(std::round(domain.high)));
  const uint64_t span =
      static_cast<uint64_t>(high) - static_cast<uint64_t>(low);
  T* out = reinterpret_cast<T*>(buffer.data());
  for (size_t i = 0; i < buffer.size() / sizeof(T); ++i) {
    const uint64_t bits = random.Next();
    if (domain.extremes) {
      out[i] = (bits & 1) == 0 ? low : high;
      continue;
    }
    // Multiply and keep the upper half: a number in [0, span].
    uint64_t offset =
        span == std::numeric_limits<uint64_t>::max()
            ? bits
            : static_cast<uint64_t>(
                  static_cast<unsigned __int128>(bits) * (span + 1) >> 64);
    if (domain.shifted) offset = offset == span ? 0 : offset + 1;
    out[i] = static_cast<T>(static_cast<uint64_t>(low) + offset);
  }
}

double FloatingOf(const InputDomain& domain, SplitMix64& random) {
  if (domain.extremes) {
    if (!domain.normal) {
      return (random.Next() & 1) == 0 ? domain.low : domain.high;
    }
    // Large ones differ, so that a largest is not one of many. Next to nothing
    // is a normal number still: denormal ones may be flushed.
    const double much = ExtremeOf(domain.dtype) * (1 + random.NextUnit() / 4);
    const double values[] = {-much, -1e-30, 0, 1e-30, much};
    return values[random.Next() % std::size(values)];
  }
  return domain.normal
             ? random.NextNormal()
             : domain.low + random.NextUnit() * (domain.high - domain.low);
}

// `Store` turns a double into the element.
template <typename T, typename Store>
void FillFloating(const InputDomain& domain, SplitMix64& random, Buffer& buffer,
                  Store store) {
  T* out = reinterpret_cast<T*>(buffer.data());
  for (size_t i = 0; i < buffer.size() / sizeof(T); ++i) {
    out[i] = store(FloatingOf(domain, random));
  }
}

void FillBooleans(const InputDomain& domain, SplitMix64& random,
                  Buffer& buffer) {
  InputDomain bits = domain;
  bits.low = std::clamp(domain.low, 0.0, 1.0);
  bits.high = std::clamp(domain.high, 0.0, 1.0);
  FillIntegers<uint8_t>(bits, random, buffer);
}

void Fill(const InputDomain& domain, SplitMix64& random, Buffer& buffer) {
  switch (domain.dtype) {
    case DataType::kBool:
      return FillBooleans(domain, random, buffer);
    case DataType::kUint8:
      return FillIntegers<uint8_t>(domain, random, buffer);
    case DataType::kUint16:
      return FillIntegers<uint16_t>(domain, random, buffer);
    case DataType::kUint32:
      return FillIntegers<uint32_t>(domain, random, buffer);
    case DataType::kUint64:
      return FillIntegers<uint64_t>(domain, random, buffer);
    case DataType::kInt8:
      return FillIntegers<int8_t>(domain, random, buffer);
    case DataType::kInt16:
      return FillIntegers<int16_t>(domain, random, buffer);
    case DataType::kInt32:
      return FillIntegers<int32_t>(domain, random, buffer);
    case DataType::kInt64:
      return FillIntegers<int64_t>(domain, random, buffer);
    case DataType::kFp16:
      return FillFloating<uint16_t>(domain, random, buffer, [](double value) {
        return FloatToHalf(static_cast<float>(value));
      });
    case DataType::kBf16:
      return FillFloating<uint16_t>(domain, random, buffer, [](double value) {
        return FloatToBfloat(static_cast<float>(value));
      });
    case DataType::kFp32:
      return FillFloating<float>(domain, random, buffer, [](double value) {
        return static_cast<float>(value);
      });
    case DataType::kFp64:
      return FillFloating<double>(domain, random, buffer,
                                  [](double value) { return value; });
    case DataType::kBytes:
      return;  // no program takes them; no element has a size
  }
}

// Calls `with` with the elements as what they are; half precision is left out.
template <typename With>
void AsElements(DataType dtype, Buffer& buffer, const With& with) {
  switch (dtype) {
    case DataType::kInt32:
      return with(reinterpret_cast<int32_t*>(buffer.data()));
    case DataType::kInt64:
      return with(reinterpret_cast<int64_t*>(buffer.data()));
    case DataType::kFp32:
      return with(reinterpret_cast<float*>(buffer.data()));
    case DataType::kFp64:
      return with(reinterpret_cast<double*>(buffer.data()));
    default:
      return;
  }
}

void SortRows(const InputDomain& domain, Buffer& buffer) {
  if (domain.shape.empty() || buffer.size() == 0) return;
  const auto rows = static_cast<size_t>(ElementCount(domain.shape).value_or(0) /
                                        domain.shape.back());
  const auto width = static_cast<size_t>(domain.shape.back());
  AsElements(domain.dtype, buffer, [&](auto* values) {
    for (size_t row = 0; row < rows; ++row) {
      std::sort(values + row * width, values + (row + 1) * width);
    }
  });
}

void OutweighByDiagonal(const InputDomain& domain, Buffer& buffer) {
  const size_t rank = domain.shape.size();
  if (rank < 2 || buffer.size() == 0 || !IsFloating(domain.dtype) ||
      domain.shape[rank - 1] != domain.shape[rank - 2]) {
    return;
  }
  const auto n = static_cast<size_t>(domain.shape[rank - 1]);
  const auto matrices =
      static_cast<size_t>(ElementCount(domain.shape).value_or(0)) / (n * n);
  AsElements(domain.dtype, buffer, [&](auto* values) {
    using Value = std::remove_reference_t<decltype(*values)>;
    for (size_t m = 0; m < matrices; ++m, values += n * n) {
      for (size_t i = 0; i < n; ++i) {
        for (size_t j = 0; j < i; ++j) values[j * n + i] = values[i * n + j];
        values[i * n + i] += static_cast<Value>(n);
      }
    }
  });
}

void Arrange(const InputDomain& domain, Buffer& buffer) {
  switch (domain.pattern) {
    case InputDomain::Pattern::kAny:
      return;
    case InputDomain::Pattern::kAscending:
      return SortRows(domain, buffer);
    case InputDomain::Pattern::kDiagonal:
      return OutweighByDiagonal(domain, buffer);
  }
}

}  // namespace

double ExtremeOf(DataType dtype) {
  switch (dtype) {
    case DataType::kFp16:
      return 11.1;  // 2^16, half precision's largest
    case DataType::kFp64:
      return 709.8;  // 2^1024
    default:
      return 88.8;  // 2^128
  }
}

std::vector<Tensor> SeededInputs(absl::Span<const InputDomain> domains,
                                 uint64_t seed) {
  std::vector<Tensor> inputs;
  inputs.reserve(domains.size());
  SplitMix64 streams(seed);
  for (const InputDomain& domain : domains) {
    const int64_t count = ElementCount(domain.shape).value_or(0);
    Buffer buffer(static_cast<size_t>(count) * DataTypeSize(domain.dtype));
    // A stream of its own for each input: its values don't depend on the shapes
    // of those before it.
    SplitMix64 random(streams.Next());
    Fill(domain, random, buffer);
    Arrange(domain, buffer);
    Tensor tensor;
    tensor.dtype = domain.dtype;
    tensor.shape = domain.shape;
    tensor.data = buffer.data();
    tensor.byte_size = buffer.size();
    tensor.owner = buffer.share();
    inputs.push_back(std::move(tensor));
  }
  return inputs;
}

}  // namespace stoker
