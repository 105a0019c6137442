// Which linear layers of a version compute with eight-bit integers: as many as
// its tolerances allow. The others stay with float32.
//
// First the layers' inputs are evened out, by what they are in runs of the
// first form with float32 (runner/int8_linears.h). Where the parity check then
// refuses, each layer's share of the error is found by a run in which it alone
// computes with integers; those that cost the most accuracy for their size are
// given up first, as few as the check asks for (sensitivity by layers, as in
// "HAQ", Wang et al., 2019). Layers are shared by all forms of a version: what
// one form gave up stays so for the others, whose answers that only makes more
// exact, and only layers that compute with integers are ever tried, so that
// what serves meanwhile answers no worse than was proved.
//
// One thread at a time; blocks.
#pragma once

#include <optional>
#include <set>
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
  // Gives up layers until it is, or none is left; returns what it said last,
  // with the layers that it holds for. An error: that of a check, or of a run.
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
  // As few of these as `check` asks for, which refused without them; its last
  // word.
  absl::StatusOr<CandidateCheck::Evidence> GiveUp(
      const std::vector<std::string>& ranked, Check check);
  // The first `count` of `ranked`, besides what has been given up.
  absl::Status KeepInFloat32(const std::vector<std::string>& ranked,
                             size_t count);
  Int8Linears& linears() { return *version_.tiers.int8(); }
  std::set<std::string> AllNames();

  const VersionParts version_;
  std::set<std::string> in_float32_;
  std::string factors_;
};

}  // namespace stoker
