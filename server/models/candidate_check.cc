#include "models/candidate_check.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "models/padded_run.h"
#include "planning/parity_cases.h"
#include "promotion/parity_check.h"
#include "tensor/tensor_file.h"

namespace stoker {
namespace {

// A model that runs for minutes is compared on two cases instead of all.
constexpr absl::Duration kParityPatience = absl::Minutes(1);
constexpr size_t kFewestCases = 2;
constexpr size_t kMaxReproducerBytes = size_t{64} << 20;

// Extremes are up to a hundred times what is usual, and so is the rounding of
// what cancels out.
constexpr double kExtremeScale = 100;

// Kernels for another number of rows sum in another order; what rows that
// depend on each other change is larger by far.
constexpr double kOtherRowsScale = 10;

ParityTolerance ToleranceOf(const ModelSpec& spec, bool extremes = false) {
  return {.rtol = spec.parity.rtol,
          .atol = spec.parity.atol * (extremes ? kExtremeScale : 1),
          .rms = spec.parity.rms,
          .cosine = spec.parity.cosine,
          .argmax = spec.parity.argmax};
}

ParityTolerance ToleranceOfPadding(const ModelSpec& spec, bool rows) {
  ParityTolerance tolerance = ToleranceOf(spec);
  if (rows) {
    tolerance.rtol *= kOtherRowsScale;
    tolerance.atol *= kOtherRowsScale;
  }
  return tolerance;
}

std::string Reproducer(const ModelSpec& spec, absl::Span<const Tensor> inputs,
                       const ParityRun& run) {
  NamedTensors tensors;
  for (size_t i = 0; i < inputs.size(); ++i) {
    tensors.emplace(absl::StrCat("input.", spec.inputs[i].name), inputs[i]);
  }
  const auto add = [&](const char* form, absl::Span<const Tensor> outputs) {
    for (size_t i = 0; i < outputs.size(); ++i) {
      tensors.emplace(absl::StrCat(form, ".", i), outputs[i]);
    }
  };
  add("eager", run.eager);
  add("compiled", run.compiled);
  size_t bytes = 0;
  for (const auto& [name, tensor] : tensors) bytes += tensor.byte_size;
  if (bytes > kMaxReproducerBytes) return "";
  return TensorFileBytes(tensors).value_or("");
}

}  // namespace

absl::StatusOr<std::vector<Tensor>> CandidateCheck::AcceptedInputs(
    Executable& form, const DimensionSizes& sizes) const {
  std::vector<Tensor> accepted;
  RETURN_IF_ERROR(deps_.made_up->Try(
      sizes, /*seed=*/0, [&](absl::Span<const Tensor> inputs) {
        accepted.assign(inputs.begin(), inputs.end());
        return OnDevice([&](ExecutionContext& context) {
          return form.Run(context, inputs).status();
        });
      }));
  return accepted;
}

absl::StatusOr<std::string> CandidateCheck::Indeterminacy(
    Executable& form, const DimensionSizes& sizes,
    const ParityTolerance& tolerance) const {
  ASSIGN_OR_RETURN(const std::vector<Tensor> inputs,
                   AcceptedInputs(form, sizes));
  std::vector<Tensor> outputs[2];
  for (std::vector<Tensor>& one : outputs) {
    RETURN_IF_ERROR(OnDevice([&](ExecutionContext& context) -> absl::Status {
      ASSIGN_OR_RETURN(RunResult result, form.Run(context, inputs));
      one = std::move(result.outputs);
      return absl::OkStatus();
    }));
  }
  return CompareOutputs(outputs[0], outputs[1], tolerance,
                        {"one run", "the next"})
      .difference;
}

absl::StatusOr<CandidateCheck::Evidence> CandidateCheck::CheckParity(
    Executable& eager, Executable& candidate, const ShapeBucket& bucket,
    absl::Span<const Recorded> recorded, Proved proved) const {
  const ModelSpec& spec = *deps_.spec;
  Evidence evidence;
  Parity& parity = evidence.parity;
  parity.rtol = spec.parity.rtol;
  parity.atol = spec.parity.atol;
  const std::vector<Case> cases = Cases(bucket, candidate, recorded, proved);
  if (cases.empty()) {
    return absl::FailedPreconditionError(
        "the compiled code takes none of the sizes that it was to be tried at");
  }
  if (spec.compile.deterministic) {
    ASSIGN_OR_RETURN(const std::string varies,
                     Indeterminacy(candidate, cases.front().sizes.sizes,
                                   {.rtol = 0, .atol = 0}));
    if (!varies.empty()) {
      parity.reason =
          absl::StrCat("asked to be deterministic, and is not: ", varies);
      return evidence;
    }
  }
  const MonotonicTime start = deps_.clock->Now();
  for (const Case& one : cases) {
    if (!parity.reason.empty()) break;
    if (parity.cases.size() >= kFewestCases &&
        deps_.clock->Now() - start > kParityPatience) {
      break;
    }
    RETURN_IF_ERROR(TryCase(eager, candidate, bucket, one, evidence));
  }
  parity.equal = parity.reason.empty();
  return evidence;
}

std::vector<CandidateCheck::Case> CandidateCheck::Cases(
    const ShapeBucket& bucket, const Executable& candidate,
    absl::Span<const Recorded> recorded, Proved proved) const {
  const ModelSpec& spec = *deps_.spec;
  const bool dynamic = IsDynamic(bucket);
  std::vector<Case> cases;
  if (dynamic) {
    for (DimensionSizes& sizes :
         SizesTaken(spec, SizesOfForm(spec, bucket), candidate)) {
      cases.push_back(
          {{.seed = cases.size(), .sizes = std::move(sizes)}, nullptr});
    }
  } else {
    for (CaseSizes& made_up : ParityCases(spec, bucket)) {
      cases.push_back({std::move(made_up), nullptr});
    }
  }
  if (proved == Proved::kCode && !cases.empty()) {
    const DimensionSizes own = cases.front().sizes.sizes;
    const auto least = std::find_if(
        cases.rbegin(), cases.rend(),
        [&own](const Case& one) { return one.sizes.sizes != own; });
    std::vector<Case> kept = {cases.front()};
    if (least != cases.rend()) kept.push_back(*least);
    cases = std::move(kept);
  }
  if (!cases.empty()) {
    Case extremes{.sizes = cases.front().sizes, .extremes = true};
    extremes.sizes.seed = cases.size();
    cases.push_back(std::move(extremes));
  }
  for (size_t i = 0; i < recorded.size(); ++i) {
    const DimensionSizes& sizes = recorded[i].sizes;
    if (dynamic ? !candidate.Takes(recorded[i].inputs)
                : !Fits(spec, sizes, bucket)) {
      continue;
    }
    cases.push_back({{.seed = i,
                      .sizes = sizes,
                      .padded = !dynamic && sizes != bucket.sizes},
                     &recorded[i]});
  }
  return cases;
}

absl::Status CandidateCheck::TryCase(Executable& eager, Executable& candidate,
                                     const ShapeBucket& bucket, const Case& one,
                                     Evidence& evidence) const {
  const ModelSpec& spec = *deps_.spec;
  Parity& parity = evidence.parity;
  PaddedRun padded(*deps_.layout);
  std::vector<Tensor> inputs;
  ParityRun run;
  absl::Status ran;
  const ParityTolerance tolerance = ToleranceOf(spec, one.extremes);
  // INVALID_ARGUMENT when eager refuses them.
  const auto run_on = [&](absl::Span<const Tensor> tried) -> absl::Status {
    inputs.assign(tried.begin(), tried.end());
    absl::Status refused;
    ran = OnDevice([&](ExecutionContext& context) -> absl::Status {
      ASSIGN_OR_RETURN(
          run, RunParityCase(
                   inputs,
                   [&](absl::Span<const Tensor> given) {
                     auto answer = eager.Run(context, given);
                     if (absl::IsInvalidArgument(answer.status())) {
                       refused = answer.status();
                     }
                     return answer;
                   },
                   [&](absl::Span<const Tensor> given) {
                     absl::StatusOr<RunResult> answer;
                     context.WithPoisonedMemory([&] {
                       answer = one.sizes.padded
                                    ? padded.Run(candidate, context, given,
                                                 one.sizes.sizes, bucket)
                                    : candidate.Run(context, given);
                     });
                     return answer;
                   },
                   tolerance));
      return absl::OkStatus();
    });
    return refused;
  };
  if (one.recorded != nullptr) {
    if (!run_on(one.recorded->inputs).ok()) return absl::OkStatus();
  } else if (one.extremes) {
    const std::vector<Tensor> extremes =
        deps_.made_up->Extremes(one.sizes.sizes, one.sizes.seed);
    if (!run_on(extremes).ok()) return absl::OkStatus();
    // Where eager overflows, on the way even, there is no right answer.
    if (ran.ok() && !AllFinite(run.eager)) return absl::OkStatus();
  } else {
    RETURN_IF_ERROR(
        deps_.made_up->Try(one.sizes.sizes, one.sizes.seed, run_on));
  }
  RETURN_IF_ERROR(ran);
  ParityCase& found = parity.cases.emplace_back();
  found.seed = one.sizes.seed;
  found.recorded = one.recorded != nullptr;
  found.extremes = one.extremes;
  found.sizes = BucketName(ShapeBucket{one.sizes.sizes}, spec.DimensionNames());
  found.max_abs_error = run.comparison.max_abs_error;
  found.argmax_agreement = run.comparison.argmax_agreement;
  found.difference = run.comparison.difference;
  if (!one.extremes) {  // whose answers are large, and so are their errors
    parity.max_abs_error = std::max(parity.max_abs_error, found.max_abs_error);
  }
  if (run.comparison.equal) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::string unsteady,
                   Indeterminacy(eager, one.sizes.sizes, ToleranceOf(spec)));
  if (!unsteady.empty()) {
    parity.reason = absl::StrCat(
        "eager answers the same inputs differently each time, so nothing can "
        "be compared: ",
        unsteady);
    return absl::OkStatus();
  }
  if (run.comparison.arguable && deps_.reference != nullptr) {
    RETURN_IF_ERROR(Arbitrate(inputs, run, found));
    if (found.difference.empty()) return absl::OkStatus();
  }
  evidence.reproducer = Reproducer(spec, inputs, run);
  parity.reason =
      absl::StrCat(found.recorded   ? "recorded request "
                   : found.extremes ? "extremes of seed "
                                    : "seed ",
                   found.seed, ", ", found.sizes,
                   one.sizes.padded ? " padded, " : ", ", found.difference);
  return absl::OkStatus();
}

