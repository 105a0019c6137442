#include "repository/model_repository.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/files.h"
#include "base/reloaded_files.h"
#include "base/status_macros.h"
#include "repository/model_folder.h"
#include "repository/override_files.h"

namespace stoker {
namespace {

bool IsFolder(const std::string& path) {
  mode_t mode = 0;
  return ReadFileStamp(path, &mode) && S_ISDIR(mode);
}

// Whether reading the same files again would end the same way: not so where
// memory or descriptors were short.
bool IsLasting(const absl::Status& status) {
  return status.ok() || absl::IsInvalidArgument(status);
}

absl::StatusOr<std::shared_ptr<const ModelSpec>> Shared(
    absl::StatusOr<ModelSpec> spec) {
  if (!spec.ok()) return std::move(spec).status();
  return std::make_shared<const ModelSpec>(*std::move(spec));
}

std::map<std::string, int> AliasesOf(int64_t version,
                                     const ModelFolder::Aliases& aliases) {
  std::map<std::string, int> its;
  for (const auto& [name, alias] : aliases) {
    if (alias.version == version) its.emplace(name, alias.percent);
  }
  return its;
}

}  // namespace

struct ModelRepository::Impl {
  explicit Impl(const OverrideLimits& overrides) : overrides(overrides) {}

  // A version as it was read, and what its program, settings and labels, or the
  // files of its tokenizers, looked like just before.
  struct Known {
    std::vector<std::optional<FileStamp>> stamps;
    absl::StatusOr<std::shared_ptr<const ModelSpec>> spec;
  };
  using KnownVersions = std::map<std::pair<std::string, int64_t>, Known>;

  absl::StatusOr<std::vector<ModelFolder>> FindModels() const;
  absl::StatusOr<ModelFolder> FindModel(const std::string& model) const;
  void PollModel(const ModelFolder& model, const std::string* aliases,
                 RepositorySnapshot& snapshot, KnownVersions& seen);
  // Each version that is wanted of a folder, as a request says.
  absl::StatusOr<RepositorySnapshot> ReadOverride(
      const ModelFolder& model, const ModelOverride& override,
      const std::shared_ptr<const void>& claim) const;

