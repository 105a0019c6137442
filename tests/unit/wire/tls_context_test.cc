// What a certificate's names may be.
#include "wire/tls_context.h"

#include <gtest/gtest.h>

namespace stoker {
namespace {

TEST(MatchesNameTest, TheSameName) {
  EXPECT_TRUE(MatchesName("a.example.com", "A.Example.com"));
  EXPECT_TRUE(MatchesName("spiffe://cluster/a", "spiffe://cluster/a"));
  EXPECT_FALSE(MatchesName("a.example.com", "b.example.com"));
  EXPECT_FALSE(MatchesName("example.com", "a.example.com"));
  EXPECT_FALSE(MatchesName("", "a"));
}

TEST(MatchesNameTest, OneMoreLabel) {
  EXPECT_TRUE(MatchesName("*.example.com", "a.example.com"));
  EXPECT_FALSE(MatchesName("*.example.com", "example.com"));
  EXPECT_FALSE(MatchesName("*.example.com", "a.b.example.com"));
  EXPECT_FALSE(MatchesName("*.example.com", ".example.com"));
  EXPECT_FALSE(MatchesName("*.example.com", "aexample.com"));
  // A name of a certificate stands for itself only.
  EXPECT_FALSE(MatchesName("a.example.com", "*.example.com"));
}

TEST(MatchesNameTest, WhatHoldsAZero) {
  const std::string cut("a.example.com\0.evil.org", 23);
  EXPECT_FALSE(MatchesName("a.example.com", cut));
  EXPECT_FALSE(MatchesName("*.example.com", cut));
}

}  // namespace
}  // namespace stoker
