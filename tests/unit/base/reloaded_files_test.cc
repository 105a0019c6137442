#include "base/reloaded_files.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "tests/fakes/temp_folder.h"

namespace stoker {
namespace {

class ReloadedFilesTest : public ::testing::Test {
 protected:
  ReloadedFilesTest() { Write("one"); }
  void Write(const std::string& text) const {
    std::ofstream(path_, std::ios::binary) << text;
  }
  std::optional<absl::Status> Look() {
    return files_->Look([this] {
      ++loads_;
      return result_;
    });
  }

  const TempFolder folder_;
  const std::string path_ = folder_ / "a";
  // Made in tests, once the file is there.
  std::optional<ReloadedFiles> files_;
  absl::Status result_;
  int loads_ = 0;
};

TEST_F(ReloadedFilesTest, WhatStaysIsNotLoadedAgain) {
  files_.emplace(std::vector<std::string>{path_, ""});
  EXPECT_EQ(Look(), std::nullopt);
  EXPECT_EQ(loads_, 0);
  Write("three");
  EXPECT_EQ(Look(), absl::OkStatus());
  EXPECT_EQ(Look(), std::nullopt);
  EXPECT_EQ(loads_, 1);
}

TEST_F(ReloadedFilesTest, AReplacedLinkAndAFileThatGoesAreChanges) {
  const std::string link = folder_ / "link", other = folder_ / "b";
  std::ofstream(other) << "one";
  std::filesystem::create_symlink(path_, link);
  files_.emplace(std::vector<std::string>{link});
  std::filesystem::remove(link);
  std::filesystem::create_symlink(other, link);
  EXPECT_EQ(Look(), absl::OkStatus());
  std::filesystem::remove(other);
  result_ = absl::NotFoundError("gone");
  EXPECT_EQ(Look(), result_);
}

TEST_F(ReloadedFilesTest, WhatFailedIsTriedAgainAndToldOnce) {
  files_.emplace(std::vector<std::string>{path_});
  Write("half");
  result_ = absl::InvalidArgumentError("half written");
  EXPECT_EQ(Look(), result_);
  EXPECT_EQ(Look(), std::nullopt);
  EXPECT_EQ(loads_, 2);
  result_ = absl::InvalidArgumentError("still wrong, otherwise");
  EXPECT_EQ(Look(), result_);
  result_ = absl::OkStatus();
  EXPECT_EQ(Look(), absl::OkStatus());
  EXPECT_EQ(Look(), std::nullopt);
  EXPECT_EQ(loads_, 4);
}

TEST_F(ReloadedFilesTest, AnotherChangeIsToldAlsoWithTheSameWords) {
  files_.emplace(std::vector<std::string>{path_});
  result_ = absl::InvalidArgumentError("wrong");
  Write("first");
  EXPECT_EQ(Look(), result_);
  Write("second");
  EXPECT_EQ(Look(), result_);
}

}  // namespace
}  // namespace stoker
