#include "ctl/output.h"

#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/json_text.h"

namespace stoker {

void Print(const std::string& text) { std::fputs(text.c_str(), stdout); }

void PrintJson(const nlohmann::json& json) {
  Print(JsonText(json, {.indent = 2}) + "\n");
}

std::string LayerName(int layer) {
  return layer == 0 ? "upper" : absl::StrCat("lower ", layer);
}

std::string Percent(double share) {
  return absl::StrFormat("%.1f %%", share * 100);
}

std::string SecondsText(double seconds) {
  return absl::StrFormat("%.1f s", seconds);
}

}  // namespace stoker
