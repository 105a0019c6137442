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

// Of the magnitude below which the absolute tolerance doesn't shrink any more.
constexpr double kLeastMagnitude = 1e-3;

// A tolerance that the format of an output can meet: neighbours of FP16 and
// BF16 lie further apart than the default, and compiled code keeps intermediate
// results in FP32 where eager rounds each of them.
ParityTolerance ToleranceOf(const ParityTolerance& given, DataType dtype) {
  if (given.rtol == 0 && given.atol == 0) return given;
  ParityTolerance tolerance = given;
  if (dtype == DataType::kFp64) {
    constexpr double kFinerThanFp32 = 1e-3;
    tolerance.rtol *= kFinerThanFp32;
    tolerance.atol *= kFinerThanFp32;
    return tolerance;
  }
  double epsilon = 0;
  if (dtype == DataType::kFp16) epsilon = 0x1p-10;
  if (dtype == DataType::kBf16) epsilon = 0x1p-7;
  tolerance.rtol = std::max(given.rtol, 4 * epsilon);
  tolerance.atol = std::max(given.atol, epsilon);
  tolerance.rms = std::max(given.rms, epsilon);
  return tolerance;
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
struct OutputComparison {
  double max_abs_error = 0;
  int64_t different = 0;
  int64_t patterns = 0;       // of these, NaN or Inf against something else
  int64_t worst = -1;         // flat index of the element that is most wrong
  std::optional<double> rms;  // of all differences, where it is too large
};

// Root mean square of the finite elements.
double Magnitude(const Tensor& tensor, int64_t count) {
  double squares = 0;
  int64_t finite = 0;
  for (int64_t i = 0; i < count; ++i) {
    const double value = FloatingAt(tensor, i);
    if (!std::isfinite(value)) continue;
    squares += value * value;
    ++finite;
  }
  return finite == 0 ? 0 : std::sqrt(squares / static_cast<double>(finite));
}

struct Errors {
  double mean = 0;  // root mean square
  double largest = 0;
};

Errors ErrorsOf(const Tensor& reference, const Tensor& answer, int64_t count) {
  Errors errors;
  double squares = 0;
  int64_t finite = 0;
  for (int64_t i = 0; i < count; ++i) {
    const double error = FloatingAt(answer, i) - FloatingAt(reference, i);
    // Patterns agree between the two answers; where the float64 run is finite
    // and they are not, or the other way, they err alike.
    if (!std::isfinite(error)) continue;
    squares += error * error;
    errors.largest = std::max(errors.largest, std::abs(error));
    ++finite;
  }
  if (finite > 0)
    errors.mean = std::sqrt(squares / static_cast<double>(finite));
  return errors;
}

// How many times as far from the float64 run.
double TimesAsFar(double compiled, double eager) {
  if (compiled == 0) return 0;
  return eager == 0 ? std::numeric_limits<double>::infinity()
                    : compiled / eager;
}

// Of the differences, in proportion to the expected output of that magnitude.
double RelativeRms(const Tensor& expected, const Tensor& actual, int64_t count,
                   double magnitude) {
  return ErrorsOf(expected, actual, count).mean /
         std::max(magnitude, kLeastMagnitude);
}

OutputComparison CompareFloating(const Tensor& expected, const Tensor& actual,
                                 int64_t count, const ParityTolerance& given) {
  ParityTolerance tolerance = ToleranceOf(given, expected.dtype);
  const double magnitude = Magnitude(expected, count);
  tolerance.atol *= std::clamp(magnitude, kLeastMagnitude, 1.0);
  OutputComparison found;
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
    found.patterns += finite ? 0 : 1;
    if (error > worst_error) {
      worst_error = error;
      found.worst = i;
    }
  }
  if (std::isfinite(tolerance.rms)) {
    const double rms = RelativeRms(expected, actual, count, magnitude);
    if (rms > tolerance.rms) found.rms = rms;
  }
  return found;
}

