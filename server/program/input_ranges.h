// Which integers a program's inputs may hold, as far as the operators that they
// go into say: rows of the table that they index, divisors that aren't zero.
// What inputs are made up from, where model.yaml says nothing, so that a
// comparison sees more of a table than two rows, and isn't refused. Pure;
// private to this room.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "nlohmann/json_fwd.hpp"

namespace stoker {

using IntegerRange = std::pair<int64_t, int64_t>;  // closed

// By the graph's names of the inputs. Those that nothing is known of, or whose
// uses contradict each other, are left out. `program` is a model.json that
// ParseJson took; what isn't of the known form says nothing.
std::map<std::string, IntegerRange> InputRanges(const nlohmann::json& program);

}  // namespace stoker
