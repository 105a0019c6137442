#include "base/file_stream.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "absl/strings/str_cat.h"
#include "base/files.h"
#include "base/status_macros.h"

namespace stoker {
namespace {

// A read() of so much costs nothing beside what is done with the bytes.
constexpr size_t kBufferBytes = size_t{1} << 20;

}  // namespace

absl::StatusOr<InputFile> InputFile::Open(const std::string& path) {
  FileDescriptor fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.ok()) return LastError("open", path);
  struct stat info;
  if (fstat(fd.get(), &info) != 0) return LastError("stat", path);
  std::optional<int64_t> size;
  if (S_ISREG(info.st_mode)) size = info.st_size;
  // A hint; nothing depends on it.
  posix_fadvise(fd.get(), 0, 0, POSIX_FADV_SEQUENTIAL);
  return InputFile(path, std::move(fd), size);
}

absl::StatusOr<size_t> InputFile::Read(char* buffer, size_t bytes) {
  size_t filled = 0;
  while (filled < bytes) {
    const ssize_t got = read(fd_.get(), buffer + filled, bytes - filled);
    if (got == 0) break;
    if (got > 0) {
      filled += static_cast<size_t>(got);
    } else if (errno != EINTR) {
      return LastError("read", path_);
    }
  }
  return filled;
}

absl::StatusOr<int64_t> InputFile::ReadTo(const Sink& sink, int64_t most) {
  if (buffer_ == nullptr) {
    buffer_ = std::make_unique_for_overwrite<char[]>(kBufferBytes);
  }
  int64_t total = 0;
  while (total < most) {
    const auto want = static_cast<size_t>(
        std::min(most - total, static_cast<int64_t>(kBufferBytes)));
    ASSIGN_OR_RETURN(const size_t got, Read(buffer_.get(), want));
    RETURN_IF_ERROR(sink({buffer_.get(), got}));
    total += static_cast<int64_t>(got);
    if (got < want) break;
  }
  return total;
}

absl::StatusOr<OutputFile> OutputFile::Create(const std::string& path) {
  FileDescriptor fd(
      open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!fd.ok()) return LastError("create", path);
  return OutputFile(path, std::move(fd));
}

absl::Status OutputFile::Write(std::string_view bytes) {
  return WriteAll(fd_.get(), bytes, path_);
}

absl::Status OutputFile::Close() {
  if (close(fd_.Release()) != 0) return LastError("close", path_);
  return absl::OkStatus();
}

absl::StatusOr<DraftFile> DraftFile::CreateIn(const std::string& folder) {
  std::string path = absl::StrCat(folder, "/.draft-XXXXXX");
  FileDescriptor fd(mkostemp(path.data(), O_CLOEXEC));
  if (!fd.ok()) return LastError("create a file in", folder);
  return DraftFile(std::move(path), std::move(fd));
}

DraftFile::DraftFile(DraftFile&& other) noexcept
    : path_(std::exchange(other.path_, "")), fd_(std::move(other.fd_)) {}

DraftFile::~DraftFile() {
  if (!path_.empty()) unlink(path_.c_str());
}

absl::Status DraftFile::Write(std::string_view bytes) {
  return WriteAll(fd_.get(), bytes, path_);
}

absl::Status DraftFile::PublishAs(const std::string& path) {
  if (fchmod(fd_.get(), 0644) != 0) return LastError("chmod", path_);
  if (fsync(fd_.get()) != 0) return LastError("fsync", path_);
  if (close(fd_.Release()) != 0) return LastError("close", path_);
  RETURN_IF_ERROR(Files::Real().Rename(path_, path));
  path_.clear();
  return absl::OkStatus();
}

}  // namespace stoker