// Exact; integers don't enter the error, whose unit is that of floating
// outputs.
OutputComparison CompareExact(const Tensor& expected, const Tensor& actual,
                              int64_t count) {
  const size_t size = DataTypeSize(expected.dtype);
  OutputComparison found;
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

// The two have the same form, and bytes enough for it.
bool HaveOneForm(const Tensor& expected, const Tensor& actual) {
  return expected.dtype == actual.dtype && expected.shape == actual.shape &&
         expected.byte_size == actual.byte_size &&
         DataTypeSize(expected.dtype) > 0;
}

std::string ElementText(const Tensor& tensor, int64_t index) {
  return IsFloating(tensor.dtype) ? absl::StrCat(FloatingAt(tensor, index))
                                  : IntegerText(tensor, index);
}

int64_t LargestOf(const Tensor& tensor, int64_t begin, int64_t length) {
  int64_t largest = begin;
  for (int64_t i = begin + 1; i < begin + length; ++i) {
    if (FloatingAt(tensor, i) > FloatingAt(tensor, largest)) largest = i;
  }
  return largest;
}

std::optional<double> ArgmaxAgreement(const Tensor& expected,
                                      const Tensor& actual) {
  if (!IsFloating(expected.dtype) || expected.shape.size() < 2) {
    return std::nullopt;
  }
  const int64_t length = expected.shape.back();
  const int64_t count = ElementCount(expected.shape).value_or(0);
  if (length < 2 || count == 0) return std::nullopt;
  int64_t agreeing = 0;
  for (int64_t begin = 0; begin < count; begin += length) {
    agreeing +=
        LargestOf(expected, begin, length) == LargestOf(actual, begin, length)
            ? 1
            : 0;
  }
  const int64_t rows = count / length;
  return static_cast<double>(agreeing) / static_cast<double>(rows);
}

// The least over the first dimension; of finite numbers, and 1 where both are
// nothing but zeros.
double LeastCosine(const Tensor& expected, const Tensor& actual,
                   int64_t count) {
  const int64_t rows = expected.shape.empty() ? 1 : expected.shape.front();
  const int64_t length = rows == 0 ? 0 : count / rows;
  double least = 1;
  for (int64_t row = 0; row < rows; ++row) {
    double product = 0;
    double squares_a = 0;
    double squares_b = 0;
    for (int64_t i = row * length; i < (row + 1) * length; ++i) {
      const double b = FloatingAt(expected, i);
      const double a = FloatingAt(actual, i);
      if (!std::isfinite(a) || !std::isfinite(b)) continue;
      product += a * b;
      squares_a += a * a;
      squares_b += b * b;
    }
    if (squares_a == 0 && squares_b == 0) continue;
    const double lengths = std::sqrt(squares_a * squares_b);
    least = std::min(least, lengths == 0 ? 0 : product / lengths);
  }
  return least;
}

// Empty, or how rows of a floating output point elsewhere than the tolerance
// allows. `agreement`: ArgmaxAgreement's.
std::string DifferentRows(const Tensor& expected, const Tensor& actual,
                          int64_t count, std::optional<double> agreement,
                          const ParityTolerance& tolerance) {
  if (tolerance.cosine > -1) {
    const double cosine = LeastCosine(expected, actual, count);
    if (cosine < tolerance.cosine) {
      return absl::StrCat(": cosine of a row with its own ", cosine,
                          ", less than ", tolerance.cosine);
    }
  }
  if (agreement.value_or(1) < tolerance.argmax) {
    return absl::StrCat(": of ", *agreement,
                        " of the rows the largest element is the same, less "
                        "than of ",
                        tolerance.argmax);
  }
  return "";
}

// Adds one output's comparison to `result`.
void CompareOutput(size_t number, const Tensor& expected, const Tensor& actual,
                   const ParityTolerance& tolerance, const ComparedNames& names,
                   Comparison& result) {
  const auto differ = [&](bool arguable, const std::string& how) {
    result.arguable = arguable && (result.equal || result.arguable);
    result.equal = false;
    if (result.difference.empty()) {
      result.difference = absl::StrCat("output ", number, how);
    }
  };
  if (!HaveOneForm(expected, actual)) {
    differ(false, absl::StrCat(": ", names.expected, " ",
                               Absl(DataTypeName(expected.dtype)), " ",
                               ShapeString(expected.shape), ", ", names.actual,
                               " ", Absl(DataTypeName(actual.dtype)), " ",
                               ShapeString(actual.shape)));
    return;
  }
  const int64_t count = ElementCount(expected.shape).value_or(0);
  const bool floating = IsFloating(expected.dtype);
  const OutputComparison found =
      floating ? CompareFloating(expected, actual, count, tolerance)
               : CompareExact(expected, actual, count);
  result.max_abs_error = std::max(result.max_abs_error, found.max_abs_error);
  const bool first = !result.argmax_agreement.has_value();
  const std::optional<double> agreement =
      first || tolerance.argmax > 0 ? ArgmaxAgreement(expected, actual)
                                    : std::nullopt;
  if (first) result.argmax_agreement = agreement;
  if (found.rms.has_value()) {
    differ(false,
           absl::StrCat(": root mean square of the differences ", *found.rms,
                        " of the output's, more than ", tolerance.rms));
  }
  if (floating) {
    const std::string rows =
        DifferentRows(expected, actual, count, agreement, tolerance);
    if (!rows.empty()) differ(false, rows);
  }
  if (found.different == 0) return;
  differ(
      floating && found.patterns == 0,
      absl::StrCat(Position(found.worst, expected.shape), ": ", names.expected,
                   " ", ElementText(expected, found.worst), ", ", names.actual,
                   " ", ElementText(actual, found.worst), " (", found.different,
                   " of ", count, " elements differ)"));
}

std::vector<std::string> BytesOf(absl::Span<const Tensor> tensors) {
  std::vector<std::string> bytes;
  for (const Tensor& tensor : tensors) {
    bytes.emplace_back(reinterpret_cast<const char*>(tensor.data),
                       tensor.byte_size);
  }
  return bytes;
}

}  // namespace

