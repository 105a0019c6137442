// Locks on file systems that are not a local disk: flock as they answer it,
// which comes before libc's in this executable.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "base/files.h"

namespace {

// Whether a descriptor of these open flags gets a lock of this kind: 0, or
// errno.
std::function<int(int flags, int kind)>& Answer() {
  static auto& answer = *new std::function<int(int, int)>;
  return answer;
}

}  // namespace

extern "C" int flock(int fd, int operation) {
  if (Answer()) {
    const int error = Answer()(fcntl(fd, F_GETFL), operation & ~LOCK_NB);
    if (error != 0) {
      errno = error;
      return -1;
    }
  }
  return static_cast<int>(syscall(SYS_flock, fd, operation));
}

namespace stoker {
namespace {

namespace fs = std::filesystem;

// flock(2): since Linux 2.6.12 NFS makes it a byte-range lock of the whole
// file, which takes the access that fcntl(2) asks for.
int Nfs4(int flags, int kind) {
  const int access = flags & O_ACCMODE;
  if (kind == LOCK_EX && access == O_RDONLY) return EBADF;
  if (kind == LOCK_SH && access == O_WRONLY) return EBADF;
  return 0;
}

class FileLocksTest : public ::testing::Test {
 protected:
  FileLocksTest() { fs::create_directories(folder_); }
  ~FileLocksTest() override {
    Answer() = nullptr;
    fs::remove_all(folder_);
  }

  const fs::path folder_ = fs::path(::testing::TempDir()) /
                           ("file_locks_test." + std::to_string(getpid()));
  const std::string path_ = folder_ / "lock";
  Files& files_ = Files::Real();
};

TEST_F(FileLocksTest, OnNfsOneHolderExcludesOthers) {
  Answer() = Nfs4;
  const auto first = files_.TryLock(path_);
  ASSERT_TRUE(first.ok()) << first.status();
  ASSERT_NE(*first, nullptr);
  EXPECT_TRUE((*first)->excludes());
  EXPECT_EQ(*files_.TryLock(path_), nullptr);
  EXPECT_EQ(*files_.TryShare(path_), nullptr);
}

TEST_F(FileLocksTest, OnNfsManyShare) {
  Answer() = Nfs4;
  const auto first = files_.TryShare(path_);
  const auto second = files_.TryShare(path_);
  ASSERT_TRUE(first.ok() && second.ok()) << first.status();
  EXPECT_TRUE(*first != nullptr && *second != nullptr);
  EXPECT_EQ(*files_.TryLock(path_), nullptr);
}

TEST_F(FileLocksTest, WhereThereAreNoneEverybodyGetsOneThatExcludesNobody) {
  // nfs(5) with "nolock" and no server for locks; FUSE and 9p without them.
  for (const int error : {ENOLCK, EOPNOTSUPP, ENOSYS}) {
    Answer() = [error](int, int) { return error; };
    const auto first = files_.TryLock(path_);
    const auto second = files_.TryLock(path_);
    ASSERT_TRUE(first.ok() && second.ok()) << error << " " << first.status();
    ASSERT_TRUE(*first != nullptr && *second != nullptr) << error;
    EXPECT_FALSE((*first)->excludes()) << error;
  }
}

TEST_F(FileLocksTest, ASignalIsNoAnswer) {
  int calls = 0;
  Answer() = [&](int, int) { return ++calls < 3 ? EINTR : 0; };
  const auto lock = files_.TryLock(path_);
  ASSERT_TRUE(lock.ok()) << lock.status();
  EXPECT_NE(*lock, nullptr);
  EXPECT_EQ(calls, 3);
}

TEST_F(FileLocksTest, OtherErrorsAreErrors) {
  for (const int error : {EIO, ESTALE, EACCES}) {
    Answer() = [error](int, int) { return error; };
    const auto lock = files_.TryLock(path_);
    EXPECT_FALSE(lock.ok()) << error;
    EXPECT_NE(lock.status().message().find(path_), std::string::npos);
  }
}

}  // namespace
}  // namespace stoker
