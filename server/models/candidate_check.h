// The evidence on one compiled candidate: parity with eager on made-up inputs,
// of the bucket's size and of sizes that are padded to it, on the ends of their
// ranges, and on requests that were recorded; then paired timing.
//
// Thread-safe; blocks. Every run is one piece of work for the first device
// thread, which serves batches in between.
#pragma once

#include <stop_token>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/clock.h"
#include "batching/batch_layout.h"
#include "batching/batcher.h"
#include "models/device_threads.h"
#include "models/made_up_inputs.h"
#include "models/reference_run.h"
#include "planning/parity_cases.h"
#include "promotion/parity_check.h"
#include "promotion/profitability_check.h"
#include "promotion/verdict.h"
#include "repository/model_spec.h"
#include "runner/executable.h"

namespace stoker {

class CandidateCheck {
 public:
  struct Recorded {  // a request of the traffic
    DimensionSizes sizes;
    std::vector<Tensor> inputs;  // in the model's order
  };
  struct Deps {
    const ModelSpec* spec = nullptr;
    const BatchLayout* layout = nullptr;
    const MadeUpInputs* made_up = nullptr;
    const DeviceThreads* device_threads = nullptr;
    Clock* clock = nullptr;
    const ReferenceRun* reference = nullptr;  // null: tolerances alone judge
    std::string machine;                      // for what is timed
    std::stop_token stop;  // checks end soon, and say nothing
  };
  // What is behind `deps` outlives this object.
  explicit CandidateCheck(Deps deps) : deps_(std::move(deps)) {}

  struct Evidence {
    Parity parity;
    // Inputs and both answers, as a tensor file (tensor/tensor_file.h), when
    // parity failed and they are not too large.
    std::string reproducer;
  };

  // How much of an artifact's evidence is there already.
  enum class Proved {
    kNothing,
    // All of it, with other weights. What sizes and seeds show of the code is
    // known: the bucket's own size, the least that is padded to it and the
    // extremes are tried.
    kCode,
  };

  // `bucket`: or a dynamic form. `recorded` are tried where they fit, those
  // that eager refuses excepted. What it returns is final. An error: the check
  // could not be made, be it for want of a float64 run to judge by, and nothing
  // is known. CANCELLED when stopping.
  absl::StatusOr<Evidence> CheckParity(Executable& eager, Executable& candidate,
                                       const ShapeBucket& bucket,
                                       absl::Span<const Recorded> recorded = {},
                                       Proved proved = Proved::kNothing) const;

  // Times the two. `candidate_bytes`: of its files. A dynamic form has to be
  // worth it at each of the sizes that it is timed at; the figures are those of
  // the worst.
  enum class Look {
    // For the next second or so, while somebody waits: ends at what looks
    // promising. Not clear where the second look could say something else.
    kFirst,
    // Until it is clear. What is worth it is timed also with the fewest threads
    // that runs may be given: on a busy host they get no more.
    kSecond,
  };
  absl::StatusOr<Profit> Measure(Executable& eager, Executable& candidate,
                                 const ShapeBucket& bucket,
                                 int64_t candidate_bytes, Look look) const;

  // Whether the bucket's own code is faster than a dynamic form's.
  absl::StatusOr<OverDynamic> Compare(Executable& form, Executable& candidate,
                                      const ShapeBucket& bucket) const;

  // Whether requests may be padded at all: the same answers of eager, padded
  // and not, along each dimension. FAILED_PRECONDITION, with the dimension and
  // the values, when they differ; INVALID_ARGUMENT when eager refuses the
  // inputs. OK for a program that differs from itself.
  absl::Status ProvePadding(Executable& eager, const ShapeBucket& bucket) const;

 private:
  struct Case {
    CaseSizes sizes;
    const Recorded* recorded = nullptr;  // null: made up
    bool extremes = false;
  };
  std::vector<Case> Cases(const ShapeBucket& bucket,
                          const Executable& candidate,
                          absl::Span<const Recorded> recorded,
                          Proved proved) const;
  enum class Cores { kAll, kFewest };  // of those that are to be had
  absl::StatusOr<ProfitMeasurement> Time(Executable& incumbent,
                                         Executable& candidate,
                                         const DimensionSizes& sizes,
                                         const ProfitOptions& options,
                                         Cores cores) const;
  // At sizes of the program's own.
  absl::StatusOr<Profit> Judge(Executable& eager, Executable& candidate,
                               const DimensionSizes& sizes,
                               const ProfitSizes& bytes, Look look) const;
  // Adds what comes of it to the evidence.
  absl::Status TryCase(Executable& eager, Executable& candidate,
                       const ShapeBucket& bucket, const Case& one,
                       Evidence& evidence) const;
  // Has a float64 run say whether two answers that differ by more than the
  // tolerance are as right as each other; adds what it says to `found`, whose
  // difference is empty then. An error: it said nothing.
  absl::Status Arbitrate(absl::Span<const Tensor> inputs, const ParityRun& run,
                         ParityCase& found) const;
  // Inputs of these sizes that `form` doesn't refuse.
  absl::StatusOr<std::vector<Tensor>> AcceptedInputs(
      Executable& form, const DimensionSizes& sizes) const;
  // Empty, or how two runs of `form` on the same inputs differ by more than
  // `tolerance`.
  absl::StatusOr<std::string> Indeterminacy(
      Executable& form, const DimensionSizes& sizes,
      const ParityTolerance& tolerance) const;
  absl::Status OnDevice(
      absl::FunctionRef<absl::Status(ExecutionContext& context)> work) const {
    return deps_.device_threads->Run(0, work);
  }

  const Deps deps_;
};

}  // namespace stoker
