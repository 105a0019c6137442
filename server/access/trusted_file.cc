#include "access/trusted_file.h"

#include <sys/stat.h>

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/errno_status.h"
#include "base/files.h"

namespace stoker {

absl::StatusOr<std::string> ReadTrusted(const std::string& path,
                                        size_t max_bytes) {
  struct stat info = {};
  if (stat(path.c_str(), &info) != 0) return ErrnoStatus(errno, path);
  if ((info.st_mode & S_IWOTH) != 0) {
    return absl::PermissionDeniedError(absl::StrCat(
        path, ": expected a file that not everybody may write, got mode ",
        absl::StrFormat("%o", info.st_mode & 0777)));
  }
  return ReadAtMost(Files::Real(), path, max_bytes);
}

}  // namespace stoker
