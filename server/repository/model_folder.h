// One model's folder: which versions are in it, and what it says of each.
// Private to this room.
//
// A value; what it names may change at any time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "repository/model_spec.h"
#include "repository/triton_config.h"

namespace stoker {

inline constexpr char kProgramFile[] = "model.pt2";
inline constexpr char kYamlFile[] = "model.yaml";
inline constexpr char kConfigFile[] = "config.pbtxt";
inline constexpr char kLabelsFile[] = "labels.txt";
// Of a model.yaml or a configuration.
inline constexpr int64_t kMaxYamlBytes = 1 << 20;

// What the operator says of a model: by its model.yaml or, without one, its
// config.pbtxt.
struct ModelSettings {
  std::string yaml;
  std::optional<TritonConfig> config;
};

// The number that a version folder's name is: "1", not "0", "01" or "v1".
std::optional<int64_t> VersionOf(std::string_view name);
// INVALID_ARGUMENT, beginning with `where`, for what is no model's name.
absl::Status CheckModelName(const std::string& where, const std::string& name);

struct ModelFolder {
  std::string name;
  std::string path;
  bool is_single = false;  // model.pt2 lies in `path` itself

  std::string ProgramPath(int64_t version) const;
  std::string YamlPath() const;
  std::string ConfigPath() const;
  std::string LabelsPath() const;

  absl::StatusOr<ModelSettings> ReadSettings() const;
  // Those that are wanted of the versions in it, ascending. NOT_FOUND without
  // any in it.
  absl::StatusOr<std::vector<int64_t>> ChooseVersions(
      const ModelSettings& settings) const;
  absl::StatusOr<ModelSpec> ReadSpec(int64_t version,
                                     const ModelSettings& settings,
                                     const Device& default_device) const;
};

}  // namespace stoker
