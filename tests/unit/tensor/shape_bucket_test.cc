#include "tensor/shape_bucket.h"

#include <gtest/gtest.h>

#include <limits>

namespace stoker {
namespace {

TEST(BucketNameTest, Table) {
  const std::vector<std::string> names = {"batch", "tokens"};
  EXPECT_EQ(BucketName({{8, 32}}, names), "batch=8,tokens=32");
  EXPECT_EQ(BucketName({{8}}, {"batch"}), "batch=8");
  EXPECT_EQ(BucketName({}, {}), "static");
  EXPECT_EQ(BucketName({{8, 32}}, {"batch"}), "batch=8,?=32");
}

TEST(BucketTableTest, PaddableDimensions) {
  const BucketTable table({{{1, 16}}, {{1, 64}}, {{8, 16}}, {{8, 64}}},
                          {true, true});
  const struct {
    std::vector<int64_t> sizes;
    std::optional<int> index;
  } cases[] = {
      {{1, 16}, 0},
      {{1, 1}, 0},
      {{1, 17}, 1},
      {{2, 16}, 2},
      {{8, 64}, 3},
      {{2, 17}, 3},
      {{9, 16}, std::nullopt},
      {{1, 65}, std::nullopt},
  };
  for (const auto& c : cases) {
    EXPECT_EQ(table.Match(c.sizes), c.index) << c.sizes[0] << "," << c.sizes[1];
  }
}

TEST(BucketTableTest, OtherDimensionsMustBeEqual) {
  const BucketTable table({{{8, 32}}, {{8, 64}}}, {true, false});
  EXPECT_EQ(table.Match({3, 32}), 0);
  EXPECT_EQ(table.Match({3, 64}), 1);
  EXPECT_EQ(table.Match({3, 31}), std::nullopt);
  EXPECT_EQ(table.Match({3, 33}), std::nullopt);
}

TEST(BucketTableTest, LeastVolumeWinsWhateverTheOrder) {
  const BucketTable table({{{8, 64}}, {{4, 64}}, {{8, 16}}}, {true, true});
  EXPECT_EQ(table.Match({2, 8}), 2);  // 128 < 256 < 512
  EXPECT_EQ(table.Match({2, 32}), 1);
}

TEST(BucketTableTest, TiesGoToTheLowerIndex) {
  const BucketTable table({{{4, 16}}, {{8, 8}}, {{4, 16}}}, {true, true});
  EXPECT_EQ(table.Match({1, 1}), 0);
  EXPECT_EQ(table.Match({5, 1}), 1);
}

TEST(BucketTableTest, VolumeBeyondInt64IsOrderedToo) {
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  const BucketTable table({{{kMax, kMax}}, {{kMax, 2}}, {{2, 2}}},
                          {true, true});
  EXPECT_EQ(table.Match({1, 1}), 2);
  EXPECT_EQ(table.Match({3, 1}), 1);
  EXPECT_EQ(table.Match({3, 3}), 0);
}

TEST(BucketTableTest, StaticModelMatchesItsOneBucket) {
  const BucketTable table({ShapeBucket{}}, {});
  EXPECT_EQ(table.Match({}), 0);
  EXPECT_EQ(table.Match({1}), std::nullopt);
}

TEST(BucketTableTest, EmptyTableMatchesNothing) {
  const BucketTable table({}, {true});
  EXPECT_EQ(table.Match({1}), std::nullopt);
}

}  // namespace
}  // namespace stoker
