#include "base/lost_pages.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <optional>
#include <vector>

#include "gtest/gtest.h"

namespace stoker {
namespace {

const size_t kPage = static_cast<size_t>(sysconf(_SC_PAGESIZE));

class LostPagesTest : public ::testing::Test {
 protected:
  LostPagesTest() {
    OutliveLostPages();
    Resize(2);
    guard_.emplace(bytes_, 2 * kPage);
  }
  ~LostPagesTest() override {
    guard_.reset();
    munmap(bytes_, 2 * kPage);
    close(file_);
  }
  void Resize(size_t pages) {
    ASSERT_EQ(ftruncate(file_, static_cast<off_t>(pages * kPage)), 0);
  }

  const int file_ = memfd_create("lost_pages_test", 0);
  char* const bytes_ = static_cast<char*>(
      mmap(nullptr, 2 * kPage, PROT_READ | PROT_WRITE, MAP_SHARED, file_, 0));
  std::optional<PageGuard> guard_;
};

TEST_F(LostPagesTest, NothingIsLostWhileTheFileIsWhole) {
  bytes_[kPage] = 'a';
  EXPECT_EQ(bytes_[kPage], 'a');
  EXPECT_TRUE(guard_->holds());
  EXPECT_FALSE(guard_->lost());
}

TEST_F(LostPagesTest, ALoadBeyondTheEnd) {
  bytes_[kPage] = 'a';
  Resize(1);
  EXPECT_FALSE(guard_->lost());  // nobody looked
  EXPECT_EQ(bytes_[kPage], 0);
  EXPECT_TRUE(guard_->lost());
  EXPECT_EQ(bytes_[0], 0);
}

TEST_F(LostPagesTest, AStoreBeyondTheEnd) {
  Resize(1);
  bytes_[kPage] = 'a';
  EXPECT_TRUE(guard_->lost());
  Resize(2);
  char there = 'x';
  ASSERT_EQ(pread(file_, &there, 1, static_cast<off_t>(kPage)), 1);
  EXPECT_EQ(there, 0);  // it didn't get there
}

TEST_F(LostPagesTest, APlaceIsFreeAgain) {
  Resize(1);
  EXPECT_EQ(bytes_[kPage], 0);
  EXPECT_TRUE(guard_->lost());
  guard_.reset();
  guard_.emplace(bytes_, 2 * kPage);
  EXPECT_FALSE(guard_->lost());
}

TEST_F(LostPagesTest, MoreThanThereAreNeverBreaks) {
  std::vector<std::unique_ptr<PageGuard>> guards;
  while (guards.empty() || guards.back()->holds()) {
    guards.push_back(std::make_unique<PageGuard>(bytes_ + kPage, 1));
    ASSERT_LT(guards.size(), 100000u);
  }
  EXPECT_FALSE(guards.back()->lost());
}

}  // namespace
}  // namespace stoker
