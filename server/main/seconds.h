// Numbers of seconds on the command line.
#pragma once

#include <string>

#include "absl/time/time.h"

namespace CLI {
class App;
class Validator;
}  // namespace CLI

namespace stoker {

// A finite number of seconds; CLI11's own check lets "nan" pass and prints the
// largest double in full.
CLI::Validator Seconds(bool zero_allowed);

// An option whose value is so many seconds, whole ones by default; 0 stands for
// never where `or_never`, and is refused otherwise. `value` outlives the
// parsing.
void AddSeconds(CLI::App& app, const std::string& name, absl::Duration& value,
                const std::string& meaning, bool or_never = false);

}  // namespace stoker
