#include "base/file_descriptor.h"

#include <unistd.h>

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "base/absl_view.h"
#include "base/errno_status.h"

namespace stoker {

FileDescriptor::~FileDescriptor() {
  if (fd_ >= 0) close(fd_);
}

absl::Status LastError(std::string_view operation, const std::string& path) {
  return ErrnoStatus(errno, absl::StrCat(Absl(operation), " ", path));
}

absl::Status WriteAll(int fd, std::string_view bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t done = write(fd, bytes.data(), bytes.size());
    if (done < 0) {
      if (errno == EINTR) continue;
      return LastError("write", path);
    }
    bytes.remove_prefix(static_cast<size_t>(done));
  }
  return absl::OkStatus();
}

}  // namespace stoker
