#include "base/cpus.h"

#include <gtest/gtest.h>

#include "base/thread.h"

namespace stoker {
namespace {

TEST(CpusTest, ReadsAndWritesLists) {
  EXPECT_EQ(*ParseCpuList("3"), (std::vector<int>{3}));
  EXPECT_EQ(*ParseCpuList("8,0-2,2"), (std::vector<int>{0, 1, 2, 8}));
  EXPECT_EQ(CpuList({0, 1, 2, 8}), "0-2,8");
  EXPECT_EQ(CpuList({4, 6}), "4,6");
  EXPECT_EQ(CpuList({}), "");
}

TEST(CpusTest, RefusesOtherText) {
  for (const char* text : {"", "a", "1-", "-1", "3-1", "1,,2", "0-999999",
                           "1-2-3", "99999999999"}) {
    EXPECT_EQ(ParseCpuList(text).status().code(),
              absl::StatusCode::kInvalidArgument)
        << text;
  }
}

TEST(CpusTest, APinnedThreadAndItsChildrenStayThere) {
  const std::vector<int> last = {UsableCpus().back()};
  std::vector<int> own, child;
  Thread("pinned", [&] {
    ASSERT_TRUE(PinThread(last).ok());
    own = UsableCpus();
    Thread("child", [&] { child = UsableCpus(); }).Join();
  }).Join();
  EXPECT_EQ(own, last);
  EXPECT_EQ(child, last);
  EXPECT_FALSE(UsableCpus().empty());
}

TEST(CpusTest, CpusThatAreNotThereAreRefused) {
  Thread("pinned", [] {
    EXPECT_EQ(PinThread({1023}).code(), absl::StatusCode::kFailedPrecondition);
  }).Join();
  EXPECT_EQ(NodeCpus(4096).status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace stoker
