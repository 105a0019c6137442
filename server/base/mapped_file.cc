#include "base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/errno_status.h"

namespace stoker {
absl::StatusOr<std::unique_ptr<const MappedFile>> MappedFile::Open(
    const std::string& path) {
  // O_NONBLOCK: opening a pipe must not wait for a writer.
  FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0) return ErrnoStatus(errno, absl::StrCat("open ", path));
  struct stat info;
  if (fstat(file.get(), &info) != 0) {
    return ErrnoStatus(errno, absl::StrCat("stat ", path));
  }
  if (!S_ISREG(info.st_mode) || info.st_size == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        path, ": ", S_ISREG(info.st_mode) ? "an empty file" : "not a file",
        ", expected a file with content"));
  }
  const auto size = static_cast<size_t>(info.st_size);
  void* data = mmap(nullptr, size, PROT_READ, MAP_SHARED, file.get(), 0);
  if (data == MAP_FAILED) {
    return ErrnoStatus(errno, absl::StrCat("map ", path));
  }
  return std::unique_ptr<const MappedFile>(
      new MappedFile(std::move(file), static_cast<const char*>(data), size));
}

MappedFile::MappedFile(FileDescriptor file, const char* data, size_t size)
    : file_(std::move(file)),
      data_(data),
      size_(size),
      guard_(std::make_unique<PageGuard>(data, size)) {}

MappedFile::~MappedFile() {
  guard_.reset();
  munmap(const_cast<char*>(data_), size_);
}

absl::StatusOr<std::shared_ptr<std::byte>> MappedFile::CopyOnWrite() const {
  // Of memory that is never written to none is to be set aside.
  void* data = mmap(nullptr, size_, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_NORESERVE, file_.get(), 0);
  if (data == MAP_FAILED) return ErrnoStatus(errno, "map a file to be written");
  auto guard = std::make_shared<PageGuard>(data, size_);
  return std::shared_ptr<std::byte>(
      static_cast<std::byte*>(data),
      [guard = std::move(guard), size = size_](std::byte* begin) mutable {
        guard.reset();
        munmap(begin, size);
      });
}

std::string MappedFile::held_path() const {
  return absl::StrCat("/proc/", getpid(), "/fd/", file_.get());
}

MappedFile::Stamp MappedFile::stamp() const {
  struct stat now;
  if (fstat(file_.get(), &now) != 0) return {};
  return {now.st_size, now.st_mtim.tv_sec, now.st_mtim.tv_nsec};
}

}  // namespace stoker
