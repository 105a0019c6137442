// Does a compiled candidate answer like the incumbent (eager)? Both run on the
// same inputs. Floating outputs are compared element by element first, |a-b| <=
// atol + rtol*|b|; where that fails, by their root mean square errors against a
// float64 run of the program, of which the candidate's may be at most twice
// eager's (as torch/_dynamo/utils.py, `same`, judges PyTorch's benchmarks), and
// by the largest error of one element, which may be four times eager's. NaN and
// Inf patterns are equal, integers and booleans exact, in any case.
//
// Comparing is pure. RunParityCase runs where its runs do: on the thread that
// owns the ExecutionContext.
#pragma once

#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "promotion/verdict.h"
#include "tensor/run_result.h"
#include "tensor/tensor.h"

namespace stoker {

struct ParityTolerance {
  // For FP32. FP64 outputs get a thousandth of it, FP16 and BF16 at least 4
  // epsilon (relative) and 1 epsilon (absolute) of their format. With 0 and 0
  // outputs of any type have to be equal.
  double rtol = 3e-5;
  // For an output whose root mean square is 1 or more; in proportion for
  // smaller ones, so that small numbers are compared at all.
  double atol = 3e-5;
  // What follows has to hold too.
  // Root mean square of an output's differences, in proportion to that of the
  // output.
  double rms = std::numeric_limits<double>::infinity();
  // The least cosine between the two answers for a row: what an output has for
  // one index of its first dimension.
  double cosine = -1;
  // The least share of an output's rows, along its last dimension, whose
  // largest element is the same. Of outputs of two dimensions or more.
  double argmax = 0;
};

// What a comparison of two runs' outputs found.
struct Comparison {
  bool equal = true;
  // Not equal, and by rounding at most: forms, integers, NaN and Inf patterns
  // agree. A float64 run may still tell that both are as right.
  bool arguable = false;
  double max_abs_error = 0;                // over all floating outputs
  std::optional<double> argmax_agreement;  // promotion/verdict.h
  // Empty when equal; "output 1[0,3]: eager ..., compiled ...".
  std::string difference;
};
// Whether no floating output holds NaN or Inf.
bool AllFinite(absl::Span<const Tensor> outputs);

// `names`: of the two, in the difference.
struct ComparedNames {
  const char* expected = "eager";
  const char* actual = "compiled";
};
Comparison CompareOutputs(absl::Span<const Tensor> expected,
                          absl::Span<const Tensor> actual,
                          const ParityTolerance& tolerance,
                          const ComparedNames& names = {});

// Root mean square of the differences of two answers, in proportion to the
// first, of the floating output where it is the largest; infinite where their
// forms differ.
double RelativeError(absl::Span<const Tensor> expected,
                     absl::Span<const Tensor> actual);

// Errors against a float64 run, of the output where the candidate's are largest
// in proportion to eager's.
struct ReferenceErrors {
  double eager = 0;  // root mean square
  double compiled = 0;
  double eager_largest = 0;  // of one element
  double compiled_largest = 0;
  // The second bound is for what a mean over thousands of elements hides.
  bool acceptable() const {
    return compiled <= 2 * eager && compiled_largest <= 4 * eager_largest;
  }
};
// `reference` has an FP64 output of the same shape for every floating output;
// others are not looked at. INVALID_ARGUMENT when it hasn't.
absl::StatusOr<ReferenceErrors> CompareWithReference(
    absl::Span<const Tensor> reference, absl::Span<const Tensor> eager,
    absl::Span<const Tensor> compiled);

// A run of one of the two forms on inputs of the case's sizes.
using RunFunction =
    absl::FunctionRef<absl::StatusOr<RunResult>(absl::Span<const Tensor>)>;

struct ParityRun {
  Comparison comparison;
  std::vector<Tensor> eager;
  std::vector<Tensor> compiled;
};
// Runs both on `inputs`. A row that only the candidate refuses, and inputs that
// it changed, are differences that nothing can argue away. INVALID_ARGUMENT
// when eager refuses the inputs; an error of a run is an error of the check.
absl::StatusOr<ParityRun> RunParityCase(absl::Span<const Tensor> inputs,
                                        RunFunction incumbent,
                                        RunFunction candidate,
                                        const ParityTolerance& tolerance);

}  // namespace stoker
