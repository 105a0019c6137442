#include "wire/proxy_header.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "tests/unit/wire/proxy_headers.h"

namespace stoker {
namespace {

using ::testing::HasSubstr;

// The address, "own" where there is none; "more", or what is wrong.
std::string Read(const std::string& bytes, size_t* size = nullptr) {
  const absl::StatusOr<std::optional<ProxyHeader>> header =
      ReadProxyHeader(bytes);
  if (!header.ok()) return std::string(header.status().message());
  if (!header->has_value()) return "more";
  if (size != nullptr) *size = (*header)->size;
  return (*header)->source.has_value() ? (*header)->source->text() : "own";
}

TEST(ProxyHeader, FirstVersion) {
  size_t size = 0;
  const std::string line = "PROXY TCP4 192.0.2.1 198.51.100.1 56324 443\r\n";
  EXPECT_EQ(Read(line + "\r\nand more\n", &size), "192.0.2.1");
  EXPECT_EQ(size, line.size());
  EXPECT_EQ(Read("PROXY TCP6 2001:db8::1 ::1 0 65535\r\n"), "2001:db8::1");
  EXPECT_EQ(Read("PROXY TCP6 ::ffff:10.0.0.7 ::1 1 2\r\n"), "10.0.0.7");
  EXPECT_EQ(Read("PROXY UNKNOWN\r\n", &size), "own");
  EXPECT_EQ(size, 15u);
  EXPECT_EQ(Read("PROXY UNKNOWN ffff::1 what ever 7\r\n"), "own");
  const std::string longest = "PROXY UNKNOWN " + std::string(91, 'f') + "\r\n";
  EXPECT_EQ(Read(longest, &size), "own");
  EXPECT_EQ(size, 107u);
  EXPECT_THAT(Read("PROXY UNKNOWN " + std::string(92, 'f') + "\r\n"),
              HasSubstr("at most 107 bytes"));
}

TEST(ProxyHeader, WrongOnesOfTheFirst) {
  for (const char* wrong :
       {"PROXY \r\n", "PROXY TCP4\r\n", "PROXY TCP5 1.2.3.4 1.2.3.4 1 2\r\n",
        "PROXY TCP4 1.2.3.4 1.2.3.4 1 2\n", "PROXY UNKNOWN\n",
        "PROXY TCP4 1.2.3.4 1.2.3.4 1 2\r\r\n",
        "PROXY TCP4 1.2.3.4  1.2.3.4 1 2\r\n",
        "PROXY TCP4 1.2.3.4 1.2.3.4 1 2 \r\n", "PROXY TCP4 ::1 ::1 1 2\r\n",
        "PROXY TCP6 1.2.3.4 1.2.3.4 1 2\r\n",
        "PROXY TCP4 1.2.3.4 1.2.3 1 2\r\n",
        "PROXY TCP4 1.2.3.4 1.2.3.4 65536 2\r\n",
        "PROXY TCP4 1.2.3.4 1.2.3.4 01 2\r\n",
        "PROXY TCP4 1.2.3.4 1.2.3.4 +1 2\r\n",
        "PROXY TCP4 1.2.3.4 1.2.3.4  2\r\n",
        "PROXY TCP4 localhost 1.2.3.4 1 2\r\n"}) {
    EXPECT_THAT(Read(wrong), HasSubstr("expected \"PROXY TCP4|TCP6")) << wrong;
  }
}

TEST(ProxyHeader, SecondVersion) {
  size_t size = 0;
  const std::string header = SecondHeader(0x21, 0x11, Four("10.0.0.7"));
  EXPECT_EQ(header.size(), 28u);
  EXPECT_EQ(Read(header + "and more", &size), "10.0.0.7");
  EXPECT_EQ(size, 28u);
  EXPECT_EQ(Read(SecondHeader(0x21, 0x21, Six("2001:db8::1"))), "2001:db8::1");
  // What proxies add is skipped.
  const std::string added = "\x04" + std::string("\0\x02", 2) + "hi";
  EXPECT_EQ(Read(SecondHeader(0x21, 0x11, Four("10.0.0.7") + added), &size),
            "10.0.0.7");
  EXPECT_EQ(size, 28u + added.size());
  // LOCAL, whatever comes with it; and what isn't TCP over IP.
  EXPECT_EQ(Read(SecondHeader(0x20, 0x00, "")), "own");
  EXPECT_EQ(Read(SecondHeader(0x20, 0x11, Four("10.0.0.7"))), "own");
  EXPECT_EQ(Read(SecondHeader(0x20, 0x77, "x")), "own");
  EXPECT_EQ(Read(SecondHeader(0x21, 0x00, "")), "own");
  EXPECT_EQ(Read(SecondHeader(0x21, 0x12, Four("10.0.0.7"))), "own");
  EXPECT_EQ(Read(SecondHeader(0x21, 0x31, std::string(216, 'u'))), "own");
  EXPECT_EQ(Read(SecondHeader(0x20, 0x00, std::string(4080, 'x')), &size),
            "own");
  EXPECT_EQ(size, kMaxProxyHeader);
}

TEST(ProxyHeader, WrongOnesOfTheSecond) {
  EXPECT_THAT(Read(SecondHeader(0x11, 0x11, Four("10.0.0.7"))),
              HasSubstr("version 2 and LOCAL or PROXY"));
  EXPECT_THAT(Read(SecondHeader(0x22, 0x11, Four("10.0.0.7"))),
              HasSubstr("version 2 and LOCAL or PROXY"));
  EXPECT_THAT(Read(SecondHeader(0x20, 0x00, std::string(4081, 'x'))),
              HasSubstr("at most 4096 bytes"));
  for (const int kind : {0x01, 0x10, 0x13, 0x41, 0xFF}) {
    EXPECT_THAT(Read(SecondHeader(0x21, kind, std::string(300, 'x'))),
                HasSubstr("a kind of addresses"));
  }
  for (const int kind : {0x11, 0x21, 0x31}) {
    EXPECT_THAT(Read(SecondHeader(0x21, kind, std::string(11, 'x'))),
                HasSubstr("all of them"));
  }
}

TEST(ProxyHeader, SomethingElse) {
  EXPECT_THAT(Read("GET / HTTP/1.1\r\n"),
              HasSubstr("expected a PROXY header, got \"GET / HTTP"));
  EXPECT_THAT(Read("\x16\x03\x01"), HasSubstr("got \"\\x16\\x03\\x01\""));
  EXPECT_THAT(Read("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), HasSubstr("\"PRI * "));
  EXPECT_THAT(Read("proxy TCP4"), HasSubstr("expected a PROXY header"));
  // As early as can be.
  EXPECT_THAT(Read("PRO\0"), HasSubstr("more"));
  EXPECT_THAT(Read("PRI"), HasSubstr("expected a PROXY header"));
}

// Whatever is cut off is asked for, and nothing is asked for without end.
TEST(ProxyHeader, EveryPrefix) {
  for (const std::string& whole :
       {std::string("PROXY TCP4 192.0.2.1 198.51.100.1 56324 443\r\n"),
        SecondHeader(0x21, 0x11, Four("10.0.0.7") + "added"),
        SecondHeader(0x20, 0x00, "")}) {
    for (size_t size = 0; size < whole.size(); ++size) {
      EXPECT_EQ(Read(whole.substr(0, size)), "more") << size;
    }
  }
}

TEST(ProxyHeader, SeededNoise) {
  std::mt19937 random(1);
  const auto below = [&random](size_t n) {
    return std::uniform_int_distribution<size_t>(0, n - 1)(random);
  };
  const std::string seeds[] = {
      "PROXY TCP4 192.0.2.1 198.51.100.1 56324 443\r\n",
      SecondHeader(0x21, 0x21, Six("2001:db8::1") + "added")};
  for (int i = 0; i < 20'000; ++i) {
    std::string text = seeds[below(2)];
    for (size_t changes = below(4); changes > 0; --changes) {
      text[below(text.size())] = static_cast<char>(below(256));
    }
    text += std::string(below(2) * kMaxProxyHeader, '\n');
    size_t size = 0;
    const std::string read = Read(text, &size);
    EXPECT_LE(size, std::min(text.size(), kMaxProxyHeader));
    EXPECT_TRUE(read != "more" || text.size() < kMaxProxyHeader);
  }
}

}  // namespace
}  // namespace stoker
