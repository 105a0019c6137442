#include "base/text_table.h"

#include "gtest/gtest.h"

namespace stoker {
namespace {

TEST(TextTableTest, ColumnsAreAsWideAsTheirWidestCell) {
  TextTable table({"KEY", "SIZE", "NOTES"});
  EXPECT_TRUE(table.empty());
  table.Add({"a", "412 KiB", ""});
  table.Add({"longer", "1 B", "pinned"});
  EXPECT_EQ(table.Text(),
            "KEY     SIZE     NOTES\n"
            "a       412 KiB\n"
            "longer  1 B      pinned\n");
}

TEST(TextTableTest, Bytes) {
  EXPECT_EQ(HumanBytes(0), "0 B");
  EXPECT_EQ(HumanBytes(1023), "1023 B");
  EXPECT_EQ(HumanBytes(1024), "1.0 KiB");
  EXPECT_EQ(HumanBytes(422'000), "412 KiB");
  EXPECT_EQ(HumanBytes(int64_t{5} << 50), "5120 TiB");
}

TEST(TextTableTest, Ages) {
  const absl::Time now = absl::FromUnixSeconds(1'000'000'000);
  EXPECT_EQ(HumanAge(now + absl::Hours(1), now), "just now");
  EXPECT_EQ(HumanAge(now - absl::Seconds(59), now), "just now");
  EXPECT_EQ(HumanAge(now - absl::Seconds(125), now), "2 min ago");
  EXPECT_EQ(HumanAge(now - absl::Hours(47), now), "47 h ago");
  EXPECT_EQ(HumanAge(now - absl::Hours(48), now), "2 days ago");
  EXPECT_EQ(HumanAge(absl::InfinitePast(), now), "never");
}

}  // namespace
}  // namespace stoker
