// The outcome of a check, with the numbers that led to it: a report, not a
// command. Its two halves hold for different things, and are found out and kept
// apart.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace stoker {

// One set of inputs that both forms answered.
struct ParityCase {
  uint64_t seed = 0;
  bool recorded = false;  // a request's inputs; `seed` is its number
  bool extremes = false;  // the ends of the inputs' ranges
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

// Whether an artifact answers like eager. True of its bytes and of the weights
// that it ran with.
struct Parity {
  bool equal = false;
  std::string reason;  // why not, one sentence for people

  double rtol = 0;  // as configured for FP32
  double atol = 0;
  double max_abs_error = 0;  // over all floating outputs and cases
  // Weights whose linear layers were computed with "bfloat16" or "float32",
  // where the others were with eight-bit integers.
  std::map<std::string, std::string> layers;
  std::vector<ParityCase> cases;
};

// Whether it is worth having, by its speed. True of its bytes and of a machine,
// whatever the weights. 0: not measured.
struct Profit {
  bool worth = false;
  std::string reason;  // one sentence, for people

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

  // Whether it is worth having also for runs that get fewer threads, because
  // others have the cores; those are eager's otherwise.
  bool worth_on_fewer = true;
  double speedup_on_fewer = 0;  // 0: not measured, runs always get all
};

struct Verdict {
  Parity parity;
  Profit profit;  // of what is equal alone

  bool promote() const { return parity.equal && profit.worth; }
  // "parity" or "profit"; empty when promoted.
  std::string_view refusal() const {
    if (!parity.equal) return "parity";
    return profit.worth ? "" : "profit";
  }
  const std::string& reason() const {
    return parity.equal ? profit.reason : parity.reason;
  }
};

// JSON text, as kept beside the artifact. Parsing returns false on other text.
std::string ParityToJson(const Parity& parity);
bool ParseParity(const std::string& json, Parity& parity);
std::string ProfitToJson(const Profit& profit);
bool ParseProfit(const std::string& json, Profit& profit);

}  // namespace stoker
