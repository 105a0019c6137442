#include "repository/override_files.h"

#include <stdlib.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "base/errno_status.h"
#include "base/files.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "repository/model_folder.h"

namespace stoker {
namespace {

// "7/model.pt2".
bool IsProgram(const std::string& name) {
  const size_t slash = name.find('/');
  return slash != name.npos && name.substr(slash + 1) == kProgramFile &&
         VersionOf(name.substr(0, slash)).has_value();
}

absl::Status CheckName(const std::string& name) {
  if (name == kYamlFile || name == kConfigFile || name == kLabelsFile ||
      name == kAliasesFile || IsProgram(name)) {
    return absl::OkStatus();
  }
  constexpr size_t kShown = 100;
  return absl::InvalidArgumentError(absl::StrCat(
      "expected files named <version>/", kProgramFile, ", ", kYamlFile, ", ",
      kConfigFile, ", ", kLabelsFile, " or ", kAliasesFile,
      ", got 'file:", absl::CHexEscape(name.substr(0, kShown)),
      name.size() > kShown ? "..." : "", "'"));
}

absl::StatusOr<std::string> MakeFolder(const std::string& parent) {
  std::error_code error;
  std::string path = absl::StrCat(
      parent.empty() ? std::filesystem::temp_directory_path(error).string()
                     : parent,
      "/stokerd-load-XXXXXX");
  // Mode 0700.
  if (mkdtemp(path.data()) == nullptr) {
    return ErrnoStatus(errno, absl::StrCat("mkdtemp ", path));
  }
  return path;
}

absl::Status WriteAll(const std::string& folder,
                      const std::map<std::string, std::string>& files) {
  for (const auto& [name, content] : files) {
    const std::string path = absl::StrCat(folder, "/", name);
    RETURN_IF_ERROR(Files::Real().MakeFolders(
        std::filesystem::path(path).parent_path().string()));
    RETURN_IF_ERROR(Files::Real().Write(path, content));
  }
  return absl::OkStatus();
}

}  // namespace

struct OverrideFiles::Held {
  absl::Status Take(int64_t more, const OverrideLimits& limits)
      ABSL_LOCKS_EXCLUDED(mu) {
    absl::MutexLock lock(&mu);
    if (loads >= limits.max_loads) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "expected at most ", limits.max_loads,
          " loads with files at a time (--max-loads-with-files), got one "
          "more; an unload makes room"));
    }
    if (more > limits.max_bytes - bytes) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "expected at most ", limits.max_bytes,
          " bytes of files of all loads together (--max-load-files-mb), got ",
          more,
          limits.max_bytes == 0
              ? std::string(": none are taken")
              : absl::StrCat(" besides ", bytes, " that are held")));
    }
    bytes += more;
    ++loads;
    return absl::OkStatus();
  }
  void GiveBack(int64_t taken) ABSL_LOCKS_EXCLUDED(mu) {
    absl::MutexLock lock(&mu);
    bytes -= taken;
    --loads;
  }

  absl::Mutex mu;
  int64_t bytes ABSL_GUARDED_BY(mu) = 0;
  int loads ABSL_GUARDED_BY(mu) = 0;
};

OverrideFiles::OverrideFiles(const OverrideLimits& limits)
    : limits_(limits), held_(std::make_shared<Held>()) {}
OverrideFiles::~OverrideFiles() = default;

OverrideFiles::Folder::~Folder() {
  const absl::Status removed = Files::Real().Remove(path_);
  if (!removed.ok()) log::Warn("{}", std::string(removed.message()));
}

absl::StatusOr<OverrideFiles::Written> OverrideFiles::Write(
    const std::map<std::string, std::string>& files) {
  int64_t bytes = 0;
  for (const auto& [name, content] : files) {
    RETURN_IF_ERROR(CheckName(name));
    bytes += static_cast<int64_t>(content.size());
  }
  if (std::none_of(files.begin(), files.end(),
                   [](const auto& file) { return IsProgram(file.first); })) {
    return absl::InvalidArgumentError(absl::StrCat(
        "expected a program, file:<version>/", kProgramFile,
        ", among the files of the request: they stand for the model's whole "
        "folder"));
  }
  RETURN_IF_ERROR(held_->Take(bytes, limits_));
  Written written;
  // Counts from here on.
  written.claim = std::shared_ptr<const void>(
      held_.get(),
      [held = held_, bytes](const void*) { held->GiveBack(bytes); });
  ASSIGN_OR_RETURN(std::string path, MakeFolder(limits_.folder));
  written.folder = std::make_unique<Folder>(std::move(path));
  RETURN_IF_ERROR(WriteAll(written.folder->path(), files));
  return written;
}

}  // namespace stoker
