#include "promotion/verdict.h"

#include <cmath>
#include <limits>

#include "base/json_text.h"
#include "nlohmann/json.hpp"

namespace stoker {
namespace {

using nlohmann::json;

// JSON has no infinity (the error of a NaN against a number); null stands for
// it.
json ToJson(double value) {
  return std::isfinite(value) ? json(value) : json(nullptr);
}

// Reads members of an object and remembers whether one was missing or of
// another kind.
class Reader {
 public:
  explicit Reader(const json& object) : object_(object) {
    ok_ = object.is_object();
  }

  bool ok() const { return ok_; }

  void Read(const char* name, double& value) {
    const json* member = Find(name);
    if (member == nullptr) return;
    if (member->is_null()) {
      value = std::numeric_limits<double>::infinity();
    } else if (member->is_number()) {
      value = member->get<double>();
    } else {
      ok_ = false;
    }
  }
  void Read(const char* name, std::optional<double>& value) {
    if (ok_ && object_.contains(name)) Read(name, value.emplace());
  }
  template <typename Integer>
  void ReadCount(const char* name, Integer& value) {
    const json* member = Find(name);
    if (member == nullptr) return;
    ok_ = member->is_number_unsigned();
    if (ok_) value = member->get<Integer>();
  }
  void Read(const char* name, std::string& value) {
    const json* member = Find(name);
    if (member == nullptr) return;
    ok_ = member->is_string();
    if (ok_) value = member->get<std::string>();
  }
  void Read(const char* name, bool& value) {
    const json* member = Find(name);
    if (member == nullptr) return;
    ok_ = member->is_boolean();
    if (ok_) value = member->get<bool>();
  }
  const json* Find(const char* name) {
    if (!ok_) return nullptr;
    const auto it = object_.find(name);
    ok_ = it != object_.end();
    return ok_ ? &*it : nullptr;
  }

 private:
  const json& object_;
  bool ok_;
};

json ToJson(const ParityCase& one) {
  json object = {{"seed", one.seed},
                 {"sizes", one.sizes},
                 {"max_abs_error", ToJson(one.max_abs_error)},
                 {"difference", one.difference}};
  const auto add = [&](const char* name, std::optional<double> value) {
    if (value.has_value()) object[name] = ToJson(*value);
  };
  if (one.recorded) object["recorded"] = true;
  if (one.extremes) object["extremes"] = true;
  add("eager_rmse", one.eager_rmse);
  add("compiled_rmse", one.compiled_rmse);
  add("argmax_agreement", one.argmax_agreement);
  return object;
}

bool ParseCase(const json& object, ParityCase& one) {
  Reader reader(object);
  reader.ReadCount("seed", one.seed);
  if (object.contains("recorded")) reader.Read("recorded", one.recorded);
  if (object.contains("extremes")) reader.Read("extremes", one.extremes);
  reader.Read("sizes", one.sizes);
  reader.Read("max_abs_error", one.max_abs_error);
  reader.Read("difference", one.difference);
  reader.Read("eager_rmse", one.eager_rmse);
  reader.Read("compiled_rmse", one.compiled_rmse);
  reader.Read("argmax_agreement", one.argmax_agreement);
  return reader.ok();
}

}  // namespace

// Reasons may quote a program's names: bytes that are not UTF-8 are replaced.
std::string ParityToJson(const Parity& parity) {
  json cases = json::array();
  for (const ParityCase& one : parity.cases) cases.push_back(ToJson(one));
  json document = {{"equal", parity.equal},
                   {"reason", parity.reason},
                   {"rtol", ToJson(parity.rtol)},
                   {"atol", ToJson(parity.atol)},
                   {"max_abs_error", ToJson(parity.max_abs_error)},
                   {"cases", std::move(cases)}};
  if (!parity.layers.empty()) document["layers"] = parity.layers;
  return JsonText(document, {.indent = 2});
}

bool ParseParity(const std::string& text, Parity& parity) {
  const json document = ReadJson(text);
  Reader reader(document);
  Parity read;
  reader.Read("equal", read.equal);
  reader.Read("reason", read.reason);
  reader.Read("rtol", read.rtol);
  reader.Read("atol", read.atol);
  reader.Read("max_abs_error", read.max_abs_error);
  const json* cases = reader.Find("cases");
  if (!reader.ok() || !cases->is_array()) return false;
  if (const auto layers = document.find("layers"); layers != document.end()) {
    if (!layers->is_object()) return false;
    for (const auto& [name, precision] : layers->items()) {
      if (!precision.is_string()) return false;
      read.layers.emplace(name, precision.get<std::string>());
    }
  }
  for (const json& one : *cases) {
    if (!ParseCase(one, read.cases.emplace_back())) return false;
  }
  parity = std::move(read);
  return true;
}

std::string ProfitToJson(const Profit& profit) {
  json document = {
      {"worth", profit.worth},
      {"reason", profit.reason},
      {"speedup", ToJson(profit.speedup)},
      {"speedup_low", ToJson(profit.speedup_low)},
      {"speedup_high", ToJson(profit.speedup_high)},
      {"pairs", profit.pairs},
      {"candidate_seconds", ToJson(profit.candidate_seconds)},
      {"incumbent_seconds", ToJson(profit.incumbent_seconds)},
      {"fastest_seconds", ToJson(profit.fastest_seconds)},
      {"clear", profit.clear},
      {"measured_on", profit.measured_on},
      {"threads", profit.threads},
  };
  if (profit.speedup_on_fewer > 0) {
    document["on_fewer_threads"] = {
        {"worth", profit.worth_on_fewer},
        {"speedup", ToJson(profit.speedup_on_fewer)}};
  }
  if (profit.over_dynamic.has_value()) {
    document["over_dynamic"] = {
        {"artifact", profit.over_dynamic->artifact},
        {"speedup", ToJson(profit.over_dynamic->speedup)},
        {"faster", profit.over_dynamic->faster}};
  }
  return JsonText(document, {.indent = 2});
}

bool ParseProfit(const std::string& text, Profit& profit) {
  const json document = ReadJson(text);
  Reader reader(document);
  Profit read;
  reader.Read("worth", read.worth);
  reader.Read("reason", read.reason);
  reader.Read("speedup", read.speedup);
  reader.Read("speedup_low", read.speedup_low);
  reader.Read("speedup_high", read.speedup_high);
  reader.ReadCount("pairs", read.pairs);
  reader.Read("candidate_seconds", read.candidate_seconds);
  reader.Read("incumbent_seconds", read.incumbent_seconds);
  reader.Read("fastest_seconds", read.fastest_seconds);
  reader.Read("clear", read.clear);
  reader.Read("measured_on", read.measured_on);
  reader.ReadCount("threads", read.threads);
  if (!reader.ok()) return false;
  if (const auto over = document.find("over_dynamic"); over != document.end()) {
    Reader of_form(*over);
    OverDynamic& found = read.over_dynamic.emplace();
    of_form.Read("artifact", found.artifact);
    of_form.Read("speedup", found.speedup);
    of_form.Read("faster", found.faster);
    if (!of_form.ok()) return false;
  }
  if (const auto fewer = document.find("on_fewer_threads");
      fewer != document.end()) {
    Reader of_fewer(*fewer);
    of_fewer.Read("worth", read.worth_on_fewer);
    of_fewer.Read("speedup", read.speedup_on_fewer);
    if (!of_fewer.ok()) return false;
  }
  profit = std::move(read);
  return true;
}

}  // namespace stoker
