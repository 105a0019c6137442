#include "repository/model_repository.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/absl_view.h"
#include "base/files.h"
#include "base/log.h"
#include "base/reloaded_files.h"
#include "base/status_macros.h"
#include "repository/triton_config.h"

namespace stoker {
namespace {

constexpr int64_t kMaxYamlBytes = 1 << 20;
constexpr size_t kMaxModelName = 128;
constexpr char kProgramFile[] = "model.pt2";
constexpr char kYamlFile[] = "model.yaml";
constexpr char kConfigFile[] = "config.pbtxt";
constexpr char kLabelsFile[] = "labels.txt";
constexpr int64_t kMaxLabelsBytes = 16 << 20;

bool IsFolder(const std::string& path) {
  mode_t mode = 0;
  return ReadFileStamp(path, &mode) && S_ISDIR(mode);
}

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

absl::Status CheckModelName(const std::string& path, const std::string& name) {
  const bool valid =
      !name.empty() && name.size() <= kMaxModelName &&
      std::all_of(name.begin(), name.end(), [](char c) {
        return absl::ascii_isalnum(c) || c == '_' || c == '-' || c == '.';
      });
  if (valid) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": expected a model's name of 1 to ", kMaxModelName,
                   " letters, digits, '_', '-' and '.', got another"));
}

// The number that a version folder's name is: "1", not "0", "01" or "v1".
std::optional<int64_t> VersionOf(const std::string& name) {
  int64_t version = 0;
  const char* const end = name.data() + name.size();
  const auto [stop, error] = std::from_chars(name.data(), end, version);
  if (error != std::errc() || stop != end || version < 1 || name[0] == '0') {
    return std::nullopt;
  }
  return version;
}

// A model's folder and the versions in it.
struct ModelFolder {
  std::string name;
  std::string path;
  bool is_single = false;  // model.pt2 lies in `path` itself

  std::string ProgramPath(int64_t version) const {
    return is_single ? absl::StrCat(path, "/", kProgramFile)
                     : absl::StrCat(path, "/", version, "/", kProgramFile);
  }
  std::string YamlPath() const { return absl::StrCat(path, "/", kYamlFile); }
  std::string ConfigPath() const {
    return absl::StrCat(path, "/", kConfigFile);
  }
  std::string LabelsPath() const {
    return absl::StrCat(path, "/", kLabelsFile);
  }
};

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
// version: it must not hide an older one.
absl::StatusOr<std::vector<int64_t>> FindVersions(const ModelFolder& model) {
  if (model.is_single) return std::vector<int64_t>{1};
  ASSIGN_OR_RETURN(const std::vector<std::string> names,
                   Files::Real().List(model.path));
  std::vector<int64_t> versions;
  for (const std::string& name : names) {
    const std::optional<int64_t> version = VersionOf(name);
    if (version && Exists(model.ProgramPath(*version))) {
      versions.push_back(*version);
    }
  }
  std::sort(versions.begin(), versions.end());
  return versions;
}

// What the operator says of a model: by its model.yaml or, without one, its
// config.pbtxt.
struct Settings {
  std::string yaml;
  std::optional<TritonConfig> config;
};

absl::StatusOr<Settings> ReadSettings(const ModelFolder& model) {
  Settings settings;
  ASSIGN_OR_RETURN(settings.yaml, ReadText(model.YamlPath(), kMaxYamlBytes));
  const std::string path = model.ConfigPath();
  if (!Exists(path) || Exists(model.YamlPath())) return settings;
  ASSIGN_OR_RETURN(const std::string text, ReadText(path, kMaxYamlBytes));
  ASSIGN_OR_RETURN(settings.config, TritonConfig::Parse(text, path));
  return settings;
}

