// The half of CandidateCheck that tells which form is faster.
#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "models/candidate_check.h"
#include "models/padded_run.h"
#include "planning/parity_cases.h"
#include "promotion/profitability_check.h"

namespace stoker {
namespace {

// How long timing holds the device thread at a stretch.
constexpr absl::Duration kStretch = absl::Milliseconds(20);

constexpr ProfitOptions kFirstLook = {.budget = absl::Seconds(1),
                                      .promising_pairs = 5};

}  // namespace

absl::StatusOr<Profit> CandidateCheck::Measure(Executable& eager,
                                               Executable& candidate,
                                               const ShapeBucket& bucket,
                                               int64_t candidate_bytes,
                                               Look look) const {
  const ModelSpec& spec = *deps_.spec;
  std::vector<DimensionSizes> timed = {bucket.sizes};
  if (IsDynamic(bucket)) {
    timed = SizesOfForm(spec, bucket);
    timed.resize(std::min(timed.size(), kTimedSizesOfForm));
    timed = SizesTaken(spec, std::move(timed), candidate);
  }
  std::optional<Profit> worst;
  bool worth_on_fewer = true;
  double on_fewer = 0;
  for (const DimensionSizes& sizes : timed) {
    ASSIGN_OR_RETURN(Profit judged,
                     Judge(eager, candidate, sizes,
                           {.incumbent_bytes = spec.weights_bytes,
                            .candidate_bytes = candidate_bytes},
                           look));
    if (timed.size() > 1) {
      absl::StrAppend(&judged.reason, ", at ",
                      BucketName({sizes}, spec.DimensionNames()));
    }
    if (judged.speedup_on_fewer > 0 &&
        (on_fewer == 0 || judged.speedup_on_fewer < on_fewer)) {
      on_fewer = judged.speedup_on_fewer;
    }
    worth_on_fewer = worth_on_fewer && judged.worth_on_fewer;
    if (!worst.has_value() || judged.speedup < worst->speedup) {
      worst = std::move(judged);
    }
    if (!worst->worth) break;
  }
  if (!worst.has_value()) {
    return absl::FailedPreconditionError(
        "the compiled code takes none of the sizes that it was to be timed at");
  }
  worst->worth_on_fewer = worth_on_fewer;
  worst->speedup_on_fewer = on_fewer;
  return *std::move(worst);
}

absl::StatusOr<Profit> CandidateCheck::Judge(Executable& eager,
                                             Executable& candidate,
                                             const DimensionSizes& sizes,
                                             const ProfitSizes& bytes,
                                             Look look) const {
  const ProfitOptions options =
      look == Look::kFirst ? kFirstLook : ProfitOptions();
  ASSIGN_OR_RETURN(const ProfitMeasurement all,
                   Time(eager, candidate, sizes, options, Cores::kAll));
  Profit judged = JudgeProfit(all, bytes, options);
  judged.measured_on = deps_.machine;
  if (!judged.worth || all.threads <= all.fewest_threads) return judged;
  if (look == Look::kFirst) {
    judged.clear = false;
    return judged;
  }
  ASSIGN_OR_RETURN(const ProfitMeasurement few,
                   Time(eager, candidate, sizes, options, Cores::kFewest));
  const Profit on_fewer = JudgeProfit(few, bytes, options);
  judged.worth_on_fewer = on_fewer.worth;
  judged.speedup_on_fewer = on_fewer.speedup;
  judged.clear = judged.clear && on_fewer.clear;
  if (!on_fewer.worth) {
    absl::StrAppend(&judged.reason, "; on ", few.threads, " of ", all.threads,
                    " threads ", on_fewer.reason, ", and left to eager");
  }
  return judged;
}

absl::StatusOr<ProfitMeasurement> CandidateCheck::Time(
    Executable& incumbent, Executable& candidate, const DimensionSizes& sizes,
    const ProfitOptions& options, Cores cores) const {
  ASSIGN_OR_RETURN(const std::vector<Tensor> inputs,
                   AcceptedInputs(incumbent, sizes));
  ProfitMeasurement measured;
  const MonotonicTime start = deps_.clock->Now();
  while (!IsEnough(measured, deps_.clock->Now() - start, options)) {
    RETURN_IF_ERROR(OnDevice([&](ExecutionContext& context) {
      absl::Status status;
      const auto measure = [&] {
        status = MeasurePairs(incumbent, candidate, context, inputs,
                              *deps_.clock, kStretch, measured);
      };
      if (cores == Cores::kFewest) {
        context.WithFewestThreads(measure);
      } else {
        measure();
      }
      return status;
    }));
  }
  return measured;
}

absl::StatusOr<OverDynamic> CandidateCheck::Compare(
    Executable& form, Executable& candidate, const ShapeBucket& bucket) const {
  ASSIGN_OR_RETURN(
      const ProfitMeasurement measured,
      Time(form, candidate, bucket.sizes, ProfitOptions(), Cores::kAll));
  const SpeedupInterval speedup = EstimateSpeedup(measured);
  OverDynamic over;
  over.speedup = speedup.median;
  // Two per cent are not worth a package.
  over.faster = speedup.low > 1 && speedup.median > 1 + ProfitOptions().tie;
  return over;
}

}  // namespace stoker
