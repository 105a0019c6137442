#include "main/seconds.h"

#include <cmath>
#include <string>

#include "CLI/CLI.hpp"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace stoker {

CLI::Validator Seconds(bool zero_allowed) {
  auto check = [zero_allowed](const std::string& text) -> std::string {
    double value = 0;
    if (absl::SimpleAtod(text, &value) && std::isfinite(value) &&
        (value > 0 || (zero_allowed && value == 0))) {
      return "";
    }
    return absl::StrCat("expected a number of seconds, ",
                        zero_allowed ? "at least 0" : "above 0", ", got \"",
                        text, "\"");
  };
  return CLI::Validator(check, zero_allowed ? ">= 0" : "> 0");
}

}  // namespace stoker
