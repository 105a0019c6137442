#include "telemetry/append_file.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/errno_status.h"
#include "base/status_macros.h"

namespace stoker {
namespace {

// A pipe that poll calls writable takes as much without waiting.
constexpr size_t kPipePiece = 4096;
constexpr int kPatienceMs = 100;

absl::StatusOr<FileDescriptor> OpenToAppend(const std::string& path) {
  // Nobody may read what others' requests were but who may read the log.
  constexpr mode_t kMode = S_IRUSR | S_IWUSR | S_IRGRP;
  // A pipe without a reader is an error, and nothing to wait for.
  FileDescriptor file(
      open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK,
           kMode));
  if (!file.ok()) return LastError("open", path);
  return file;
}

bool IsRegular(int fd) {
  struct stat found = {};
  return fstat(fd, &found) == 0 && S_ISREG(found.st_mode);
}

}  // namespace

absl::StatusOr<AppendFile> AppendFile::Open(const std::string& path) {
  if (path == "-") {
    FileDescriptor out(fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0));
    if (!out.ok()) return LastError("use", "the standard output");
    const bool regular = IsRegular(out.get());
    return AppendFile("", std::move(out), regular);
  }
  ASSIGN_OR_RETURN(FileDescriptor file, OpenToAppend(path));
  const bool regular = IsRegular(file.get());
  return AppendFile(path, std::move(file), regular);
}

absl::Status AppendFile::FollowName() {
  if (path_.empty() || !regular_) return absl::OkStatus();
  struct stat open_one = {};
  if (fstat(file_.get(), &open_one) != 0) return LastError("look at", path_);
  const std::optional<FileStamp> named = ReadFileStamp(path_);
  if (named.has_value() && named->device == open_one.st_dev &&
      named->inode == open_one.st_ino) {
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(FileDescriptor file, OpenToAppend(path_));
  regular_ = IsRegular(file.get());
  file_ = std::move(file);
  in_line_ = false;
  return absl::OkStatus();
}

absl::Status AppendFile::Await(absl::FunctionRef<bool()> gives_up) const {
  for (;;) {
    pollfd waits = {file_.get(), POLLOUT, 0};
    const int ready = poll(&waits, 1, kPatienceMs);
    if (ready > 0) return absl::OkStatus();
    if (ready < 0 && errno != EINTR) return LastError("wait for", path_);
    if (gives_up()) {
      return absl::UnavailableError(absl::StrCat(
          "expected a reader of ",
          path_.empty() ? "the standard output" : path_, ", got none in time"));
    }
  }
}

absl::Status AppendFile::Write(std::string_view lines,
                               absl::FunctionRef<bool()> gives_up) {
  if (std::exchange(in_line_, false)) {
    if (write(file_.get(), "\n", 1) != 1) {
      in_line_ = true;
      return LastError("write", path_);
    }
  }
  while (!lines.empty()) {
    size_t piece = lines.size();
    if (!regular_) {
      RETURN_IF_ERROR(Await(gives_up));
      piece = std::min(piece, kPipePiece);
    }
    const ssize_t written = write(file_.get(), lines.data(), piece);
    if (written < 0) {
      if (errno == EINTR || errno == EAGAIN) continue;
      return LastError("write", path_.empty() ? "the standard output" : path_);
    }
    lines.remove_prefix(static_cast<size_t>(written));
    in_line_ = !lines.empty() && lines.data()[-1] != '\n';
  }
  return absl::OkStatus();
}

}  // namespace stoker
