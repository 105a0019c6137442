#include "wire/inflater.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/unit/wire/compressed.h"

namespace stoker {
namespace {

using ::testing::HasSubstr;

constexpr size_t kMax = 64 << 20;

CallStatus Allow(size_t /*bytes*/) { return {}; }

struct Outcome {
  CallStatus status;
  std::string text;
  int steps = 0;
};

Outcome InflateAll(Encoding encoding, const std::string& bytes,
                   size_t max = kMax, Inflater::Reserve reserve = Allow) {
  const ByteChain chain = ByteChain::Copy(bytes);
  Inflater inflater(encoding,
                    bytes.empty() ? ByteSlice() : chain.slices().front(), max);
  Outcome outcome;
  while (outcome.status.ok() && !inflater.done()) {
    outcome.status = inflater.Step(reserve);
    ++outcome.steps;
  }
  if (outcome.status.ok()) outcome.text = inflater.Take().Joined();
  return outcome;
}

TEST(Inflater, BothEncodingsOfAllSizes) {
  for (const size_t size : {0, 1, 1000, 300'000, 1'000'000}) {
    std::string plain(size, 'x');
    for (size_t i = 0; i < size; i += 7) plain[i] = static_cast<char>(i * i);
    for (const bool gzip : {true, false}) {
      const Outcome outcome = InflateAll(
          gzip ? Encoding::kGzip : Encoding::kDeflate, Compressed(plain, gzip));
      EXPECT_TRUE(outcome.status.ok()) << outcome.status.message;
      EXPECT_TRUE(outcome.text == plain) << size;
    }
  }
}

TEST(Inflater, EachStepIsSmallAndAskedFor) {
  const std::string bomb = Compressed(std::string(10'000'000, '\0'), true);
  size_t reserved = 0;
  const Outcome outcome =
      InflateAll(Encoding::kGzip, bomb, kMax, [&](size_t bytes) -> CallStatus {
        EXPECT_LE(bytes, Inflater::kStepBytes);
        reserved += bytes;
        return {};
      });
  EXPECT_TRUE(outcome.status.ok());
  EXPECT_GE(outcome.steps, 38);
  EXPECT_GE(reserved, 10'000'000u);
}

TEST(Inflater, ARefusalEndsIt) {
  const std::string bomb = Compressed(std::string(10'000'000, '\0'), true);
  size_t reserved = 0;
  const Outcome outcome =
      InflateAll(Encoding::kGzip, bomb, kMax, [&](size_t bytes) -> CallStatus {
        if (reserved + bytes > 1'000'000) {
          return {absl::StatusCode::kResourceExhausted, "full", ""};
        }
        reserved += bytes;
        return {};
      });
  EXPECT_EQ(outcome.status.message, "full");
}

TEST(Inflater, TooLong) {
  const std::string bytes = Compressed(std::string(5000, 'x'), false);
  EXPECT_TRUE(InflateAll(Encoding::kDeflate, bytes, 5000).status.ok());
  const CallStatus status = InflateAll(Encoding::kDeflate, bytes, 4999).status;
  EXPECT_EQ(status.code, absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(status.message, HasSubstr("at most 4999 bytes"));
}

TEST(Inflater, WhatIsNoneOrNotWhole) {
  const std::string good = Compressed("some text, some text", true);
  for (const std::string& bad :
       {std::string("no gzip at all"), std::string(), good.substr(0, 12),
        good + "x", Compressed("other kind", false)}) {
    EXPECT_EQ(InflateAll(Encoding::kGzip, bad).status.code,
              absl::StatusCode::kInternal);
  }
}

}  // namespace
}  // namespace stoker
