// What each linear layer of a version computes with: eight-bit integers, as
// many as its tolerances allow; the others with bfloat16, where the processor
// has that and it is exact enough, or float32.
//
// First the layers' inputs are evened out, by what they are in runs of the
// first form with float32 (runner/int8_linears.h). Where the parity check then
// refuses, each layer's share of the error is found by a run in which it alone
// computes with integers; those that cost the most accuracy for their size are
// made more exact first, as few as the check asks for (sensitivity by layers,
// as in "HAQ", Wang et al., 2019). Layers are shared by all forms of a version:
// what one form asked for stays so for the others, whose answers that only
// makes more exact, and only layers that compute with integers are ever tried,
// so that what serves meanwhile answers no worse than was proved.
//
// One thread at a time; blocks.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "models/candidate_check.h"
#include "models/version_parts.h"
#include "promotion/verdict.h"
#include "runner/executable.h"
#include "runner/int8_linears.h"

namespace stoker {

class Int8Layers {
 public:
  explicit Int8Layers(const VersionParts& version) : version_(version) {}

  // Has what was found with a form hold from now on, besides what held:
  // `factors` is what factors() gave. False: that can't be, because others are
  // in use, and the form is to be checked again.
  bool Restore(const Parity& parity, const std::optional<std::string>& factors);

  // By which inputs are evened out, as a tensor file; empty before Settle.
  const std::string& factors() const { return factors_; }

  // `check` says whether the candidate is right with the layers as they are.
  // Makes layers more exact until it is, or nothing is left; returns what it
  // said last, with the layers that it holds for. An error: that of a check, or
  // of a run.
  using Check = absl::FunctionRef<absl::StatusOr<CandidateCheck::Evidence>()>;
  absl::StatusOr<CandidateCheck::Evidence> Settle(
      Executable& candidate, const ShapeBucket& bucket,
      absl::Span<const CandidateCheck::Recorded> recorded, Check check);

 private:
  absl::StatusOr<std::vector<Tensor>> Run(Executable& candidate,
                                          absl::Span<const Tensor> inputs);
  // On inputs that were made up, which it takes and returns.
  absl::StatusOr<std::vector<Tensor>> RunMadeUp(Executable& candidate,
                                                const DimensionSizes& sizes,
                                                uint64_t seed,
                                                std::vector<Tensor>& inputs);
  absl::Status Even(Executable& candidate, const DimensionSizes& sizes,
                    absl::Span<const CandidateCheck::Recorded> recorded);
  // Of those that compute with integers, most harmful first.
  absl::StatusOr<std::vector<std::string>> Rank(Executable& candidate,
                                                const DimensionSizes& sizes);
  // From what they are to float32 all, in the order in which it is tried.
  using Step = LayerPrecisions::value_type;
  std::vector<Step> Steps(const std::vector<std::string>& ranked);
  // As few of these as `check` asks for, which refused without them; its last
  // word.
  absl::StatusOr<CandidateCheck::Evidence> Take(const std::vector<Step>& steps,
                                                Check check);
  // With layers that are more exact than those that `check` has refused.
  absl::StatusOr<CandidateCheck::Evidence> Refine(
      Executable& candidate, const DimensionSizes& sizes,
      CandidateCheck::Evidence refused, Check check);
  // With the first `count` of them.
  LayerPrecisions With(const std::vector<Step>& steps, size_t count) const;
  Int8Linears& linears() { return *version_.tiers.int8(); }
  LayerPrecisions AllFloat32();
  // Says what became of the layers.
  void Tell(const std::string& why);

  const VersionParts version_;
  LayerPrecisions precisions_;
  std::string factors_;
};

}  // namespace stoker
