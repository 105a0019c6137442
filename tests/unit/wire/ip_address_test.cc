#include "wire/ip_address.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stoker {
namespace {

using ::testing::HasSubstr;

IpAddress Four(const char* text) { return *IpAddress::Parse(AF_INET, text); }
IpAddress Six(const char* text) { return *IpAddress::Parse(AF_INET6, text); }

TEST(IpAddress, Text) {
  EXPECT_EQ(Four("10.0.0.7").text(), "10.0.0.7");
  EXPECT_EQ(Six("2001:DB8::0:1").text(), "2001:db8::1");
  EXPECT_EQ(Six("::ffff:10.0.0.7"), Four("10.0.0.7"));
  EXPECT_EQ(Six("::").text(), "::");
}

TEST(IpAddress, LoopbackIsThisMachinesAlone) {
  EXPECT_TRUE(Four("127.0.0.1").is_loopback());
  EXPECT_TRUE(Four("127.255.0.9").is_loopback());
  EXPECT_FALSE(Four("128.0.0.1").is_loopback());
  EXPECT_TRUE(Six("::1").is_loopback());
  EXPECT_TRUE(Six("::ffff:127.0.0.1").is_loopback());
  EXPECT_FALSE(Six("::").is_loopback());
  EXPECT_FALSE(Six("::2").is_loopback());
}

TEST(IpAddress, WhatIsNone) {
  for (const std::string& wrong :
       {std::string(""), std::string("localhost"), std::string("10.0.0"),
        std::string("10.0.0.256"), std::string("10.0.0.7 "),
        std::string("10.0.0.7\0x", 10), std::string("::1")}) {
    EXPECT_FALSE(IpAddress::Parse(AF_INET, wrong).has_value()) << wrong;
  }
  EXPECT_FALSE(IpAddress::Parse(AF_INET6, "10.0.0.7").has_value());
  sockaddr_storage unix = {};
  unix.ss_family = AF_UNIX;
  EXPECT_FALSE(IpAddress::Of(unix).has_value());
}

TEST(IpNetwork, Contains) {
  const IpNetwork ten = *IpNetwork::Parse("10.0.0.0/8");
  EXPECT_TRUE(ten.Contains(Four("10.255.0.1")));
  EXPECT_TRUE(ten.Contains(Six("::ffff:10.0.0.1")));
  EXPECT_FALSE(ten.Contains(Four("11.0.0.0")));
  EXPECT_FALSE(ten.Contains(Six("a00::")));
  const IpNetwork odd = *IpNetwork::Parse("192.0.2.128/25");
  EXPECT_TRUE(odd.Contains(Four("192.0.2.200")));
  EXPECT_FALSE(odd.Contains(Four("192.0.2.127")));
  const IpNetwork one = *IpNetwork::Parse("2001:db8::1");
  EXPECT_EQ(one.text(), "2001:db8::1/128");
  EXPECT_TRUE(one.Contains(Six("2001:db8::1")));
  EXPECT_FALSE(one.Contains(Six("2001:db8::2")));
  EXPECT_TRUE(IpNetwork::Parse("0.0.0.0/0")->Contains(Four("8.8.8.8")));
  EXPECT_FALSE(IpNetwork::Parse("::/0")->Contains(Four("8.8.8.8")));
}

TEST(IpNetwork, WhatIsNone) {
  const auto error = [](const char* text) {
    return std::string(IpNetwork::Parse(text).status().message());
  };
  EXPECT_THAT(error("proxy.example.com"),
              HasSubstr("got \"proxy.example.com\""));
  EXPECT_THAT(error(""), HasSubstr("such as 10.0.0.7, 10.0.0.0/8"));
  EXPECT_THAT(error("10.0.0.0/33"), HasSubstr("0 to 32 bits"));
  EXPECT_THAT(error("10.0.0.0/-1"), HasSubstr("0 to 32 bits"));
  EXPECT_THAT(error("10.0.0.0/"), HasSubstr("0 to 32 bits"));
  EXPECT_THAT(error("fd00::/129"), HasSubstr("0 to 128 bits"));
  EXPECT_THAT(error("10.1.0.0/8"), HasSubstr("first address, 10.0.0.0/8"));
}

}  // namespace
}  // namespace stoker
