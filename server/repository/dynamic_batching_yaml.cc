#include "repository/dynamic_batching_yaml.h"

#include <optional>
#include <set>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace stoker {
namespace {

constexpr int64_t kMostLevels = 16;
constexpr int64_t kMostMicroseconds = int64_t{24} * 3600 * 1'000'000;
constexpr int64_t kMostQueued = 1'000'000;

void ReadPolicy(const YamlValue& value, QueuePolicySpec& policy) {
  const auto entries =
      value.Map({"timeout_action", "default_timeout_microseconds",
                 "allow_timeout_override", "max_queue_size"});
  if (!entries) return;
  for (const auto& [key, field] : *entries) {
    if (key == "timeout_action") {
      policy.delay_on_timeout = field.Choice({"REJECT", "DELAY"}) == 1;
    } else if (key == "allow_timeout_override") {
      policy.allow_timeout_override = field.Bool().value_or(true);
    } else if (key == "max_queue_size") {
      field.ReadInt(1, kMostQueued, policy.max_queue_size);
    } else if (const auto us = field.Int(0, kMostMicroseconds)) {
      policy.default_timeout =
          *us == 0 ? absl::InfiniteDuration() : absl::Microseconds(*us);
    }
  }
}

void ReadPreferred(const YamlValue& value, int64_t max_batch_size,
                   std::vector<int>& sizes) {
  const auto elements = value.List();
  if (!elements) return;
  for (const YamlValue& element : *elements) {
    if (const auto size =
            element.Int(1, std::max<int64_t>(max_batch_size, 1))) {
      sizes.push_back(static_cast<int>(*size));
    }
  }
}

// Policies of single levels: {1: {...}, 3: {...}}.
void ReadLevelPolicies(const YamlValue& value,
                       std::vector<QueuePolicySpec>& policies) {
  const auto entries = value.MapOfNames();
  if (!entries) return;
  for (const auto& [name, entry] : *entries) {
    size_t level = 0;
    if (!absl::SimpleAtoi(name, &level) || level < 1 ||
        level > policies.size()) {
      entry.Error(absl::StrCat("a priority level from 1 to ", policies.size(),
                               " (priority_levels)"),
                  name);
      continue;
    }
    ReadPolicy(entry, policies[level - 1]);
  }
}

}  // namespace

void ReadDynamicBatching(const YamlValue& value, int64_t max_batch_size,
                         DynamicBatchingSpec& spec) {
  const auto entries = value.Map(
      {"preferred_batch_size", "max_queue_delay_microseconds",
       "preserve_ordering", "priority_levels", "default_priority_level",
       "default_queue_policy", "priority_queue_policy"});
  if (!entries) return;
  const auto find = [&](std::string_view key) -> const YamlValue* {
    for (const auto& [name, field] : *entries) {
      if (name == key) return &field;
    }
    return nullptr;
  };
  if (const YamlValue* field = find("preferred_batch_size")) {
    ReadPreferred(*field, max_batch_size, spec.preferred_batch_sizes);
  }
  if (const YamlValue* field = find("max_queue_delay_microseconds")) {
    if (const auto us = field->Int(0, kMostMicroseconds)) {
      spec.max_queue_delay = absl::Microseconds(*us);
    }
  }
  if (const YamlValue* field = find("preserve_ordering")) {
    spec.preserve_ordering = field->Bool().value_or(false);
  }
  // The default policy is that of every level without its own.
  int levels = 1;
  if (const YamlValue* field = find("priority_levels")) {
    field->ReadInt(1, kMostLevels, levels);
  }
  QueuePolicySpec policy;
  if (const YamlValue* field = find("default_queue_policy")) {
    ReadPolicy(*field, policy);
  }
  spec.policies.assign(static_cast<size_t>(levels), policy);
  spec.default_priority_level = levels;
  if (const YamlValue* field = find("default_priority_level")) {
    field->ReadInt(1, levels, spec.default_priority_level);
  }
  if (const YamlValue* field = find("priority_queue_policy")) {
    ReadLevelPolicies(*field, spec.policies);
  }
}

}  // namespace stoker
