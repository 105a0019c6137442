// Numbers of seconds on the command line.
#pragma once

namespace CLI {
class Validator;
}  // namespace CLI

namespace stoker {

// A finite number of seconds; CLI11's own check lets "nan" pass and prints the
// largest double in full.
CLI::Validator Seconds(bool zero_allowed);

}  // namespace stoker
