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

void AddSeconds(CLI::App& app, const std::string& name, absl::Duration& value,
                const std::string& meaning, bool or_never) {
  const bool never = value == absl::InfiniteDuration();
  app.add_option_function<double>(
         name,
         [&value, or_never](double seconds) {
           value = or_never && seconds == 0 ? absl::InfiniteDuration()
                                            : absl::Seconds(seconds);
         },
         meaning)
      ->check(Seconds(or_never))
      ->default_str(never ? "0" : std::to_string(absl::ToInt64Seconds(value)));
}

}  // namespace stoker
