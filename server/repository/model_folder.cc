#include "repository/model_folder.h"

#include <sys/stat.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/absl_view.h"
#include "base/files.h"
#include "base/log.h"
#include "base/reloaded_files.h"
#include "base/status_macros.h"
#include "repository/model_repository.h"
#include "repository/pipeline_yaml.h"

namespace stoker {
namespace {

constexpr size_t kMaxModelName = 128;
constexpr int64_t kMaxLabelsBytes = 16 << 20;

bool Exists(const std::string& path) { return ReadFileStamp(path).has_value(); }

// A FIFO or a device in a file's place would block or never end.
absl::Status CheckRegular(const std::string& path) {
  mode_t mode = 0;
  if (!ReadFileStamp(path, &mode)) {
    return absl::NotFoundError(
        absl::StrCat(path, ": expected a file, found nothing"));
  }
  if (S_ISREG(mode)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": expected a regular file, got something else"));
}

// Text of one of the model's files; empty when it has none.
absl::StatusOr<std::string> ReadText(const std::string& path,
                                     int64_t max_bytes) {
  if (!Exists(path)) return std::string();
  RETURN_IF_ERROR(CheckRegular(path));
  ASSIGN_OR_RETURN(const int64_t bytes, Files::Real().Size(path));
  if (bytes > max_bytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        path, ": expected at most ", max_bytes, " bytes, got ", bytes));
  }
  return Files::Real().Read(path);
}

// A label is a line; null when there are none.
std::shared_ptr<const std::vector<std::string>> SplitLabels(
    std::string_view text) {
  if (text.empty()) return nullptr;
  auto labels = std::make_shared<std::vector<std::string>>();
  for (absl::string_view line : absl::StrSplit(Absl(text), '\n')) {
    labels->emplace_back(absl::StripSuffix(line, "\r"));
  }
  if (labels->back().empty()) labels->pop_back();  // behind the last line
  return labels;
}

// Version folders that hold a program. One without is being filled, or is not a
// version: it must not hide an older one. Those of a pipeline hold nothing, and
// where there are none it is version 1.
absl::StatusOr<std::vector<int64_t>> FindVersions(const ModelFolder& model,
                                                  bool is_pipeline) {
  if (model.is_single) return std::vector<int64_t>{1};
  ASSIGN_OR_RETURN(const std::vector<std::string> names,
                   Files::Real().List(model.path));
  std::vector<int64_t> versions;
  for (const std::string& name : names) {
    const std::optional<int64_t> version = VersionOf(name);
    if (version && (is_pipeline || Exists(model.ProgramPath(*version)))) {
      versions.push_back(*version);
    }
  }
  if (is_pipeline && versions.empty()) versions.push_back(1);
  std::sort(versions.begin(), versions.end());
  return versions;
}

absl::Status ApplySettings(const ModelFolder& model,
                           const ModelSettings& settings, ModelSpec& spec) {
  if (!settings.config.has_value()) {
    if (Exists(model.ConfigPath())) {
      log::Warn("{} is not read: there is a {} beside it", model.ConfigPath(),
                kYamlFile);
    }
    return ApplyModelYaml(settings.yaml, model.YamlPath(), spec);
  }
  ASSIGN_OR_RETURN(const std::vector<std::string> ignored,
                   settings.config->Apply(spec));
  for (const std::string& line : ignored) log::Info("{}", line);
  return absl::OkStatus();
}

// Of which the rest is the models' of its steps.
ModelSpec PipelineOf(const ModelFolder& model, int64_t version,
                     const ModelSettings& settings) {
  ModelSpec spec;
  spec.name = model.name;
  spec.version = version;
  spec.pipeline = settings.pipeline;
  // It has nothing that could be compiled or rest.
  spec.compile.enabled = false;
  spec.keep_in_memory = true;
  return spec;
}

}  // namespace

std::optional<int64_t> VersionOf(std::string_view name) {
  int64_t version = 0;
  const char* const end = name.data() + name.size();
  const auto [stop, error] = std::from_chars(name.data(), end, version);
  if (error != std::errc() || stop != end || version < 1 || name[0] == '0') {
    return std::nullopt;
  }
  return version;
}

absl::Status CheckModelName(const std::string& where, const std::string& name) {
  const bool valid =
      !name.empty() && name.size() <= kMaxModelName &&
      std::all_of(name.begin(), name.end(), [](char c) {
        return absl::ascii_isalnum(c) || c == '_' || c == '-' || c == '.';
      });
  if (valid) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(where, ": expected a model's name of 1 to ", kMaxModelName,
                   " letters, digits, '_', '-' and '.', got another"));
}

