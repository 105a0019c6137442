#include "kernel_cache/staging_area.h"

#include <filesystem>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fakes/faulty_files.h"
#include "tests/fakes/temp_folder.h"

namespace stoker {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

class StagingAreaTest : public testing::Test {
 protected:
  std::vector<std::string> Names() { return *files_.List(folder_.path()); }

  TempFolder folder_{TempFolder::Where::kMemory};
  Files& files_ = Files::Real();
};

TEST_F(StagingAreaTest, FoldersAreNewEmptyAndOwned) {
  StagingArea area(folder_.path(), files_);
  const absl::StatusOr<std::string> first = area.NewFolder("abc");
  const absl::StatusOr<std::string> second = area.NewFolder("abc");
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_NE(*first, *second);
  EXPECT_TRUE(std::filesystem::is_empty(*first));
  EXPECT_TRUE(area.Owns(*first));
  EXPECT_FALSE(area.Owns(folder_.path()));
  EXPECT_THAT(Names(), SizeIs(4));
}

TEST_F(StagingAreaTest, ReleaseRemovesFolderAndLock) {
  StagingArea area(folder_.path(), files_);
  const std::string folder = *area.NewFolder("abc");
  ASSERT_TRUE(files_.Write(folder + "/f", "x").ok());
  area.Release(folder);
  EXPECT_FALSE(area.Owns(folder));
  EXPECT_THAT(Names(), IsEmpty());
  area.Release(folder);
}

TEST_F(StagingAreaTest, ReleaseLeavesForeignFoldersAlone) {
  StagingArea area(folder_.path(), files_);
  ASSERT_TRUE(files_.MakeFolders(folder_ / "other").ok());
  area.Release(folder_ / "other");
  EXPECT_TRUE(std::filesystem::exists(folder_ / "other"));
}

TEST_F(StagingAreaTest, DestructorRemovesWhatIsLeft) {
  {
    StagingArea area(folder_.path(), files_);
    ASSERT_TRUE(area.NewFolder("a").ok());
    ASSERT_TRUE(area.NewFolder("b").ok());
  }
  EXPECT_THAT(Names(), IsEmpty());
}

TEST_F(StagingAreaTest, RemovesTheDeadAndKeepsTheLiving) {
  StagingArea living(folder_.path(), files_);
  const std::string kept = *living.NewFolder("kept");
  ASSERT_TRUE(files_.Write(kept + "/f", "x").ok());
  {
    FaultyFiles dying(files_);
    StagingArea dead(folder_.path(), dying);
    const std::string left = *dead.NewFolder("left");
    ASSERT_TRUE(files_.Write(left + "/f", "x").ok());
    dying.DieAt(dying.operations(), FaultyFiles::Moment::kBefore);
  }
  // A folder that lost its lock file, and a lock file that lost its folder.
  ASSERT_TRUE(files_.MakeFolders(folder_ / "bare/below").ok());
  ASSERT_TRUE(files_.Write(folder_ / "gone.lock", "").ok());
  EXPECT_THAT(Names(), SizeIs(6));

  StagingArea next(folder_.path(), files_);
  ASSERT_TRUE(next.RemoveOwnerless().ok());
  EXPECT_THAT(Names(), SizeIs(2));
  EXPECT_TRUE(std::filesystem::exists(kept + "/f"));
}

TEST_F(StagingAreaTest, ErrorsAreReturnedAndLeaveNothingOwned) {
  FaultyFiles full(files_);
  StagingArea area(folder_.path(), full);
  full.FailAt(1, absl::ResourceExhaustedError("disk full"));  // the folder
  EXPECT_EQ(area.NewFolder("a").status().code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(Names(), IsEmpty());
  full.FailAt(full.operations(), absl::ResourceExhaustedError("disk full"));
  EXPECT_EQ(area.NewFolder("a").status().code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(Names(), IsEmpty());
}

}  // namespace
}  // namespace stoker