absl::Status CandidateCheck::Arbitrate(absl::Span<const Tensor> inputs,
                                       const ParityRun& run,
                                       ParityCase& found) const {
  const absl::StatusOr<std::vector<Tensor>> exact =
      deps_.reference->Run(deps_.spec->HeldPath(), inputs, deps_.stop);
  if (!exact.ok() && !absl::IsFailedPrecondition(exact.status())) {
    // What was killed, or never began, is no evidence against the candidate.
    return absl::Status(
        exact.status().code(),
        absl::StrCat("no float64 run to judge by: ", exact.status().message()));
  }
  const absl::StatusOr<ReferenceErrors> errors =
      exact.ok() ? CompareWithReference(*exact, run.eager, run.compiled)
                 : exact.status();
  if (!errors.ok()) {
    absl::StrAppend(&found.difference, "; there is no float64 run of it: ",
                    errors.status().message());
    return absl::OkStatus();
  }
  found.eager_rmse = errors->eager;
  found.compiled_rmse = errors->compiled;
  if (errors->acceptable()) {
    found.difference.clear();
  } else {
    absl::StrAppendFormat(
        &found.difference,
        "; root mean square error against float64 %.3g, eager's is %.3g; "
        "largest %.3g, eager's is %.3g",
        errors->compiled, errors->eager, errors->compiled_largest,
        errors->eager_largest);
  }
  return absl::OkStatus();
}

