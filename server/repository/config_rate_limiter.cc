#include "repository/config_rate_limiter.h"

#include <algorithm>
#include <cstdint>
#include <set>

#include "absl/strings/str_cat.h"
#include "repository/yaml_text.h"

namespace stoker {
namespace {

// Triton's default.
constexpr uint32_t kFirstPriority = 1;

uint32_t PriorityOf(const triton::ModelRateLimiter& limiter) {
  return std::max(limiter.priority(), kFirstPriority);
}

// Each instance would have a limiter of its own; a model has one here.
bool SaySame(const triton::ModelConfig& config) {
  const auto text = [](const triton::ModelInstanceGroup& group) {
    triton::ModelRateLimiter limiter = group.rate_limiter();
    limiter.set_priority(PriorityOf(limiter));
    return limiter.SerializeAsString();
  };
  const auto& groups = config.instance_group();
  return std::all_of(groups.begin(), groups.end(), [&](const auto& group) {
    return text(group) == text(groups[0]);
  });
}

}  // namespace

std::vector<std::pair<int, std::string>> RateLimiterYaml(
    const triton::ModelConfig& config, const PbtxtMessage& root) {
  std::vector<std::pair<int, std::string>> lines;
  if (config.instance_group().empty()) return lines;
  if (!SaySame(config)) {
    root.Refuse("instance_group", "the same rate_limiter in each", "others");
    return lines;
  }
  const triton::ModelInstanceGroup& group = config.instance_group(0);
  if (!group.has_rate_limiter()) return lines;
  const triton::ModelRateLimiter& limiter = group.rate_limiter();
  const PbtxtMessage place =
      root.Child("instance_group", group, 0).Child("rate_limiter", limiter);
  place.CheckMeanings();
  // Who has priority 2 gets half as many turns as who has 1.
  if (PriorityOf(limiter) > kFirstPriority) {
    lines.emplace_back(place.LineOf("priority"),
                       absl::StrCat("weight: ", 1.0 / PriorityOf(limiter)));
  }
  if (limiter.resources().empty()) return lines;
  lines.emplace_back(place.LineOf("resources", 0), "resources:");
  std::set<std::string> names;
  for (int i = 0; i < limiter.resources_size(); ++i) {
    const auto& resource = limiter.resources(i);
    const PbtxtMessage its = place.Child("resources", resource, i);
    its.CheckMeanings();
    if (!names.insert(resource.name()).second) {
      its.Refuse("name", "each resource once", resource.name());
    }
    lines.emplace_back(
        its.line(), absl::StrCat("  ", YamlName(resource.name()),
                                 ": {count: ", resource.count(), ", global: ",
                                 resource.global() ? "true" : "false", "}"));
  }
  return lines;
}

}  // namespace stoker
