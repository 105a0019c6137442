#include "promotion/parity_check.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/absl_view.h"
#include "base/status_macros.h"
#include "promotion/half_float.h"

namespace stoker {
namespace {

// A tolerance that the format of an output can meet: neighbours of FP16 and
// BF16 lie further apart than the default, and compiled code keeps intermediate
// results in FP32 where eager rounds each of them.
ParityTolerance Widened(const ParityTolerance& tolerance, DataType dtype) {
  double epsilon = 0;
  if (dtype == DataType::kFp16) epsilon = 0x1p-10;
  if (dtype == DataType::kBf16) epsilon = 0x1p-7;
  return {std::max(tolerance.rtol, 4 * epsilon),
          std::max(tolerance.atol, epsilon)};
}

template <typename T>
T ElementAt(const Tensor& tensor, int64_t index) {
  T value;
  std::memcpy(&value, tensor.data + index * sizeof(T), sizeof(T));
  return value;
}

double FloatingAt(const Tensor& tensor, int64_t index) {
  switch (tensor.dtype) {
    case DataType::kFp16:
      return HalfToFloat(ElementAt<uint16_t>(tensor, index));
    case DataType::kBf16:
      return BfloatToFloat(ElementAt<uint16_t>(tensor, index));
    case DataType::kFp32:
      return ElementAt<float>(tensor, index);
    default:
      return ElementAt<double>(tensor, index);
  }
}

std::string IntegerText(const Tensor& tensor, int64_t index) {
  switch (tensor.dtype) {
    case DataType::kBool:
    case DataType::kUint8:
      return absl::StrCat(ElementAt<uint8_t>(tensor, index));
    case DataType::kUint16:
      return absl::StrCat(ElementAt<uint16_t>(tensor, index));
    case DataType::kUint32:
      return absl::StrCat(ElementAt<uint32_t>(tensor, index));
    case DataType::kUint64:
      return absl::StrCat(ElementAt<uint64_t>(tensor, index));
    case DataType::kInt8:
      return absl::StrCat(ElementAt<int8_t>(tensor, index));
    case DataType::kInt16:
      return absl::StrCat(ElementAt<int16_t>(tensor, index));
    case DataType::kInt32:
      return absl::StrCat(ElementAt<int32_t>(tensor, index));
    default:
      return absl::StrCat(ElementAt<int64_t>(tensor, index));
  }
}

// "[3,17]" of a flat index.
std::string Position(int64_t index, absl::Span<const int64_t> shape) {
  Shape position(shape.begin(), shape.end());
  for (size_t d = shape.size(); d-- > 0;) {
    position[d] = index % shape[d];
    index /= shape[d];
  }
  return ShapeString(position);
}

// What one output's comparison found.
struct Comparison {
  double max_abs_error = 0;
  int64_t different = 0;
  int64_t worst = -1;  // flat index of the element that is most wrong
};

Comparison CompareFloating(const Tensor& expected, const Tensor& actual,
                           int64_t count, const ParityTolerance& given) {
  const ParityTolerance tolerance = Widened(given, expected.dtype);
  Comparison found;
  double worst_error = -1;
  for (int64_t i = 0; i < count; ++i) {
    const double b = FloatingAt(expected, i);
    const double a = FloatingAt(actual, i);
    if (a == b || (std::isnan(a) && std::isnan(b))) continue;
    // A NaN or an infinity against something else is as wrong as can be.
    const bool finite = std::isfinite(a) && std::isfinite(b);
    const double error =
        finite ? std::abs(a - b) : std::numeric_limits<double>::infinity();
    found.max_abs_error = std::max(found.max_abs_error, error);
    if (finite && error <= tolerance.atol + tolerance.rtol * std::abs(b))
      continue;
    ++found.different;
    if (error > worst_error) {
      worst_error = error;
      found.worst = i;
    }
  }
  return found;
}

// Exact; integers don't enter the error, whose unit is that of floating
// outputs.
Comparison CompareExact(const Tensor& expected, const Tensor& actual,
                        int64_t count) {
  const size_t size = DataTypeSize(expected.dtype);
  Comparison found;
  for (int64_t i = 0; i < count; ++i) {
    if (std::memcmp(expected.data + i * size, actual.data + i * size, size) ==
        0) {
      continue;
    }
    ++found.different;
    if (found.worst < 0) found.worst = i;
  }
  return found;
}

// Empty when the two have the same form and bytes enough for it.
std::string FormDifference(const Tensor& expected, const Tensor& actual) {
  if (expected.dtype == actual.dtype && expected.shape == actual.shape &&
      expected.byte_size == actual.byte_size &&
      DataTypeSize(expected.dtype) > 0) {
    return "";
  }
  return absl::StrCat(": eager ", Absl(DataTypeName(expected.dtype)), " ",
                      ShapeString(expected.shape), ", compiled ",
                      Absl(DataTypeName(actual.dtype)), " ",
                      ShapeString(actual.shape));
}

std::string ElementText(const Tensor& tensor, int64_t index) {
  return IsFloating(tensor.dtype) ? absl::StrCat(FloatingAt(tensor, index))
                                  : IntegerText(tensor, index);
}

// Adds one output's comparison to `result`.
void CompareOutput(size_t number, const Tensor& expected, const Tensor& actual,
                   const ParityTolerance& tolerance, ParityResult& result) {
  std::string difference = FormDifference(expected, actual);
  if (difference.empty()) {
    const int64_t count = ElementCount(expected.shape).value_or(0);
    const Comparison found =
        IsFloating(expected.dtype)
            ? CompareFloating(expected, actual, count, tolerance)
            : CompareExact(expected, actual, count);
    result.max_abs_error = std::max(result.max_abs_error, found.max_abs_error);
    if (found.different == 0) return;
    difference =
        absl::StrCat(Position(found.worst, expected.shape), ": eager ",
                     ElementText(expected, found.worst), ", compiled ",
                     ElementText(actual, found.worst), " (", found.different,
                     " of ", count, " elements differ)");
  }
  result.equal = false;
  if (result.difference.empty()) {
    result.difference = absl::StrCat("output ", number, difference);
  }
}

}  // namespace

ParityResult CompareOutputs(absl::Span<const Tensor> expected,
                            absl::Span<const Tensor> actual,
                            const ParityTolerance& tolerance) {
  ParityResult result;
  if (expected.size() != actual.size()) {
    result.difference = absl::StrCat("eager has ", expected.size(),
                                     " outputs, compiled ", actual.size());
    return result;
  }
  result.equal = true;
  for (size_t i = 0; i < expected.size(); ++i) {
    CompareOutput(i, expected[i], actual[i], tolerance, result);
  }
  return result;
}

absl::StatusOr<ParityResult> CheckParity(Executable& incumbent,
                                         Executable& candidate,
                                         ExecutionContext& context,
                                         absl::Span<const InputDomain> domains,
                                         int cases,
                                         const ParityTolerance& tolerance) {
  ParityResult total;
  total.equal = true;
  for (int seed = 0; seed < cases; ++seed) {
    const std::vector<Tensor> inputs = SeededInputs(domains, seed);
    ASSIGN_OR_RETURN(const RunResult expected, incumbent.Run(context, inputs));
    ASSIGN_OR_RETURN(const RunResult actual, candidate.Run(context, inputs));
    ParityResult result =
        CompareOutputs(expected.outputs, actual.outputs, tolerance);
    if (!actual.faults.empty() && expected.faults.empty()) {
      result.equal = false;
      result.difference = absl::StrCat(
          "compiled refused row ", actual.faults.front().row,
          ", which eager answered: ", actual.faults.front().message);
    }
    total.max_abs_error = std::max(total.max_abs_error, result.max_abs_error);
    if (!result.equal) {
      total.equal = false;
      total.difference = absl::StrCat("seed ", seed, ", ", result.difference);
      return total;
    }
  }
  return total;
}

}  // namespace stoker
