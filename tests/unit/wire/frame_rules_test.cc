// What a peer may send behind its own words.
#include "wire/frame_rules.h"

#include <gtest/gtest.h>
#include <nghttp2/nghttp2.h>

namespace stoker {
namespace {

uint32_t Error(FrameRules& rules, int type, uint32_t stream, int flags = 0) {
  return rules.ErrorOf(
      {100, static_cast<uint8_t>(type), static_cast<uint8_t>(flags), stream});
}

TEST(FrameRulesTest, NothingBehindTheEndOfAStream) {
  FrameRules rules;
  EXPECT_EQ(Error(rules, NGHTTP2_HEADERS, 1), 0u);
  EXPECT_EQ(Error(rules, NGHTTP2_DATA, 1, NGHTTP2_FLAG_END_STREAM), 0u);
  // These may come at any time.
  EXPECT_EQ(Error(rules, NGHTTP2_WINDOW_UPDATE, 1), 0u);
  EXPECT_EQ(Error(rules, NGHTTP2_RST_STREAM, 1), 0u);
  EXPECT_EQ(Error(rules, NGHTTP2_PRIORITY, 1), 0u);
  EXPECT_EQ(Error(rules, NGHTTP2_DATA, 1), uint32_t{NGHTTP2_STREAM_CLOSED});
  EXPECT_EQ(Error(rules, NGHTTP2_HEADERS, 1), uint32_t{NGHTTP2_STREAM_CLOSED});
  EXPECT_EQ(Error(rules, NGHTTP2_DATA, 3), 0u);
}

TEST(FrameRulesTest, NothingBehindAReset) {
  FrameRules rules;
  EXPECT_EQ(Error(rules, NGHTTP2_RST_STREAM, 5), 0u);
  EXPECT_EQ(Error(rules, NGHTTP2_DATA, 5), uint32_t{NGHTTP2_STREAM_CLOSED});
}

// It takes no more memory however many streams there were.
TEST(FrameRulesTest, RemembersTheLastOnly) {
  FrameRules rules;
  for (uint32_t stream = 1; stream < 200; stream += 2) {
    EXPECT_EQ(Error(rules, NGHTTP2_HEADERS, stream, NGHTTP2_FLAG_END_STREAM),
              0u);
  }
  EXPECT_EQ(Error(rules, NGHTTP2_DATA, 1), 0u);
  EXPECT_EQ(Error(rules, NGHTTP2_DATA, 199), uint32_t{NGHTTP2_STREAM_CLOSED});
}

TEST(FrameRulesTest, AConnectionHasNoPriority) {
  FrameRules rules;
  EXPECT_EQ(Error(rules, NGHTTP2_PRIORITY, 0),
            uint32_t{NGHTTP2_PROTOCOL_ERROR});
  EXPECT_EQ(Error(rules, NGHTTP2_SETTINGS, 0), 0u);
}

TEST(FrameRulesTest, WhatMovesNothing) {
  const auto useless = [](size_t size, int type, int flags = 0) {
    return FrameRules::IsUseless(
        {size, static_cast<uint8_t>(type), static_cast<uint8_t>(flags), 1});
  };
  EXPECT_TRUE(useless(0, NGHTTP2_DATA));
  EXPECT_TRUE(useless(8, NGHTTP2_PING));
  EXPECT_TRUE(useless(1, 200));
  EXPECT_FALSE(useless(0, NGHTTP2_DATA, NGHTTP2_FLAG_END_STREAM));
  EXPECT_FALSE(useless(5, NGHTTP2_DATA));
  EXPECT_FALSE(useless(0, NGHTTP2_HEADERS));
}

TEST(FrameRulesTest, WhatIsAboutAllStreams) {
  const auto all = [](int type, int flags = 0) {
    return FrameRules::IsAboutAll(
        {12, static_cast<uint8_t>(type), static_cast<uint8_t>(flags), 0});
  };
  EXPECT_TRUE(all(NGHTTP2_SETTINGS));
  EXPECT_TRUE(all(NGHTTP2_GOAWAY));
  EXPECT_FALSE(all(NGHTTP2_SETTINGS, NGHTTP2_FLAG_ACK));
  EXPECT_FALSE(all(NGHTTP2_PING));
  EXPECT_FALSE(all(NGHTTP2_WINDOW_UPDATE));
}

}  // namespace
}  // namespace stoker
