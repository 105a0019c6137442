// One model's folder: which versions are in it, and what it says of each.
// Private to this room.
//
// A value; what it names may change at any time.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "repository/alias_file.h"
#include "repository/model_spec.h"
#include "repository/pipeline_spec.h"
#include "repository/triton_config.h"

namespace stoker {

inline constexpr char kProgramFile[] = "model.pt2";
inline constexpr char kYamlFile[] = "model.yaml";
inline constexpr char kConfigFile[] = "config.pbtxt";
inline constexpr char kLabelsFile[] = "labels.txt";
inline constexpr char kAliasesFile[] = "aliases.yaml";
// Of a model.yaml or a configuration.
inline constexpr int64_t kMaxYamlBytes = 1 << 20;

// What the operator says of a model: by its model.yaml or, without one, its
// config.pbtxt.
struct ModelSettings {
  std::string yaml;
  std::optional<TritonConfig> config;
  // Of a model that is made of others; null: it has a program.
  std::shared_ptr<const PipelineSpec> pipeline;
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
  std::string AliasesPath() const;

  absl::StatusOr<ModelSettings> ReadSettings() const;
  // What a configuration says instead.
  absl::StatusOr<ModelSettings> SettingsOf(TritonConfig config) const;
  // Of its aliases.yaml, or of `text` unless that is null.
  using Aliases = std::map<std::string, AliasSpec>;
  absl::StatusOr<Aliases> ReadAliases(const std::string* text) const;
  // Those that are wanted of the versions in it, ascending: those that have an
  // alias in any case. NOT_FOUND without any in it, but a pipeline needs none;
  // INVALID_ARGUMENT for an alias of one that isn't.
  absl::StatusOr<std::vector<int64_t>> ChooseVersions(
      const ModelSettings& settings, const Aliases& aliases) const;
  absl::StatusOr<ModelSpec> ReadSpec(int64_t version,
                                     const ModelSettings& settings,
                                     const Device& default_device) const;
};

}  // namespace stoker
