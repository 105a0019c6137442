// Descriptors and system calls on files, for base's own classes that read and
// write them (files.h, file_stream.h).
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"

namespace stoker {

// An open descriptor, closed at the end; -1: none. Movable; one thread at a
// time.
class FileDescriptor {
 public:
  explicit FileDescriptor(int fd) : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept
      : fd_(std::exchange(other.fd_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~FileDescriptor();

  int get() const { return fd_; }
  bool ok() const { return fd_ >= 0; }
  int Release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

// What errno says of an operation on that path.
absl::Status LastError(std::string_view operation, const std::string& path);

// However many calls it takes; `path` is for the error.
absl::Status WriteAll(int fd, std::string_view bytes, const std::string& path);

}  // namespace stoker
