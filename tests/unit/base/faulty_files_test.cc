#include "tests/fakes/faulty_files.h"

#include <fstream>
#include <string>

#include "gtest/gtest.h"
#include "tests/fakes/temp_folder.h"

namespace stoker {
namespace {

using Moment = FaultyFiles::Moment;

class FaultyFilesTest : public testing::Test {
 protected:
  TempFolder folder_;
  Files& real_ = Files::Real();
  FaultyFiles files_{real_};
};

TEST_F(FaultyFilesTest, CountsAndPassesOn) {
  EXPECT_TRUE(files_.MakeFolders(folder_ / "a").ok());
  EXPECT_TRUE(files_.Write(folder_ / "a/f", "abc").ok());
  EXPECT_EQ(*files_.Read(folder_ / "a/f"), "abc");
  EXPECT_EQ(*files_.Size(folder_ / "a/f"), 3);
  EXPECT_EQ(files_.List(folder_ / "a")->size(), 1u);
  EXPECT_EQ(files_.Stat(folder_ / "a/f")->bytes, 3);
  EXPECT_TRUE(files_.SyncTree(folder_ / "a").ok());
  EXPECT_TRUE(files_.Rename(folder_ / "a", folder_ / "b").ok());
  EXPECT_NE(*files_.TryLock(folder_ / "l"), nullptr);
  EXPECT_TRUE(files_.Remove(folder_ / "b").ok());
  EXPECT_EQ(files_.operations(), 10);
}

TEST_F(FaultyFilesTest, FailsOneOperation) {
  files_.FailAt(1, absl::ResourceExhaustedError("disk full"));
  EXPECT_TRUE(files_.Write(folder_ / "a", "x").ok());
  EXPECT_EQ(files_.Write(folder_ / "b", "x").code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(files_.Write(folder_ / "c", "x").ok());
  EXPECT_FALSE(real_.Stat(folder_ / "b").ok());
}

TEST_F(FaultyFilesTest, FailsAllChangesButNoReading) {
  ASSERT_TRUE(files_.Write(folder_ / "a", "x").ok());
  files_.FailAllChanges(absl::PermissionDeniedError("read-only"));
  EXPECT_FALSE(files_.Write(folder_ / "a", "y").ok());
  EXPECT_FALSE(files_.Remove(folder_ / "a").ok());
  EXPECT_EQ(*files_.Read(folder_ / "a"), "x");
}

TEST_F(FaultyFilesTest, DeathStopsEverythingAfterIt) {
  files_.DieAt(0, Moment::kBefore);
  EXPECT_FALSE(files_.Write(folder_ / "a", "abcd").ok());
  EXPECT_TRUE(files_.dead());
  EXPECT_FALSE(files_.Write(folder_ / "b", "abcd").ok());
  EXPECT_FALSE(files_.Remove(folder_.path()).ok());
  EXPECT_TRUE(real_.List(folder_.path())->empty());
}

TEST_F(FaultyFilesTest, DeathInTheMiddleOfAWriteLeavesHalf) {
  files_.DieAt(0, Moment::kHalfway);
  EXPECT_FALSE(files_.Write(folder_ / "a", "abcd").ok());
  EXPECT_EQ(*real_.Read(folder_ / "a"), "ab");
}

TEST_F(FaultyFilesTest, DeathAfterAnOperationLeavesItDone) {
  files_.DieAt(0, Moment::kAfter);
  EXPECT_FALSE(files_.Write(folder_ / "a", "abcd").ok());
  EXPECT_EQ(*real_.Read(folder_ / "a"), "abcd");
}

TEST_F(FaultyFilesTest, DeathInTheMiddleOfARemoveLeavesSome) {
  for (const std::string name : {"t/1", "t/2", "t/3"}) {
    ASSERT_TRUE(real_.MakeFolders(folder_ / name).ok());
  }
  files_.DieAt(0, Moment::kHalfway);
  EXPECT_FALSE(files_.Remove(folder_ / "t").ok());
  EXPECT_EQ(*real_.List(folder_ / "t"), std::vector<std::string>{"2"});
}

TEST_F(FaultyFilesTest, PowerFailureTakesWhatWasNotMadeDurable) {
  ASSERT_TRUE(files_.MakeFolders(folder_ / "a").ok());
  ASSERT_TRUE(files_.Write(folder_ / "a/written", "abc").ok());
  std::ofstream(folder_ / "a/synced") << "abc";
  ASSERT_TRUE(files_.SyncTree(folder_ / "a").ok());
  std::ofstream(folder_ / "a/unsynced") << "abc";
  ASSERT_TRUE(files_.Rename(folder_ / "a", folder_ / "b").ok());
  files_.LosePower(folder_.path());
  EXPECT_EQ(*real_.Read(folder_ / "b/written"), "abc");
  EXPECT_EQ(*real_.Read(folder_ / "b/synced"), "abc");
  EXPECT_EQ(*real_.Read(folder_ / "b/unsynced"), "");
}

}  // namespace
}  // namespace stoker
