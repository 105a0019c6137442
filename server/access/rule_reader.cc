// The half of PolicyReader that reads rules.
#include <memory>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "access/policy_reader.h"

namespace stoker {
namespace {

std::vector<std::string> GroupChoices() {
  return {MethodGroupNames().begin(), MethodGroupNames().end()};
}

}  // namespace

AccessPolicy::Caller* PolicyReader::Find(std::string_view name) {
  if (name == AccessPolicy::kAnonymous) return policy_.anonymous_.get();
  for (const auto& caller : policy_.callers_) {
    if (caller->name == name) return caller.get();
  }
  return nullptr;
}

void PolicyReader::ReadRules(const YamlValue& value) {
  const std::optional<std::vector<YamlValue>> rules = value.List();
  if (!rules.has_value()) return;
  for (size_t i = 0; i < rules->size(); ++i) ReadRule((*rules)[i], i + 1);
}

void PolicyReader::ReadRule(const YamlValue& value, size_t number) {
  const std::optional<YamlValue::Entries> fields =
      value.Map({"name", "callers", "groups", "models"});
  if (!fields.has_value()) return;
  auto rule = std::make_unique<Rule>();
  rule->name = absl::StrCat("rule ", number);
  std::vector<MethodGroup> groups;
  std::vector<Caller*> callers;
  std::set<std::string> seen;
  for (const auto& [field, one] : *fields) {
    seen.insert(field);
    if (field == "callers") {
      callers = ReadGrantees(one);
    } else if (field == "groups") {
      groups = ReadGroups(one);
    } else if (field == "models") {
      rule->models = ReadModels(one);
    } else if (one.text().empty()) {
      one.Error("a text");
    } else {
      rule->name = one.text();
    }
  }
  for (const char* needed : {"callers", "groups"}) {
    if (seen.count(needed) == 0) value.Error(needed, "none");
  }
  if (seen.count("models") == 0) rule->models.emplace_back("*");
  if (!rule_names_.insert(rule->name).second) {
    value.Error("a name of its own", absl::StrCat(rule->name, " again"));
  }
  for (Caller* const caller : callers) {
    for (const MethodGroup group : groups) {
      caller->rules[static_cast<size_t>(group)].push_back(rule.get());
    }
  }
  policy_.rules_.push_back(std::move(rule));
}

std::vector<MethodGroup> PolicyReader::ReadGroups(const YamlValue& value) {
  std::vector<MethodGroup> groups;
  const std::optional<std::vector<YamlValue>> list = value.List();
  if (!list.has_value()) return groups;
  for (const YamlValue& one : *list) {
    if (const std::optional<int> group = one.Choice(GroupChoices())) {
      groups.push_back(static_cast<MethodGroup>(*group));
    }
  }
  if (list->empty()) value.Error("at least one group", "none");
  return groups;
}

std::vector<AccessPolicy::Caller*> PolicyReader::ReadGrantees(
    const YamlValue& value) {
  std::vector<Caller*> callers;
  const std::optional<std::vector<YamlValue>> list = value.List();
  if (!list.has_value()) return callers;
  for (const YamlValue& one : *list) {
    if (Caller* const caller = Find(one.text())) {
      callers.push_back(caller);
    } else {
      one.Error("anonymous or the name of a caller");
    }
  }
  if (list->empty()) value.Error("at least one caller", "none");
  return callers;
}

std::vector<ModelPattern> PolicyReader::ReadModels(const YamlValue& value) {
  std::vector<ModelPattern> models;
  const std::optional<std::vector<YamlValue>> list = value.List();
  if (!list.has_value()) return models;
  for (const YamlValue& one : *list) {
    if (one.text().empty()) {
      one.Error("a model's name, in which * stands for any characters");
    } else {
      models.emplace_back(one.text());
    }
  }
  if (list->empty()) value.Error("at least one model", "none");
  return models;
}

void PolicyReader::GrantAllWhatAnonymousMay() {
  for (const auto& caller : policy_.callers_) {
    for (size_t group = 0; group < kMethodGroups; ++group) {
      const std::vector<const Rule*>& all = policy_.anonymous_->rules[group];
      std::vector<const Rule*>& own = caller->rules[group];
      own.insert(own.end(), all.begin(), all.end());
    }
  }
}

}  // namespace stoker
