// The outcome of a check, with the numbers that led to it. A report, not a
// command.
#pragma once

#include <string>

namespace stoker {

struct Verdict {
  bool promote = false;
  double max_abs_error = 0;  // over all floating outputs and cases
  double speedup =
      0;  // incumbent / candidate run time, median of pairs; 0: not measured
  double candidate_seconds = 0;
  double incumbent_seconds = 0;
  std::string reason;  // one sentence, for people
};

// JSON text, as kept beside the artifact. ParseVerdict returns false on other
// text.
std::string VerdictToJson(const Verdict& verdict);
bool ParseVerdict(const std::string& json, Verdict& verdict);

}  // namespace stoker