absl::Status CandidateCheck::ProvePadding(Executable& eager,
                                          const ShapeBucket& bucket) const {
  const ModelSpec& spec = *deps_.spec;
  const std::vector<PaddedSizes> along = PaddedAlongEach(spec, bucket);
  if (along.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::string unsteady,
                   Indeterminacy(eager, bucket.sizes, ToleranceOf(spec)));
  if (!unsteady.empty()) return absl::OkStatus();
  PaddedRun padded(*deps_.layout);
  for (const PaddedSizes& one : along) {
    const bool batch = spec.batch_dimension == one.dimension;
    const ParityTolerance tolerance = ToleranceOfPadding(spec, batch);
    Comparison found;
    const auto compare_on = [&](absl::Span<const Tensor> inputs) {
      return OnDevice([&](ExecutionContext& context) -> absl::Status {
        ASSIGN_OR_RETURN(const RunResult exact, eager.Run(context, inputs));
        ASSIGN_OR_RETURN(const RunResult filled,
                         padded.Run(eager, context, inputs, one.sizes, bucket));
        found = CompareOutputs(exact.outputs, filled.outputs, tolerance,
                               {"as it is", "padded"});
        return absl::OkStatus();
      });
    };
    RETURN_IF_ERROR(deps_.made_up->Try(one.sizes, /*seed=*/0, compare_on));
    const std::vector<Tensor> wide =
        deps_.made_up->WideIntegers(one.sizes, /*seed=*/0);
    if (found.equal && !wide.empty()) {
      absl::Status ran = compare_on(wide);
      // What they are out of range for says nothing.
      if (!ran.ok() && !absl::IsInvalidArgument(ran)) return ran;
    }
    if (found.equal) continue;
    const std::vector<std::string> names = spec.DimensionNames();
    return absl::FailedPreconditionError(absl::StrCat(
        "padding along dimension '", names[static_cast<size_t>(one.dimension)],
        "' from ", BucketName(ShapeBucket{one.sizes}, names), " to ",
        BucketName(bucket, names), " changes the answer: ", found.difference,
        batch ? "; rows of a batch are not independent: say 'max_batch_size: "
                "1' in model.yaml"
              : "; say 'padding: false' in model.yaml, or a pad_value that the "
                "model ignores"));
  }
  return absl::OkStatus();
}

}  // namespace stoker