  std::string root;
  std::string single_model_name;
  Device default_device;
  mutable OverrideFiles overrides;
  KnownVersions known;  // of the last poll, by program path and version
};

absl::StatusOr<std::vector<ModelFolder>> ModelRepository::Impl::FindModels()
    const {
  if (ReadFileStamp(absl::StrCat(root, "/", kProgramFile)).has_value()) {
    return std::vector<ModelFolder>{{single_model_name, root, true}};
  }
  ASSIGN_OR_RETURN(const std::vector<std::string> names,
                   Files::Real().List(root));
  std::vector<ModelFolder> models;
  for (const std::string& name : names) {
    const std::string path = absl::StrCat(root, "/", name);
    if (name[0] == '.' || !IsFolder(path)) continue;
    models.push_back({name, path, false});
  }
  return models;
}

void ModelRepository::Impl::PollModel(const ModelFolder& model,
                                      const std::string* aliases_text,
                                      RepositorySnapshot& snapshot,
                                      KnownVersions& seen) {
  const auto fail = [&](absl::Status status) {
    snapshot.push_back({model.name, 0, std::move(status)});
  };
  absl::Status name_status = CheckModelName(model.path, model.name);
  if (!name_status.ok()) return fail(std::move(name_status));
  // Before reading, so that a file that changes meanwhile is read again next
  // time.
  const std::optional<FileStamp> yaml_stamp = ReadFileStamp(model.YamlPath());
  const std::optional<FileStamp> config_stamp =
      ReadFileStamp(model.ConfigPath());
  const std::optional<FileStamp> labels_stamp =
      ReadFileStamp(model.LabelsPath());
  const absl::StatusOr<ModelSettings> settings = model.ReadSettings();
  if (!settings.ok()) return fail(settings.status());
  const absl::StatusOr<ModelFolder::Aliases> aliases =
      model.ReadAliases(aliases_text);
  if (!aliases.ok()) return fail(aliases.status());
  const absl::StatusOr<std::vector<int64_t>> wanted =
      model.ChooseVersions(*settings, *aliases);
  if (!wanted.ok()) return fail(wanted.status());

  for (int64_t version : *wanted) {
    const std::string path = model.ProgramPath(version);
    std::vector stamps{ReadFileStamp(path), yaml_stamp, config_stamp,
                       labels_stamp};
    if (settings->pipeline != nullptr) {
      for (const PipelineStep& step : settings->pipeline->steps) {
        stamps.push_back(ReadFileStamp(step.tokenizer_path));
      }
    }
    const auto last = known.find({path, version});
    if (last != known.end() && last->second.stamps == stamps &&
        IsLasting(last->second.spec.status())) {
      seen.insert(known.extract(last));
    } else {
      seen.emplace(std::pair(path, version),
                   Known{stamps, Shared(model.ReadSpec(version, *settings,
                                                       default_device))});
    }
    snapshot.push_back({model.name, version, seen.at({path, version}).spec,
                        AliasesOf(version, *aliases)});
  }
}

ModelRepository::ModelRepository(std::unique_ptr<Impl> impl)
    : impl_(std::move(impl)) {}
ModelRepository::~ModelRepository() = default;

const std::string& ModelRepository::root() const { return impl_->root; }

absl::StatusOr<std::unique_ptr<ModelRepository>> ModelRepository::Open(
    std::string root, std::string single_model_name, Device default_device,
    const OverrideLimits& overrides) {
  auto repository = OpenLater(std::move(root), std::move(single_model_name),
                              std::move(default_device), overrides);
  RETURN_IF_ERROR(repository->CheckRoot());
  return repository;
}

std::unique_ptr<ModelRepository> ModelRepository::OpenLater(
    std::string root, std::string single_model_name, Device default_device,
    const OverrideLimits& overrides) {
  auto impl = std::make_unique<Impl>(overrides);
  std::error_code error;
  impl->root = std::filesystem::absolute(root, error).lexically_normal();
  if (error || root.empty()) impl->root = std::move(root);
  if (impl->root.size() > 1 && impl->root.back() == '/') impl->root.pop_back();
  impl->single_model_name = std::move(single_model_name);
  impl->default_device = std::move(default_device);
  return std::unique_ptr<ModelRepository>(new ModelRepository(std::move(impl)));
}

absl::Status ModelRepository::CheckRoot() const {
  if (!IsFolder(impl_->root)) {
    return absl::NotFoundError(absl::StrCat(
        "model repository: expected a folder, got \"", impl_->root, "\""));
  }
  const absl::StatusOr<std::vector<std::string>> names =
      Files::Real().List(impl_->root);
  if (names.ok()) return absl::OkStatus();
  return absl::NotFoundError(
      absl::StrCat("model repository: expected a folder that can be read: ",
                   names.status().message()));
}

absl::StatusOr<RepositorySnapshot> ModelRepository::Poll() {
  ASSIGN_OR_RETURN(const std::vector<ModelFolder> models, impl_->FindModels());
  RepositorySnapshot snapshot;
  Impl::KnownVersions seen;
  for (const ModelFolder& model : models) {
    impl_->PollModel(model, nullptr, snapshot, seen);
  }
  impl_->known = std::move(seen);
  std::sort(snapshot.begin(), snapshot.end(),
            [](const DesiredVersion& a, const DesiredVersion& b) {
              return std::tie(a.model, a.version) <
                     std::tie(b.model, b.version);
            });
  return snapshot;
}

absl::StatusOr<RepositorySnapshot> ModelRepository::PollModel(
    const std::string& model, const std::string* aliases) {
  ASSIGN_OR_RETURN(const std::vector<ModelFolder> models, impl_->FindModels());
  RepositorySnapshot snapshot;
  for (const ModelFolder& folder : models) {
    if (folder.name != model) continue;
    Impl::KnownVersions seen;
    impl_->PollModel(folder, aliases, snapshot, seen);
    // What is left of the model's is gone.
    const std::string below = folder.path + "/";
    std::erase_if(impl_->known, [&](const auto& known) {
      return absl::StartsWith(known.first.first, below);
    });
    impl_->known.merge(seen);
  }
  return snapshot;
}

absl::StatusOr<std::vector<std::string>> ModelRepository::ModelNames() {
  ASSIGN_OR_RETURN(const std::vector<ModelFolder> models, impl_->FindModels());
  std::vector<std::string> names;
  names.reserve(models.size());
  for (const ModelFolder& model : models) names.push_back(model.name);
  std::sort(names.begin(), names.end());
  return names;
}

absl::StatusOr<ModelFolder> ModelRepository::Impl::FindModel(
    const std::string& model) const {
  ASSIGN_OR_RETURN(const std::vector<ModelFolder> models, FindModels());
  const auto found = std::find_if(
      models.begin(), models.end(),
      [&](const ModelFolder& folder) { return folder.name == model; });
  if (found != models.end()) return *found;
  return absl::NotFoundError(
      absl::StrCat("there is none of that name in ", root));
}

absl::StatusOr<RepositorySnapshot> ModelRepository::Impl::ReadOverride(
    const ModelFolder& model, const ModelOverride& override,
    const std::shared_ptr<const void>& claim) const {
  ModelSettings settings;
  if (override.config.has_value()) {
    ASSIGN_OR_RETURN(TritonConfig config,
                     TritonConfig::ParseJson(*override.config, "config"));
    ASSIGN_OR_RETURN(settings, model.SettingsOf(std::move(config)));
  } else {
    ASSIGN_OR_RETURN(settings, model.ReadSettings());
  }
  ASSIGN_OR_RETURN(const ModelFolder::Aliases aliases,
                   model.ReadAliases(nullptr));
  ASSIGN_OR_RETURN(const std::vector<int64_t> versions,
                   model.ChooseVersions(settings, aliases));
  RepositorySnapshot snapshot;
  for (const int64_t version : versions) {
    ASSIGN_OR_RETURN(ModelSpec spec,
                     model.ReadSpec(version, settings, default_device));
    if (claim != nullptr && !spec.compile.passes_path.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(
          model.YamlPath(), ": compile.passes: expected none of a model whose ",
          "files come with a request, got ", spec.compile.passes_path));
    }
    if (claim != nullptr) {
      spec.program_path = absl::StrCat("file:", version, "/", kProgramFile);
    }
    spec.claim = claim;
    snapshot.push_back({model.name, version,
                        std::make_shared<const ModelSpec>(std::move(spec)),
                        AliasesOf(version, aliases)});
  }
  return snapshot;
}

