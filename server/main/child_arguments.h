// What the daemon says to children that run programs for it: `stokerd COMMAND
// [--operator-library=NAME=FILE]... ARGUMENT...`.
#pragma once

#include <string>
#include <vector>

namespace stoker {

inline constexpr int kReplyFd = 3;  // the child's

// How such a child is started, but for its arguments.
std::vector<std::string> ChildCommand(
    const std::string& command,
    const std::vector<std::string>& operator_libraries);

// In the child: loads the operator libraries and returns the arguments. What is
// wrong with a library is said when a program that calls it is opened.
std::vector<std::string> ChildArguments(int argc, char** argv);

}  // namespace stoker
