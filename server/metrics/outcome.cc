#include "metrics/outcome.h"

#include "absl/strings/ascii.h"

namespace stoker {

std::string OutcomeName(absl::StatusCode code) {
  const std::string name = absl::StatusCodeToString(code);
  return name.empty() ? "unknown" : absl::AsciiStrToLower(name);
}

}  // namespace stoker
