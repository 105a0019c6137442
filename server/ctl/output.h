// What the commands have in common when they print.
#pragma once

#include <string>

#include "nlohmann/json.hpp"

namespace stoker {

void Print(const std::string& text);
// Indented; bytes that are no UTF-8 are replaced.
void PrintJson(const nlohmann::json& json);

// "upper" of the cache's own folder, "lower 2" of the second one below it.
std::string LayerName(int layer);
// "12.3 %" of 0.123.
std::string Percent(double share);
// "12.3 s"
std::string SecondsText(double seconds);

}  // namespace stoker