absl::Status ApplySettings(const ModelFolder& model, const Settings& settings,
                           ModelSpec& spec) {
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

absl::StatusOr<std::shared_ptr<const ModelSpec>> ReadSpec(
    const ModelFolder& model, int64_t version, const Settings& settings,
    const Device& default_device) {
  const std::string path = model.ProgramPath(version);
  RETURN_IF_ERROR(CheckRegular(path));
  ASSIGN_OR_RETURN(ModelSpec spec, ReadProgram(path));
  spec.name = model.name;
  spec.version = version;
  spec.devices = {default_device};
  RETURN_IF_ERROR(ApplySettings(model, settings, spec));
  ASSIGN_OR_RETURN(const std::string labels,
                   ReadText(model.LabelsPath(), kMaxLabelsBytes));
  spec.labels = SplitLabels(labels);
  return std::make_shared<const ModelSpec>(std::move(spec));
}

// Whether reading the same files again would end the same way: not so where
// memory or descriptors were short.
bool IsLasting(const absl::Status& status) {
  return status.ok() || absl::IsInvalidArgument(status);
}

}  // namespace

struct ModelRepository::Impl {
  // A version as it was read, and what its program, settings and labels looked
  // like just before.
  struct Known {
    std::array<std::optional<FileStamp>, 4> stamps;
    absl::StatusOr<std::shared_ptr<const ModelSpec>> spec;
  };
  using KnownVersions = std::map<std::pair<std::string, int64_t>, Known>;

  absl::StatusOr<std::vector<ModelFolder>> FindModels() const;
  void PollModel(const ModelFolder& model, RepositorySnapshot& snapshot,
                 KnownVersions& seen);

  std::string root;
  std::string single_model_name;
  Device default_device;
  KnownVersions known;  // of the last poll, by program path and version
};

absl::StatusOr<std::vector<ModelFolder>> ModelRepository::Impl::FindModels()
    const {
  if (Exists(absl::StrCat(root, "/", kProgramFile))) {
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
  const absl::StatusOr<Settings> settings = ReadSettings(model);
  if (!settings.ok()) return fail(settings.status());
  absl::StatusOr<std::vector<int64_t>> found = FindVersions(model);
  if (!found.ok()) return fail(found.status());
  if (found->empty()) {
    return fail(absl::NotFoundError(
        absl::StrCat(model.path, ": expected a version in ", model.path, "/<",
                     "number>/", kProgramFile, ", found none")));
  }
  absl::StatusOr<std::vector<int64_t>> wanted =
      settings->config.has_value()
          ? settings->config->ChooseVersions(*std::move(found))
          : ChooseVersions(settings->yaml, model.YamlPath(), *std::move(found));
  if (!wanted.ok()) return fail(wanted.status());

  for (int64_t version : *wanted) {
    const std::string path = model.ProgramPath(version);
    const std::array stamps{ReadFileStamp(path), yaml_stamp, config_stamp,
                            labels_stamp};
    const auto last = known.find({path, version});
    if (last != known.end() && last->second.stamps == stamps &&
        IsLasting(last->second.spec.status())) {
      seen.insert(known.extract(last));
    } else {
      seen.emplace(
          std::pair(path, version),
          Known{stamps, ReadSpec(model, version, *settings, default_device)});
    }
    snapshot.push_back({model.name, version, seen.at({path, version}).spec});
  }
}

ModelRepository::ModelRepository(std::unique_ptr<Impl> impl)
    : impl_(std::move(impl)) {}
ModelRepository::~ModelRepository() = default;

const std::string& ModelRepository::root() const { return impl_->root; }

absl::StatusOr<std::unique_ptr<ModelRepository>> ModelRepository::Open(
    std::string root, std::string single_model_name, Device default_device) {
  auto repository = OpenLater(std::move(root), std::move(single_model_name),
                              std::move(default_device));
  RETURN_IF_ERROR(repository->CheckRoot());
  return repository;
}

std::unique_ptr<ModelRepository> ModelRepository::OpenLater(
    std::string root, std::string single_model_name, Device default_device) {
  auto impl = std::make_unique<Impl>();
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
    impl_->PollModel(model, snapshot, seen);
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
    const std::string& model) {
  ASSIGN_OR_RETURN(const std::vector<ModelFolder> models, impl_->FindModels());
  RepositorySnapshot snapshot;
  for (const ModelFolder& folder : models) {
    if (folder.name != model) continue;
    Impl::KnownVersions seen;
    impl_->PollModel(folder, snapshot, seen);
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

}  // namespace stoker