bool AllFinite(absl::Span<const Tensor> outputs) {
  for (const Tensor& output : outputs) {
    if (!IsFloating(output.dtype)) continue;
    const int64_t count = ElementCount(output.shape).value_or(0);
    for (int64_t i = 0; i < count; ++i) {
      if (!std::isfinite(FloatingAt(output, i))) return false;
    }
  }
  return true;
}

Comparison CompareOutputs(absl::Span<const Tensor> expected,
                          absl::Span<const Tensor> actual,
                          const ParityTolerance& tolerance,
                          const ComparedNames& names) {
  Comparison result;
  if (expected.size() != actual.size()) {
    result.equal = false;
    result.difference =
        absl::StrCat(names.expected, " has ", expected.size(), " outputs, ",
                     names.actual, " ", actual.size());
    return result;
  }
  for (size_t i = 0; i < expected.size(); ++i) {
    CompareOutput(i, expected[i], actual[i], tolerance, names, result);
  }
  return result;
}

double RelativeError(absl::Span<const Tensor> expected,
                     absl::Span<const Tensor> actual) {
  constexpr double kOther = std::numeric_limits<double>::infinity();
  if (expected.size() != actual.size()) return kOther;
  double largest = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    if (!HaveOneForm(expected[i], actual[i])) return kOther;
    if (!IsFloating(expected[i].dtype)) continue;
    const int64_t count = ElementCount(expected[i].shape).value_or(0);
    largest = std::max(largest, RelativeRms(expected[i], actual[i], count,
                                            Magnitude(expected[i], count)));
  }
  return largest;
}

absl::StatusOr<ReferenceErrors> CompareWithReference(
    absl::Span<const Tensor> reference, absl::Span<const Tensor> eager,
    absl::Span<const Tensor> compiled) {
  if (reference.size() != eager.size() || eager.size() != compiled.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the float64 run has ", reference.size(),
                     " outputs, expected ", eager.size()));
  }
  ReferenceErrors worst;
  double worst_ratio = -1;
  for (size_t i = 0; i < eager.size(); ++i) {
    if (!IsFloating(eager[i].dtype)) continue;
    const int64_t count = ElementCount(eager[i].shape).value_or(0);
    if (reference[i].dtype != DataType::kFp64 ||
        reference[i].shape != eager[i].shape ||
        !HaveOneForm(eager[i], compiled[i])) {
      return absl::InvalidArgumentError(
          absl::StrCat("output ", i, " of the float64 run is ",
                       Absl(DataTypeName(reference[i].dtype)), " ",
                       ShapeString(reference[i].shape), ", expected FP64 ",
                       ShapeString(eager[i].shape)));
    }
    const Errors of_eager = ErrorsOf(reference[i], eager[i], count);
    const Errors of_compiled = ErrorsOf(reference[i], compiled[i], count);
    const ReferenceErrors errors = {.eager = of_eager.mean,
                                    .compiled = of_compiled.mean,
                                    .eager_largest = of_eager.largest,
                                    .compiled_largest = of_compiled.largest};
    // In units of what is acceptable.
    const double ratio =
        std::max(TimesAsFar(errors.compiled, 2 * errors.eager),
                 TimesAsFar(errors.compiled_largest, 4 * errors.eager_largest));
    if (ratio <= worst_ratio) continue;
    worst_ratio = ratio;
    worst = errors;
  }
  return worst;
}

absl::StatusOr<ParityRun> RunParityCase(absl::Span<const Tensor> inputs,
                                        RunFunction incumbent,
                                        RunFunction candidate,
                                        const ParityTolerance& tolerance) {
  ASSIGN_OR_RETURN(RunResult expected, incumbent(inputs));
  const std::vector<std::string> before = BytesOf(inputs);
  ASSIGN_OR_RETURN(RunResult actual, candidate(inputs));
  ParityRun run;
  run.comparison = CompareOutputs(expected.outputs, actual.outputs, tolerance);
  const auto differ = [&](std::string difference) {
    run.comparison.equal = false;
    run.comparison.arguable = false;
    run.comparison.difference = std::move(difference);
  };
  if (!actual.faults.empty() && expected.faults.empty()) {
    differ(absl::StrCat(
        "compiled refused row ", actual.faults.front().row,
        ", which eager answered: ", actual.faults.front().message));
  }
  if (BytesOf(inputs) != before) differ("compiled wrote into its inputs");
  run.eager = std::move(expected.outputs);
  run.compiled = std::move(actual.outputs);
  return run;
}

}  // namespace stoker
