#include "promotion/verdict.h"

#include <cmath>
#include <limits>
#include <optional>

#include "nlohmann/json.hpp"

namespace stoker {
namespace {

using nlohmann::json;

// JSON has no infinity (the error of a NaN against a number); null stands for
// it.
json NumberToJson(double value) {
  return std::isfinite(value) ? json(value) : json(nullptr);
}

std::optional<double> NumberFromJson(const json& document, const char* key) {
  const auto it = document.find(key);
  if (it == document.end()) return std::nullopt;
  if (it->is_null()) return std::numeric_limits<double>::infinity();
  if (!it->is_number()) return std::nullopt;
  return it->get<double>();
}

}  // namespace

std::string VerdictToJson(const Verdict& verdict) {
  const json document = {
      {"promote", verdict.promote},
      {"max_abs_error", NumberToJson(verdict.max_abs_error)},
      {"speedup", NumberToJson(verdict.speedup)},
      {"candidate_seconds", NumberToJson(verdict.candidate_seconds)},
      {"incumbent_seconds", NumberToJson(verdict.incumbent_seconds)},
      {"reason", verdict.reason},
  };
  // The reason may quote a program's names: bytes that are not UTF-8 are
  // replaced.
  return document.dump(2, ' ', false, json::error_handler_t::replace);
}

bool ParseVerdict(const std::string& text, Verdict& verdict) {
  const json document = json::parse(text, nullptr, false);
  if (!document.is_object()) return false;
  const auto promote = document.find("promote");
  const auto reason = document.find("reason");
  const auto error = NumberFromJson(document, "max_abs_error");
  const auto speedup = NumberFromJson(document, "speedup");
  const auto candidate = NumberFromJson(document, "candidate_seconds");
  const auto incumbent = NumberFromJson(document, "incumbent_seconds");
  if (promote == document.end() || !promote->is_boolean() ||
      reason == document.end() || !reason->is_string() || !error || !speedup ||
      !candidate || !incumbent) {
    return false;
  }
  verdict = {promote->get<bool>(), *error,     *speedup,
             *candidate,           *incumbent, reason->get<std::string>()};
  return true;
}

}  // namespace stoker
