#include "base/reloaded_files.h"

#include <sys/stat.h>

#include <utility>

namespace stoker {

std::optional<FileStamp> ReadFileStamp(const std::string& path, mode_t* mode) {
  struct stat info = {};
  if (stat(path.c_str(), &info) != 0) return std::nullopt;
  if (mode != nullptr) *mode = info.st_mode;
  return FileStamp{.device = info.st_dev,
                   .inode = info.st_ino,
                   .bytes = info.st_size,
                   .seconds = info.st_mtim.tv_sec,
                   .nanoseconds = info.st_mtim.tv_nsec};
}

ReloadedFiles::ReloadedFiles(std::vector<std::string> paths)
    : paths_(std::move(paths)), stamps_(ReadStamps()) {}

std::vector<std::optional<FileStamp>> ReloadedFiles::ReadStamps() const {
  std::vector<std::optional<FileStamp>> stamps;
  for (const std::string& path : paths_) stamps.push_back(ReadFileStamp(path));
  return stamps;
}

std::optional<absl::Status> ReloadedFiles::Look(
    absl::FunctionRef<absl::Status()> load) {
  std::vector<std::optional<FileStamp>> stamps = ReadStamps();
  const bool changed = stamps != stamps_;
  if (!changed && complaint_.empty()) return std::nullopt;
  stamps_ = std::move(stamps);
  absl::Status loaded = load();
  const std::string before =
      std::exchange(complaint_, std::string(loaded.message()));
  if (!loaded.ok() && !changed && complaint_ == before) return std::nullopt;
  return loaded;
}

}  // namespace stoker
