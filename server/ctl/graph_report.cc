#include "ctl/graph_report.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/text_table.h"
#include "ctl/output.h"

namespace stoker {
namespace {

using Json = nlohmann::json;

constexpr size_t kMostRows = 20;
constexpr size_t kMostNames = 2;  // in one cell

std::string Time(double microseconds) {
  if (microseconds < 1e3) return absl::StrFormat("%.1f us", microseconds);
  return absl::StrFormat("%.2f ms", microseconds / 1e3);
}

std::string Text(const Json& object, const char* field) {
  return object.at(field).get<std::string>();
}

// Names of fused kernels list what is in them, and end with a number.
std::string Shortened(const std::string& name) {
  constexpr size_t kHead = 36;
  constexpr size_t kTail = 8;
  if (name.size() <= kHead + kTail + 3) return name;
  return absl::StrCat(name.substr(0, kHead), "...",
                      name.substr(name.size() - kTail));
}

// "a, b, c, d and 3 more"
std::string Names(const Json& list) {
  const auto names = list.get<std::vector<std::string>>();
  const size_t shown = std::min(names.size(), kMostNames);
  std::string text = absl::StrJoin(
      names.begin(), names.begin() + static_cast<long>(shown), ", ");
  if (shown < names.size()) {
    absl::StrAppend(&text, " and ", names.size() - shown, " more");
  }
  return text;
}

// "zoo.py:12 forward, encoder.layer.0: x = self.linear(x)"
std::string Where(const Json& origin) {
  std::string text = Text(origin, "place");
  for (const auto& [before, field] :
       {std::pair(" ", "function"), std::pair(", ", "module"),
        std::pair(": ", "code")}) {
    const std::string value = Text(origin, field);
    if (!value.empty() && value != text) absl::StrAppend(&text, before, value);
  }
  return text;
}

std::string LeftOut(const Json& list, const char* what) {
  if (list.size() <= kMostRows) return "";
  return absl::StrCat("and ", list.size() - kMostRows, " ", what, "\n");
}

std::string Graph(const Json& graph) {
  std::string text = absl::StrFormat(
      "graph: %d operators in %d nodes, %d inputs, %d outputs, %d parameters, "
      "%s of weights\n\n",
      graph.at("operators").get<int64_t>(), graph.at("nodes").get<int64_t>(),
      graph.at("inputs").get<int64_t>(), graph.at("outputs").get<int64_t>(),
      graph.at("parameters").get<int64_t>(),
      HumanBytes(graph.at("weight_bytes").get<int64_t>()));
  TextTable table({"OPERATOR", "COUNT"});
  const Json& operators = graph.at("by_operator");
  for (size_t i = 0; i < std::min(operators.size(), kMostRows); ++i) {
    table.Add({Text(operators[i], "operator"),
               absl::StrCat(operators[i].at("count").get<int64_t>())});
  }
  absl::StrAppend(&text, table.empty() ? "" : table.Text(),
                  LeftOut(operators, "kinds that are rarer"));
  return text;
}

std::string NotCompiled(const Json& why) {
  if (why.is_null()) return "";
  std::string text =
      absl::StrCat("\nnot compiled: ", Text(why, "reason"), "\n");
  if (!why.at("origin").is_null()) {
    absl::StrAppend(&text, "  from ", Where(why.at("origin")), "\n");
  }
  return text;
}

std::string NotRun(const Json& why) {
  if (why.is_null()) return "";
  return absl::StrCat("\nnot run: ", why.get<std::string>(), "\n");
}

std::string Compiled(const Json& compiled) {
  if (compiled.is_null()) return "";
  double seconds = 0;
  for (const Json& phase : compiled.at("phases"))
    seconds += phase.get<double>();
  return absl::StrFormat(
      "\ncompiled in %.1f s: %d fused kernels in %d calls, %d library calls, "
      "%d "
      "calls left to libtorch, %d guards\n",
      seconds, compiled.at("fused_kernels").get<int64_t>(),
      compiled.at("fused_calls").get<int64_t>(),
      compiled.at("library_calls").get<int64_t>(),
      compiled.at("fallback_calls").get<int64_t>(),
      compiled.at("guards").size());
}

std::string Times(const Json& times) {
  if (times.is_null()) return "";
  const double eager = times.at("eager_ms").get<double>();
  const auto found = times.find("compiled_ms");
  if (found == times.end()) {
    return absl::StrFormat("\neager: %s a run\n", Time(eager * 1e3));
  }
  const double compiled = found->get<double>();
  return absl::StrFormat(
      "eager %s, compiled %s: %.2f x; %s of a compiled run is in kernels\n",
      Time(eager * 1e3), Time(compiled * 1e3), eager / compiled,
      Percent(times.at("explained").get<double>()));
}

std::string Kernels(const Json& kernels) {
  if (kernels.empty()) return "";
  TextTable table({"KERNEL", "KIND", "CALLS", "TOTAL", "MEAN", "SHARE",
                   "OPERATORS", "FROM"});
  for (size_t i = 0; i < std::min(kernels.size(), kMostRows); ++i) {
    const Json& kernel = kernels[i];
    table.Add({Shortened(Text(kernel, "kernel")), Text(kernel, "kind"),
               absl::StrFormat("%g", kernel.at("calls").get<double>()),
               Time(kernel.at("total_us").get<double>()),
               Time(kernel.at("mean_us").get<double>()),
               Percent(kernel.at("share").get<double>()),
               Names(kernel.at("operators")), Names(kernel.at("places"))});
  }
  return absl::StrCat("\n", table.Text(), LeftOut(kernels, "shorter ones"));
}

// Operators that TorchInductor has no code for, each with its line.
std::string Fallbacks(const Json& calls) {
  TextTable table({"LEFT TO LIBTORCH", "TIME", "FROM"});
  for (const Json& call : calls) {
    if (Text(call, "kind") != "fallback") continue;
    std::vector<std::string> lines;
    for (const Json& origin : call.at("origins"))
      lines.push_back(Where(origin));
    const auto us = call.find("us");
    table.Add({Names(call.at("operators")),
               us == call.end() ? "" : Time(us->get<double>()),
               absl::StrJoin(lines, "; ")});
  }
  return table.empty() ? "" : absl::StrCat("\n", table.Text());
}

std::string Places(const Json& places, bool compiled) {
  if (places.empty()) return "";
  TextTable table({"LINE", "EAGER", "COMPILED", "SHARE", "SOURCE"});
  for (size_t i = 0; i < std::min(places.size(), kMostRows); ++i) {
    const Json& place = places[i];
    table.Add({Text(place, "name"), Time(place.at("eager_us").get<double>()),
               compiled ? Time(place.at("compiled_us").get<double>()) : "",
               compiled ? Percent(place.at("share").get<double>()) : "",
               Text(place.at("origin"), "code")});
  }
  return absl::StrCat("\n", table.Text(), LeftOut(places, "shorter ones"));
}

}  // namespace

absl::StatusOr<std::string> GraphReportText(const Json& report) {
  try {
    const Json& compiled = report.at("compiled");
    return absl::StrCat(
        Text(report, "model"), " ", Text(report, "bucket"), ", ",
        report.at("threads").get<int64_t>(), " threads\n",
        Graph(report.at("graph")), NotCompiled(report.at("not_compiled")),
        NotRun(report.at("not_run")), Compiled(compiled),
        Times(report.at("times")), Kernels(report.at("kernels")),
        Fallbacks(report.at("calls")),
        Places(report.at("places"), !compiled.is_null()));
  } catch (const Json::exception& error) {
    return absl::InternalError(absl::StrCat(
        "expected a report of compiler/explain, got another: ", error.what()));
  }
}

}  // namespace stoker
