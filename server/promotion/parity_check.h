// Does a compiled candidate answer like the incumbent (eager)? Runs both on
// seeded inputs and compares: floating outputs by |a-b| <= atol + rtol*|b| with
// NaN and Inf patterns equal, integer and boolean outputs exactly. FP16 and
// BF16 outputs get a tolerance of at least 4 epsilon (relative) and 1 epsilon
// (absolute) of their format.
//
// Runs on the thread that owns the ExecutionContext.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "promotion/verdict.h"
#include "runner/executable.h"
#include "tensor/shape_bucket.h"
#include "tensor/tensor.h"

namespace stoker {

// What seeded inputs are drawn from; one per input.
struct InputDomain {
  DataType dtype = DataType::kFp32;
  Shape shape;  // concrete
  double low = 0;
  double high = 1;      // closed range; integers and booleans use it rounded
  bool normal = false;  // floating point from N(0,1), range ignored
};

struct ParityTolerance {
  double rtol = 1e-4;
  double atol = 1e-4;
};

// Deterministic in (domains, seed), the same on every host: splitmix64, one
// stream per input; a normal distribution is the sum of twelve uniform numbers
// less six. Buffers are 64-byte aligned.
std::vector<Tensor> SeededInputs(absl::Span<const InputDomain> domains,
                                 uint64_t seed);

struct ParityResult {
  bool equal = false;
  double max_abs_error = 0;
  std::string
      difference;  // empty when equal; "output 1[0,3]: eager ..., compiled ..."
};
// Pure comparison of two runs' outputs.
ParityResult CompareOutputs(absl::Span<const Tensor> expected,
                            absl::Span<const Tensor> actual,
                            const ParityTolerance& tolerance);

// Runs `cases` seeds (0, 1, ...) through both, up to the first that differs. An
// error of a run is an error of the check; a row that only the candidate
// refuses is a difference.
absl::StatusOr<ParityResult> CheckParity(Executable& incumbent,
                                         Executable& candidate,
                                         ExecutionContext& context,
                                         absl::Span<const InputDomain> domains,
                                         int cases,
                                         const ParityTolerance& tolerance);

}  // namespace stoker
