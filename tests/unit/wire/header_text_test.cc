#include "wire/header_text.h"

#include <gtest/gtest.h>

namespace stoker {
namespace {

TEST(HeaderText, PercentEncodesWhatIsNotPrintableAscii) {
  EXPECT_EQ(PercentEncoded("model 'a' ~ ok"), "model 'a' ~ ok");
  EXPECT_EQ(PercentEncoded("100%\n\xC3\xA4\x7F"), "100%25%0A%C3%A4%7F");
  EXPECT_EQ(PercentEncoded(""), "");
}

TEST(HeaderText, Timeouts) {
  EXPECT_EQ(ParseGrpcTimeout("2H"), absl::Hours(2));
  EXPECT_EQ(ParseGrpcTimeout("3M"), absl::Minutes(3));
  EXPECT_EQ(ParseGrpcTimeout("4S"), absl::Seconds(4));
  EXPECT_EQ(ParseGrpcTimeout("100m"), absl::Milliseconds(100));
  EXPECT_EQ(ParseGrpcTimeout("5u"), absl::Microseconds(5));
  EXPECT_EQ(ParseGrpcTimeout("99999999n"), absl::Nanoseconds(99'999'999));
  EXPECT_EQ(ParseGrpcTimeout("0S"), absl::ZeroDuration());
  for (const char* none : {"", "S", "5", "-5S", "5.5S", "100000000n", "5 S"}) {
    EXPECT_EQ(ParseGrpcTimeout(none), std::nullopt) << none;
  }
}

TEST(HeaderText, Base64HasNoPadding) {
  EXPECT_EQ(Base64(""), "");
  EXPECT_EQ(Base64("a"), "YQ");
  EXPECT_EQ(Base64("\xFF\xFE"), "//4");
  EXPECT_EQ(Base64("abc"), "YWJj");
}

}  // namespace
}  // namespace stoker
