#include "telemetry/append_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/fakes/temp_folder.h"

namespace stoker {
namespace {

std::string Read(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

bool Never() { return false; }

class AppendFileTest : public ::testing::Test {
 protected:
  AppendFile Open() {
    absl::StatusOr<AppendFile> file = AppendFile::Open(path_);
    EXPECT_TRUE(file.ok()) << file.status();
    return *std::move(file);
  }

  TempFolder folder_;
  const std::string path_ = folder_ / "requests.log";
};

TEST_F(AppendFileTest, WhatIsThereStays) {
  std::ofstream(path_) << "before\n";
  AppendFile file = Open();
  ASSERT_TRUE(file.Write("a\nb\n", Never).ok());
  ASSERT_TRUE(file.Write("c\n", Never).ok());
  EXPECT_EQ(Read(path_), "before\na\nb\nc\n");
}

TEST_F(AppendFileTest, OthersMayNotRead) {
  AppendFile file = Open();
  struct stat found = {};
  ASSERT_EQ(stat(path_.c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 07, 0);
}

TEST_F(AppendFileTest, AFileThatWasMovedIsFollowedByANewOne) {
  AppendFile file = Open();
  ASSERT_TRUE(file.Write("a\n", Never).ok());
  std::filesystem::rename(path_, path_ + ".1");
  ASSERT_TRUE(file.FollowName().ok());
  ASSERT_TRUE(file.Write("b\n", Never).ok());
  EXPECT_EQ(Read(path_ + ".1"), "a\n");
  EXPECT_EQ(Read(path_), "b\n");
  // And by one that somebody else has made.
  std::filesystem::rename(path_, path_ + ".1");
  std::ofstream(path_) << "made\n";
  ASSERT_TRUE(file.FollowName().ok());
  ASSERT_TRUE(file.Write("c\n", Never).ok());
  EXPECT_EQ(Read(path_), "made\nc\n");
}

TEST_F(AppendFileTest, WhereNoneCanBeMadeTheOldOneGoesOn) {
  std::filesystem::create_directory(folder_ / "logs");
  absl::StatusOr<AppendFile> file = AppendFile::Open(folder_ / "logs/requests");
  ASSERT_TRUE(file.ok());
  std::filesystem::rename(folder_ / "logs", folder_ / "moved");
  EXPECT_EQ(file->FollowName().code(), absl::StatusCode::kNotFound);
  ASSERT_TRUE(file->Write("a\n", Never).ok());
  EXPECT_EQ(Read(folder_ / "moved/requests"), "a\n");
}

TEST_F(AppendFileTest, WhatCannotBeOpenedIsNamed) {
  const absl::Status status =
      AppendFile::Open(folder_ / "nowhere/requests").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("nowhere"));
}

TEST_F(AppendFileTest, AFullDiskIsAnError) {
  absl::StatusOr<AppendFile> file = AppendFile::Open("/dev/full");
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->Write("a\n", Never).code(),
            absl::StatusCode::kResourceExhausted);
}

TEST_F(AppendFileTest, APipeIsWaitedForUntilItIsGivenUp) {
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  EXPECT_FALSE(AppendFile::Open(path_).ok());  // nobody reads
  const int reader = open(path_.c_str(), O_RDONLY | O_NONBLOCK);
  ASSERT_GE(reader, 0);
  AppendFile file = Open();
  ASSERT_TRUE(file.Write("a\n", Never).ok());
  char text[2];
  EXPECT_EQ(read(reader, text, 2), 2);
  // More than the pipe holds.
  const std::string much(size_t{4} << 20, '\n');
  int asked = 0;
  const absl::Status status = file.Write(much, [&] { return ++asked == 2; });
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(asked, 2);
  close(reader);
}

}  // namespace
}  // namespace stoker
