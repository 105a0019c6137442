// The path that a request over HTTP asks for.
//
// Thread-safe: a pure function.
#pragma once

#include <string>
#include <vector>

namespace stoker {

// Its parts, decoded; empty: it is none. The query is left out.
std::vector<std::string> PathParts(const std::string& target);

}  // namespace stoker
