#include "telemetry/trace_context.h"

#include <gtest/gtest.h>

#include <string>

namespace stoker {
namespace {

constexpr char kGood[] =
    "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

TEST(TraceContextTest, AParentThatIsSampled) {
  const auto parent = ParseTraceParent(kGood);
  ASSERT_TRUE(parent.has_value());
  EXPECT_EQ(parent->trace.high, 0x0af7651916cd43ddu);
  EXPECT_EQ(parent->trace.low, 0x8448eb211c80319cu);
  EXPECT_EQ(parent->span, 0xb7ad6b7169203331u);
  EXPECT_TRUE(parent->sampled);
}

TEST(TraceContextTest, Flags) {
  std::string header = kGood;
  header.back() = '0';
  EXPECT_FALSE(ParseTraceParent(header)->sampled);
  header.back() = '3';  // one that is not known
  EXPECT_TRUE(ParseTraceParent(header)->sampled);
}

TEST(TraceContextTest, LaterVersions) {
  std::string header = kGood;
  header[1] = '1';
  EXPECT_TRUE(ParseTraceParent(header).has_value());
  EXPECT_TRUE(ParseTraceParent(header + "-more").has_value());
  EXPECT_FALSE(ParseTraceParent(header + "more").has_value());
}

TEST(TraceContextTest, WhatIsNone) {
  for (const char* header :
       {"", "00", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more",
        "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "00-00000000000000000000000000000000-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
        "00-0AF7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c_b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319g-b7ad6b7169203331-01"}) {
    EXPECT_FALSE(ParseTraceParent(header).has_value()) << header;
  }
}

}  // namespace
}  // namespace stoker