absl::StatusOr<RepositorySnapshot> ModelRepository::Override(
    const std::string& model, const ModelOverride& override) const {
  if (override.files.empty()) {
    ASSIGN_OR_RETURN(const ModelFolder folder, impl_->FindModel(model));
    RETURN_IF_ERROR(CheckModelName(folder.path, model));
    return impl_->ReadOverride(folder, override, nullptr);
  }
  RETURN_IF_ERROR(CheckModelName("model_name", model));
  if (override.config.has_value() && (override.files.contains(kYamlFile) ||
                                      override.files.contains(kConfigFile))) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected either config, file:", kYamlFile,
                     " or file:", kConfigFile, ", got config and another"));
  }
  ASSIGN_OR_RETURN(const OverrideFiles::Written written,
                   impl_->overrides.Write(override.files));
  const ModelFolder folder{.name = model, .path = written.folder->path()};
  absl::StatusOr<RepositorySnapshot> snapshot =
      impl_->ReadOverride(folder, override, written.claim);
  if (snapshot.ok()) return snapshot;
  // By the names that the client gave.
  return absl::Status(snapshot.status().code(),
                      absl::StrReplaceAll(snapshot.status().message(),
                                          {{folder.path + "/", "file:"},
                                           {folder.path, "the request"}}));
}

}  // namespace stoker
