#include "main/memory_options.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "CLI/CLI.hpp"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/absl_view.h"
#include "base/cgroup_limits.h"

namespace stoker {
namespace {

constexpr int64_t kLeast = int64_t{1} << 20;

// Bytes of one "G", "GB" or "GiB", which are all the same; 0: no such unit.
double UnitOf(std::string_view suffix) {
  const std::string unit = absl::AsciiStrToLower(Absl(suffix));
  absl::string_view rest = unit;
  double bytes = 1;
  for (const char* const letter : {"k", "m", "g", "t"}) {
    bytes *= 1024;
    if (!absl::ConsumePrefix(&rest, letter)) continue;
    return rest.empty() || rest == "b" || rest == "ib" ? bytes : 0;
  }
  return unit.empty() ? 1 : 0;
}

}  // namespace

absl::StatusOr<int64_t> ParseMemoryBudget(std::string_view text,
                                          int64_t limit) {
  const size_t end =
      std::min(text.find_first_not_of("0123456789."), text.size());
  const std::string_view suffix = text.substr(end);
  double number = 0;
  const bool is_number = absl::SimpleAtod(Absl(text.substr(0, end)), &number) &&
                         std::isfinite(number);
  const bool share = suffix == "%";
  const double unit = share ? static_cast<double>(limit) / 100 : UnitOf(suffix);
  const double bytes = number * unit;
  const bool fits = is_number && unit > 0 && bytes < 0x1p62 &&
                    (number == 0 || bytes >= static_cast<double>(kLeast)) &&
                    !(share && (number > 100 || number == 0));
  if (fits) return static_cast<int64_t>(bytes);
  return absl::InvalidArgumentError(absl::StrCat(
      "expected 0, a size of at least 1 MiB such as 24GiB or 512M, or a share "
      "of the memory such as 60%, got \"",
      Absl(text), "\""));
}

void AddMemoryOptions(CLI::App& app, int64_t& bytes) {
  app.add_option_function<std::string>(
         "--memory-budget",
         [&bytes](const std::string& text) {
           bytes = *ParseMemoryBudget(text, MemoryLimit());
         },
         "what loaded versions may take of the host's memory, such as 24GiB, "
         "or 60% of what this process may use: beyond it those that nobody "
         "asks for rest; 0: no limit")
      ->check([](const std::string& text) {
        return std::string(
            ParseMemoryBudget(text, MemoryLimit()).status().message());
      })
      ->default_str("0");
}

}  // namespace stoker
