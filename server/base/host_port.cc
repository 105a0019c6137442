#include "base/host_port.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/absl_view.h"

namespace stoker {

absl::Status CheckHostPort(std::string_view address) {
  const size_t colon = address.rfind(':');
  if (colon != std::string_view::npos && colon > 0) {
    const std::string_view port = address.substr(colon + 1);
    uint32_t number = 0;
    if (std::all_of(port.begin(), port.end(), absl::ascii_isdigit) &&
        absl::SimpleAtoi(Absl(port), &number) && number <= 65535) {
      return absl::OkStatus();
    }
  }
  return absl::InvalidArgumentError(
      absl::StrCat("expected host:port with a port of 0 to 65535, got \"",
                   Absl(address), "\""));
}

}  // namespace stoker
