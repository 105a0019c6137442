// A folder of its own for one test, removed with all it holds at the end.
#pragma once

#include <stdlib.h>

#include <cstdio>
#include <filesystem>
#include <string>

#include "gtest/gtest.h"

namespace stoker {

class TempFolder {
 public:
  TempFolder() : path_(testing::TempDir() + "stoker_test_XXXXXX") {
    if (mkdtemp(path_.data()) == nullptr) {
      perror("mkdtemp");
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
