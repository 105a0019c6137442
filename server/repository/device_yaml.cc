#include "repository/device_yaml.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/cpus.h"

namespace stoker {

void ReadDevices(const YamlValue& value, ModelSpec& spec) {
  const std::vector<YamlValue> words =
      value.is_list() ? *value.List() : std::vector<YamlValue>{value};
  std::vector<Device> devices;
  for (const YamlValue& word : words) {
    const absl::StatusOr<Device> device = ParseDevice(word.text());
    if (!device.ok()) return word.Error(kDeviceForms);
    if (words.size() > 1 &&
        (!device->is_gpu() || device->kind == Device::Kind::kAnyGpu)) {
      return word.Error("GPUs by index or UUID in a list");
    }
    if (std::find(devices.begin(), devices.end(), *device) != devices.end()) {
      return word.Error("each device once");
    }
    devices.push_back(*device);
  }
  if (devices.empty()) return value.Error(kDeviceForms, "an empty list");
  spec.devices = std::move(devices);
}

void ReadGraphs(const YamlValue& value, ModelSpec& spec) {
  if (!value.is_map()) {
    spec.graphs.enabled =
        value.Bool("true, false or {memory_mb: N}").value_or(true);
    return;
  }
  const auto entries = value.Map({"memory_mb"});
  if (!entries) return;
  constexpr int64_t kMostMb = 1 << 20;
  for (const auto& [name, field] : *entries) {
    if (const auto mb = field.Int(1, kMostMb)) {
      spec.graphs.max_bytes = *mb << 20;
    }
  }
}

void ReadCpus(const YamlValue& value, ModelSpec& spec) {
  const std::vector<YamlValue> lists =
      value.is_list() ? *value.List() : std::vector<YamlValue>{value};
  for (const YamlValue& list : lists) {
    const absl::StatusOr<std::vector<int>> cpus = ParseCpuList(list.text());
    if (!cpus.ok()) return list.Error("CPUs such as \"0-3,8\"");
    spec.cpus.push_back(*cpus);
  }
  if (lists.size() != 1 &&
      lists.size() != static_cast<size_t>(spec.instances)) {
    value.Error(absl::StrCat("CPUs for all instances, or a list with those "
                             "of each of the ",
                             spec.instances),
                absl::StrCat("a list of ", lists.size()));
  }
}

void ReadNumaNode(const YamlValue& value, ModelSpec& spec) {
  if (!spec.cpus.empty()) {
    return value.Error("nothing beside cpus, which says more");
  }
  int node = 0;
  value.ReadInt(0, 1023, node);
  spec.numa_node = node;
}

void ReadWeight(const YamlValue& value, ModelSpec& spec) {
  const std::optional<double> weight = value.Number();
  if (!weight) return;
  constexpr double kLeast = 0.001, kMost = 1000;
  if (!(*weight >= kLeast && *weight <= kMost)) {
    return value.Error("a number from 0.001 to 1000");
  }
  spec.weight = *weight;
}

void ReadResources(const YamlValue& value, ModelSpec& spec) {
  const auto entries = value.MapOfNames();
  if (!entries) return;
  for (const auto& [name, entry] : *entries) {
    if (!IsResourceName(name)) {
      entry.Error(kResourceNames, name);
      continue;
    }
    ResourceDemand demand;
    const auto read_count = [&](const YamlValue& count) {
      count.ReadInt(1, kMostOfResource, demand.count);
    };
    if (!entry.is_map()) {
      read_count(entry);
    } else if (const auto fields = entry.Map({"count", "global"})) {
      for (const auto& [key, field] : *fields) {
        if (key == "count") read_count(field);
        if (key == "global") demand.global = field.Bool().value_or(false);
      }
    }
    spec.resources[name] = demand;
  }
}

}  // namespace stoker
