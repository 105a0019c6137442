#include "base/files.h"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>

#include "base/errno_status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fakes/temp_folder.h"

namespace stoker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class FilesTest : public testing::Test {
 protected:
  TempFolder folder_;
  Files& files_ = Files::Real();
};

TEST(ErrnoStatusTest, MapsEveryDocumentedCode) {
  const auto code = [](int error) { return ErrnoStatus(error, "x").code(); };
  EXPECT_EQ(code(ENOENT), absl::StatusCode::kNotFound);
  EXPECT_EQ(code(EACCES), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(code(EPERM), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(code(EROFS), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(code(ENOSPC), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(code(EDQUOT), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(code(EEXIST), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(code(ENOTEMPTY), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(code(EIO), absl::StatusCode::kInternal);
  EXPECT_EQ(ErrnoStatus(ENOENT, "open /a").message(),
            "open /a: No such file or directory");
}

TEST_F(FilesTest, WritesAndReadsBack) {
  std::string bytes = "line\n";
  bytes.push_back('\0');
  bytes.append(100'000, '\xff');
  ASSERT_TRUE(files_.Write(folder_ / "f", bytes).ok());
  EXPECT_EQ(*files_.Read(folder_ / "f"), bytes);
  EXPECT_EQ(*files_.Size(folder_ / "f"), 100'006);
  ASSERT_TRUE(files_.Write(folder_ / "f", "short").ok());
  EXPECT_EQ(*files_.Read(folder_ / "f"), "short");
  ASSERT_TRUE(files_.Write(folder_ / "f", "").ok());
  EXPECT_EQ(*files_.Read(folder_ / "f"), "");
}

TEST_F(FilesTest, ReadsFilesWhoseSizeIsNotKnown) {
  const absl::StatusOr<std::string> status = files_.Read("/proc/self/status");
  ASSERT_TRUE(status.ok()) << status.status();
  EXPECT_THAT(*status, HasSubstr("VmRSS"));
}

TEST_F(FilesTest, ErrorsNameThePathAndTheCause) {
  const absl::Status missing = files_.Read(folder_ / "none").status();
  EXPECT_EQ(missing.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(missing.message()), HasSubstr(folder_ / "none"));
  EXPECT_THAT(std::string(missing.message()), HasSubstr("No such file"));
  EXPECT_EQ(files_.Read(folder_.path()).status().code(),
            absl::StatusCode::kInternal);  // EISDIR
  EXPECT_EQ(files_.Size(folder_ / "none").status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_EQ(files_.List(folder_ / "none").status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_EQ(files_.Stat(folder_ / "none").status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_EQ(files_.SyncTree(folder_ / "none").code(),
            absl::StatusCode::kNotFound);
  EXPECT_EQ(files_.Rename(folder_ / "none", folder_ / "x").code(),
            absl::StatusCode::kNotFound);
  EXPECT_EQ(files_.Write(folder_ / "none/f", "x").code(),
            absl::StatusCode::kNotFound);
}

TEST_F(FilesTest, FullDiskIsResourceExhausted) {
  EXPECT_EQ(files_.Write("/dev/full", "x").code(),
            absl::StatusCode::kResourceExhausted);
}

TEST_F(FilesTest, RenameReplacesFilesButNotFullFolders) {
  ASSERT_TRUE(files_.Write(folder_ / "a", "new").ok());
  ASSERT_TRUE(files_.Write(folder_ / "b", "old").ok());
  ASSERT_TRUE(files_.Rename(folder_ / "a", folder_ / "b").ok());
  EXPECT_EQ(*files_.Read(folder_ / "b"), "new");
  EXPECT_FALSE(std::filesystem::exists(folder_ / "a"));

  ASSERT_TRUE(files_.MakeFolders(folder_ / "from").ok());
  ASSERT_TRUE(files_.MakeFolders(folder_ / "to").ok());
  ASSERT_TRUE(files_.Write(folder_ / "to/f", "x").ok());
  EXPECT_EQ(files_.Rename(folder_ / "from", folder_ / "to").code(),
            absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(*files_.Read(folder_ / "to/f"), "x");
}

TEST_F(FilesTest, MakesMissingFoldersPrivate) {
  ASSERT_TRUE(files_.MakeFolders(folder_ / "a/b/c").ok());
  ASSERT_TRUE(files_.MakeFolders(folder_ / "a/b/c").ok());
  for (const std::string name : {"a", "a/b", "a/b/c"}) {
    const absl::StatusOr<FileInfo> info = files_.Stat(folder_ / name);
    ASSERT_TRUE(info.ok()) << info.status();
    EXPECT_EQ(info->type, FileInfo::Type::kFolder);
    EXPECT_EQ(info->permissions, 0700u) << name;
    EXPECT_EQ(info->owner, getuid());
  }
  ASSERT_TRUE(files_.Write(folder_ / "file", "x").ok());
  EXPECT_EQ(files_.MakeFolders(folder_ / "file").code(),
            absl::StatusCode::kAlreadyExists);
  EXPECT_FALSE(files_.MakeFolders(folder_ / "file/below").ok());
}

TEST_F(FilesTest, ListsNamesSorted) {
  for (const std::string name : {"b", "a", ".hidden", "c"}) {
    ASSERT_TRUE(files_.Write(folder_ / name, "").ok());
  }
  ASSERT_TRUE(files_.MakeFolders(folder_ / "d/e").ok());
  EXPECT_THAT(*files_.List(folder_.path()),
              ElementsAre(".hidden", "a", "b", "c", "d"));
}

TEST_F(FilesTest, RemovesTreesButDoesNotFollowLinks) {
  ASSERT_TRUE(files_.MakeFolders(folder_ / "kept").ok());
  ASSERT_TRUE(files_.Write(folder_ / "kept/f", "x").ok());
  ASSERT_TRUE(files_.MakeFolders(folder_ / "tree/below").ok());
  ASSERT_EQ(symlink((folder_ / "kept").c_str(),
                    (folder_ / "tree/below/link").c_str()),
            0);
  ASSERT_TRUE(files_.Remove(folder_ / "tree").ok());
  EXPECT_FALSE(std::filesystem::exists(folder_ / "tree"));
  EXPECT_TRUE(std::filesystem::exists(folder_ / "kept/f"));
  EXPECT_TRUE(files_.Remove(folder_ / "tree").ok());
}

TEST_F(FilesTest, StatDescribesLinksThemselves) {
  ASSERT_EQ(symlink("/etc", (folder_ / "link").c_str()), 0);
  EXPECT_EQ(files_.Stat(folder_ / "link")->type, FileInfo::Type::kLink);
  ASSERT_EQ(mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  EXPECT_EQ(files_.Stat(folder_ / "pipe")->type, FileInfo::Type::kOther);
  ASSERT_TRUE(files_.Write(folder_ / "file", "abc").ok());
  EXPECT_EQ(files_.Stat(folder_ / "file")->type, FileInfo::Type::kFile);
  EXPECT_EQ(files_.Stat(folder_ / "file")->bytes, 3);
}

TEST_F(FilesTest, SyncTreePassesOverLinksAndPipes) {
  ASSERT_TRUE(files_.MakeFolders(folder_ / "a/b").ok());
  ASSERT_TRUE(files_.Write(folder_ / "a/b/f", "x").ok());
  ASSERT_EQ(symlink("/nowhere", (folder_ / "a/link").c_str()), 0);
  ASSERT_EQ(mkfifo((folder_ / "a/pipe").c_str(), 0600), 0);
  const absl::Status done = files_.SyncTree(folder_ / "a");
  EXPECT_TRUE(done.ok()) << done;
}

TEST_F(FilesTest, LockIsExclusiveUntilReleased) {
  absl::StatusOr<std::unique_ptr<FileLock>> first =
      files_.TryLock(folder_ / "lock");
  ASSERT_TRUE(first.ok()) << first.status();
  ASSERT_NE(*first, nullptr);
  EXPECT_EQ(*files_.TryLock(folder_ / "lock"), nullptr);
  first->reset();
  EXPECT_NE(*files_.TryLock(folder_ / "lock"), nullptr);
  EXPECT_EQ(files_.TryLock(folder_ / "none/lock").status().code(),
            absl::StatusCode::kNotFound);
}

TEST_F(FilesTest, LockOfARemovedFileIsNoLock) {
  auto first = files_.TryLock(folder_ / "lock");
  ASSERT_TRUE(first.ok() && *first != nullptr);
  ASSERT_TRUE(files_.Remove(folder_ / "lock").ok());
  auto second = files_.TryLock(folder_ / "lock");
  ASSERT_TRUE(second.ok() && *second != nullptr);
  EXPECT_EQ(*files_.TryLock(folder_ / "lock"), nullptr);
}

TEST_F(FilesTest, LockEndsWithItsProcess) {
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    auto lock = files_.TryLock(folder_ / "lock");
    const char held = lock.ok() && *lock != nullptr ? 'y' : 'n';
    [[maybe_unused]] const ssize_t done = write(ready[1], &held, 1);
    pause();
    _exit(0);
  }
  char held = 0;
  ASSERT_EQ(read(ready[0], &held, 1), 1);
  EXPECT_EQ(held, 'y');
  EXPECT_EQ(*files_.TryLock(folder_ / "lock"), nullptr);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_NE(*files_.TryLock(folder_ / "lock"), nullptr);
  close(ready[0]);
  close(ready[1]);
}

}  // namespace
}  // namespace stoker
