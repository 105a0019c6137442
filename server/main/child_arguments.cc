#include "main/child_arguments.h"

#include <string_view>

#include "runner/operator_library.h"

namespace stoker {
namespace {

constexpr std::string_view kLibrary = "--operator-library=";

}  // namespace

std::vector<std::string> ChildCommand(
    const std::string& command,
    const std::vector<std::string>& operator_libraries) {
  std::vector<std::string> argv = {"/proc/self/exe", command};
  for (const std::string& library : operator_libraries) {
    argv.push_back(std::string(kLibrary) + library);
  }
  return argv;
}

std::vector<std::string> ChildArguments(int argc, char** argv) {
  std::vector<std::string> libraries, rest;
  for (int i = 2; i < argc; ++i) {
    const std::string argument = argv[i];
    if (rest.empty() && argument.starts_with(kLibrary)) {
      libraries.push_back(argument.substr(kLibrary.size()));
    } else {
      rest.push_back(argument);
    }
  }
  LoadOperatorLibraries(libraries).IgnoreError();
  return rest;
}

}  // namespace stoker
