// What a container sees of its image's files: a lower layer that can be read,
// and changed by copies only. A real mount, in a namespace of this test's own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>

#include <cstring>
#include <filesystem>
#include <string>

#include "base/files.h"
#include "tests/fakes/temp_folder.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;

class OverlayfsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"image", "upper", "work", "seen"}) {
      fs::create_directories(folder_ / name);
    }
    fs::create_directories(folder_ / "image/entry");
    ASSERT_TRUE(files_.Write(folder_ / "image/entry/model.so", "code").ok());
    const std::string options = "lowerdir=" + (folder_ / "image") +
                                ",upperdir=" + (folder_ / "upper") +
                                ",workdir=" + (folder_ / "work");
    if (unshare(CLONE_NEWNS) != 0 ||
        mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        mount("overlay", (folder_ / "seen").c_str(), "overlay", 0,
              options.c_str()) != 0) {
      GTEST_SKIP() << "no overlay can be mounted here: " << strerror(errno);
    }
    mounted_ = true;
  }
  ~OverlayfsTest() override {
    if (mounted_) umount2((folder_ / "seen").c_str(), MNT_DETACH);
  }

  TempFolder folder_;
  Files& files_ = Files::Real();
  bool mounted_ = false;
};

TEST_F(OverlayfsTest, AFolderOfTheImageCanBeSetAside) {
  const std::string from = folder_ / "seen/entry", to = folder_ / "seen/aside";
  const absl::Status moved = files_.Rename(from, to);
  ASSERT_TRUE(moved.ok()) << moved;
  EXPECT_EQ(files_.Stat(from).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(*files_.Read(to + "/model.so"), "code");
  // Another one may take its place.
  ASSERT_TRUE(files_.MakeFolders(folder_ / "seen/new").ok());
  EXPECT_TRUE(files_.Rename(folder_ / "seen/new", from).ok());
}

TEST_F(OverlayfsTest, ItReplacesNone) {
  const std::string full = folder_ / "seen/full";
  ASSERT_TRUE(files_.MakeFolders(full).ok());
  ASSERT_TRUE(files_.Write(full + "/other", "").ok());
  EXPECT_FALSE(files_.Rename(folder_ / "seen/entry", full).ok());
  EXPECT_THAT(*files_.List(full), ElementsAre("other"));
  EXPECT_EQ(*files_.Read(folder_ / "seen/entry/model.so"), "code");
}

TEST_F(OverlayfsTest, LocksExclude) {
  const std::string path = folder_ / "seen/lock";
  const auto first = files_.TryLock(path);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_TRUE((*first)->excludes());
  EXPECT_EQ(*files_.TryLock(path), nullptr);
}

}  // namespace
}  // namespace stoker
