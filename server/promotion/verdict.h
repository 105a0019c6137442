// The outcome of a check, with the numbers that led to it. A report, not a
// command.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace stoker {

// One set of inputs that both forms answered.
struct ParityCase {
  uint64_t seed = 0;
  bool recorded = false;  // a request's inputs; `seed` is its number
  std::string sizes;  // "batch=5,tokens=19"; padded where not the bucket's own
  double max_abs_error = 0;  // over all floating outputs
  // Root mean square errors against a float64 run, the largest of the outputs';
  // set where the tolerance alone would have refused.
  std::optional<double> eager_rmse;
  std::optional<double> compiled_rmse;
  // Share of the rows of the first floating output whose largest element is the
  // same; unset where no output has rows of several elements.
  std::optional<double> argmax_agreement;
  std::string difference;  // empty: equal; "output 1[0,3]: eager ..., ..."
};

// Whether a bucket's own code gains anything over a dynamic form that takes its
// sizes too and is there anyway.
struct OverDynamic {
  std::string artifact;  // that form's: SHA-256 of its manifest
  double speedup = 0;    // its run time over the bucket's, median of pairs
  bool faster = false;
};

struct Verdict {
  bool promote = false;
  std::string refusal;  // "parity" or "profit"; empty when promoted
  std::string reason;   // one sentence, for people

  // Parity.
  double rtol = 0;  // as configured for FP32
  double atol = 0;
  double max_abs_error = 0;  // over all floating outputs and cases
  std::vector<ParityCase> cases;

  // Profit; 0: not measured.
  double speedup = 0;      // incumbent / candidate run time, median of pairs
  double speedup_low = 0;  // its confidence interval
  double speedup_high = 0;
  int pairs = 0;
  double candidate_seconds = 0;
  double incumbent_seconds = 0;
  // Of the candidate's fastest run: what it takes on a machine that has nothing
  // else to do, however busy this one was.
  double fastest_seconds = 0;
  // Whether the interval decides. Where not, the median did: measure again.
  bool clear = true;
  std::string measured_on;  // the machine whose figures these are
  int threads = 0;          // compute threads of each run
  std::optional<OverDynamic> over_dynamic;
};

// JSON text, as kept beside the artifact. ParseVerdict returns false on other
// text.
std::string VerdictToJson(const Verdict& verdict);
bool ParseVerdict(const std::string& json, Verdict& verdict);

}  // namespace stoker
