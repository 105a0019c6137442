#include "base/token_bucket.h"

#include <gtest/gtest.h>

namespace stoker {
namespace {

TEST(TokenBucket, SoManyAtOnceAndSoManyASecond) {
  const MonotonicTime start = MonotonicTime::FromNanoseconds(1'000'000'000);
  TokenBucket bucket(3, 2);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(bucket.Take(start));
  EXPECT_FALSE(bucket.Take(start));
  EXPECT_EQ(bucket.Wait(), absl::Milliseconds(500));
  EXPECT_FALSE(bucket.Take(start + absl::Milliseconds(250)));
  EXPECT_EQ(bucket.Wait(), absl::Milliseconds(250));
  EXPECT_TRUE(bucket.Take(start + absl::Milliseconds(500)));
  EXPECT_FALSE(bucket.Take(start + absl::Milliseconds(500)));
  bucket.Earn(1);
  EXPECT_TRUE(bucket.Take(start + absl::Milliseconds(500)));
  // No more is kept than it holds.
  const MonotonicTime later = start + absl::Hours(1);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(bucket.Take(later));
  EXPECT_FALSE(bucket.Take(later));
}

}  // namespace
}  // namespace stoker
