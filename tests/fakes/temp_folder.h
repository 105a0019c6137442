// A folder of its own for one test, removed with all it holds at the end.
// kMemory is for tests with thousands of fsyncs, each of which takes
// milliseconds on a busy disk; it may be mounted noexec.
#pragma once

#include <stdlib.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <string>

#include "gtest/gtest.h"

namespace stoker {

class TempFolder {
 public:
  enum class Where { kDisk, kMemory };

  explicit TempFolder(Where where = Where::kDisk)
      : path_((where == Where::kMemory && access("/dev/shm", W_OK) == 0
                   ? "/dev/shm/"
                   : testing::TempDir()) +
              "stoker_test_XXXXXX") {
    if (mkdtemp(path_.data()) == nullptr) {
      perror(path_.c_str());
      abort();
    }
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  // Without a slash at its end.
  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const {
    return path_ + "/" + name;
  }

 private:
  std::string path_;
};

}  // namespace stoker
