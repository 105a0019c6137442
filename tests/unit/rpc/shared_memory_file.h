// A client's file in /dev/shm.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <string>

namespace stoker {

class SharedMemoryFile {
 public:
  explicit SharedMemoryFile(size_t bytes) {
    static std::atomic<int> count = 0;
    key_ = "/stoker-test-" + std::to_string(getpid()) + "-" +
           std::to_string(count.fetch_add(1));
    fd_ = shm_open(key_.c_str(), O_CREAT | O_EXCL | O_RDWR, 0600);
    EXPECT_GE(fd_, 0);
    Resize(bytes);
  }
  ~SharedMemoryFile() {
    shm_unlink(key_.c_str());
    close(fd_);
  }
  SharedMemoryFile(const SharedMemoryFile&) = delete;
  SharedMemoryFile& operator=(const SharedMemoryFile&) = delete;

  const std::string& key() const { return key_; }
  void Resize(size_t bytes) {
    EXPECT_EQ(ftruncate(fd_, static_cast<off_t>(bytes)), 0);
  }
  void Put(size_t offset, const std::string& bytes) {
    EXPECT_EQ(
        pwrite(fd_, bytes.data(), bytes.size(), static_cast<off_t>(offset)),
        static_cast<ssize_t>(bytes.size()));
  }
  std::string Get(size_t offset, size_t size) const {
    std::string bytes(size, '\0');
    const ssize_t got =
        pread(fd_, bytes.data(), size, static_cast<off_t>(offset));
    bytes.resize(got < 0 ? 0 : static_cast<size_t>(got));
    return bytes;
  }
  size_t size() const { return static_cast<size_t>(lseek(fd_, 0, SEEK_END)); }

 private:
  std::string key_;
  int fd_ = -1;
};

}  // namespace stoker
