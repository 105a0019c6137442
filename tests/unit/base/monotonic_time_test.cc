#include "base/monotonic_time.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <type_traits>

namespace stoker {
namespace {

// Neither clock's times convert into the other's.
static_assert(!std::is_convertible_v<absl::Time, MonotonicTime>);
static_assert(!std::is_convertible_v<MonotonicTime, absl::Time>);
static_assert(!std::is_constructible_v<MonotonicTime, absl::Time>);

const MonotonicTime kNow = MonotonicTime() + absl::Seconds(100);

TEST(MonotonicTimeTest, ComparesAndSubtracts) {
  const MonotonicTime later = kNow + absl::Milliseconds(3);
  EXPECT_LT(kNow, later);
  EXPECT_NE(kNow, later);
  EXPECT_EQ(later - kNow, absl::Milliseconds(3));
  EXPECT_EQ(later - absl::Milliseconds(3), kNow);
}

TEST(MonotonicTimeTest, TheInfiniteOnesStayInfinite) {
  const MonotonicTime never = MonotonicTime::InfiniteFuture();
  EXPECT_EQ(never + absl::Hours(1), never);
  EXPECT_EQ(never - absl::Hours(1), never);
  EXPECT_EQ(kNow + absl::InfiniteDuration(), never);
  EXPECT_EQ(never - kNow, absl::InfiniteDuration());
  EXPECT_EQ(MonotonicTime::InfinitePast() - kNow, -absl::InfiniteDuration());
  EXPECT_LT(MonotonicTime::InfinitePast(), kNow);
  EXPECT_LT(kNow, never);
}

TEST(MonotonicTimeTest, KeepsNanoseconds) {
  EXPECT_EQ(kNow.ToNanoseconds(), 100'000'000'000);
  EXPECT_EQ(MonotonicTime::FromNanoseconds(kNow.ToNanoseconds()), kNow);
  EXPECT_EQ(MonotonicTime::InfiniteFuture().ToNanoseconds(), INT64_MAX);
}

}  // namespace
}  // namespace stoker