std::string ModelFolder::ProgramPath(int64_t version) const {
  return is_single ? absl::StrCat(path, "/", kProgramFile)
                   : absl::StrCat(path, "/", version, "/", kProgramFile);
}
std::string ModelFolder::YamlPath() const {
  return absl::StrCat(path, "/", kYamlFile);
}
std::string ModelFolder::ConfigPath() const {
  return absl::StrCat(path, "/", kConfigFile);
}
std::string ModelFolder::LabelsPath() const {
  return absl::StrCat(path, "/", kLabelsFile);
}

std::string ModelFolder::AliasesPath() const {
  return absl::StrCat(path, "/", kAliasesFile);
}

absl::StatusOr<ModelSettings> ModelFolder::ReadSettings() const {
  ModelSettings settings;
  ASSIGN_OR_RETURN(settings.yaml, ReadText(YamlPath(), kMaxYamlBytes));
  if (!Exists(ConfigPath()) || Exists(YamlPath())) {
    ASSIGN_OR_RETURN(settings.pipeline,
                     ReadPipeline(settings.yaml, YamlPath(), path));
    return settings;
  }
  ASSIGN_OR_RETURN(const std::string text,
                   ReadText(ConfigPath(), kMaxYamlBytes));
  ASSIGN_OR_RETURN(TritonConfig config,
                   TritonConfig::Parse(text, ConfigPath()));
  return SettingsOf(std::move(config));
}

absl::StatusOr<ModelSettings> ModelFolder::SettingsOf(
    TritonConfig config) const {
  ModelSettings settings;
  ASSIGN_OR_RETURN(settings.pipeline, config.ReadEnsemble(name, path));
  settings.config = std::move(config);
  return settings;
}

absl::StatusOr<ModelFolder::Aliases> ModelFolder::ReadAliases(
    const std::string* text) const {
  if (text != nullptr) {
    if (text->size() > kMaxYamlBytes) {
      return absl::InvalidArgumentError(
          absl::StrCat("file:", kAliasesFile, ": expected at most ",
                       kMaxYamlBytes, " bytes, got ", text->size()));
    }
    return stoker::ReadAliases(*text, absl::StrCat("file:", kAliasesFile));
  }
  ASSIGN_OR_RETURN(const std::string own,
                   ReadText(AliasesPath(), kMaxYamlBytes));
  return stoker::ReadAliases(own, AliasesPath());
}

absl::StatusOr<std::vector<int64_t>> ModelFolder::ChooseVersions(
    const ModelSettings& settings, const Aliases& aliases) const {
  ASSIGN_OR_RETURN(const std::vector<int64_t> found,
                   FindVersions(*this, settings.pipeline != nullptr));
  if (found.empty()) {
    return absl::NotFoundError(absl::StrCat(path, ": expected a version in ",
                                            path, "/<number>/", kProgramFile,
                                            ", found none"));
  }
  ASSIGN_OR_RETURN(
      std::vector<int64_t> chosen,
      settings.config.has_value()
          ? settings.config->ChooseVersions(found)
          : stoker::ChooseVersions(settings.yaml, YamlPath(), found));
  for (const auto& [alias, spec] : aliases) {
    if (std::find(found.begin(), found.end(), spec.version) == found.end()) {
      return absl::InvalidArgumentError(absl::StrCat(
          kAliasesFile, ": ", alias, ": expected a version that is in ", path,
          " (", absl::StrJoin(found, ", "), "), got ", spec.version));
    }
    if (std::find(chosen.begin(), chosen.end(), spec.version) == chosen.end()) {
      chosen.push_back(spec.version);
    }
  }
  std::sort(chosen.begin(), chosen.end());
  return chosen;
}

absl::StatusOr<ModelSpec> ModelFolder::ReadSpec(
    int64_t version, const ModelSettings& settings,
    const Device& default_device) const {
  if (settings.pipeline != nullptr) {
    if (settings.config.has_value()) {
      ASSIGN_OR_RETURN(const TritonConfig::Yaml yaml,
                       settings.config->EnsembleYaml(name));
      for (const std::string& line : yaml.ignored) log::Info("{}", line);
    }
    return PipelineOf(*this, version, settings);
  }
  const std::string program = ProgramPath(version);
  RETURN_IF_ERROR(CheckRegular(program));
  ASSIGN_OR_RETURN(ModelSpec spec, ReadProgram(program));
  spec.name = name;
  spec.version = version;
  spec.devices = {default_device};
  RETURN_IF_ERROR(ApplySettings(*this, settings, spec));
  ASSIGN_OR_RETURN(const std::string labels,
                   ReadText(LabelsPath(), kMaxLabelsBytes));
  spec.labels = SplitLabels(labels);
  return spec;
}

}  // namespace stoker
