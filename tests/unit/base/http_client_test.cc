#include "base/http_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/fakes/loopback_server.h"

namespace stoker {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

bool Never() { return false; }

HttpUrl Url(const std::string& text) {
  return *ParseHttpUrl(text, "4318", "/v1/traces");
}

absl::StatusOr<HttpReply> Post(const LoopbackServer& server,
                               absl::Duration limit = absl::Minutes(1)) {
  return HttpPost(Url(server.url()), "text/plain", "body", limit, Never);
}

TEST(ParseHttpUrlTest, WhatIsNotSaidIsTheDefault) {
  EXPECT_EQ(Url("http://collector").shown(), "http://collector:4318/v1/traces");
  EXPECT_EQ(Url("http://collector:80/").shown(),
            "http://collector:80/v1/traces");
  EXPECT_EQ(Url("http://[::1]:80/a?b").shown(), "http://[::1]:80/a?b");
  EXPECT_EQ(Url("http://[::1]").host, "::1");
}

TEST(ParseHttpUrlTest, WhatIsNone) {
  for (const char* url :
       {"", "collector:4318", "https://collector", "http://", "http://:80",
        "http://a:b", "http://a:0", "http://a:65536", "http://[::1",
        "http://[::1]80", "http://a/\r\nHost: b", "http://me@a",
        "http://a b"}) {
    EXPECT_EQ(ParseHttpUrl(url, "1", "/").status().code(),
              absl::StatusCode::kInvalidArgument)
        << url;
  }
}

TEST(HttpPostTest, WhatIsSent) {
  LoopbackServer server(
      [](const std::string&) { return "HTTP/1.1 204 No Content\r\n\r\n"; });
  const absl::StatusOr<HttpReply> reply = Post(server);
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(reply->status, 204);
  ASSERT_EQ(server.requests().size(), 1u);
  const std::string request = server.requests()[0];
  EXPECT_THAT(request, StartsWith("POST /v1/traces HTTP/1.1\r\nHost: 127"));
  EXPECT_THAT(request, HasSubstr("Content-Type: text/plain\r\n"));
  EXPECT_THAT(request, EndsWith("Content-Length: 4\r\n\r\nbody"));
}

// It doesn't have to close the connection.
TEST(HttpPostTest, AReplyWithALength) {
  LoopbackServer server([](const std::string&) {
    return "HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nyes";
  });
  const absl::StatusOr<HttpReply> reply = Post(server);
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(reply->body, "yes");
}

TEST(HttpExchangeTest, NoMoreThanIsAskedFor) {
  std::string whole = "HTTP/1.0 200 OK\r\n\r\n" + std::string(200'000, 'x');
  LoopbackServer server([&whole](const std::string&) { return whole; });
  const auto ask = [&server](size_t most) {
    return HttpExchange(Url(server.url()),
                        "GET / HTTP/1.0\r\nContent-Length: 0\r\n\r\n", "", most,
                        absl::Minutes(1), Never);
  };
  const absl::StatusOr<std::string> all = ask(1 << 20);
  ASSERT_TRUE(all.ok()) << all.status();
  EXPECT_EQ(*all, whole);
  const absl::StatusOr<std::string> part = ask(100);
  ASSERT_TRUE(part.ok()) << part.status();
  EXPECT_GE(part->size(), 100u);
  EXPECT_LT(part->size(), whole.size());
}

TEST(HttpPostTest, WhatIsNoHttp) {
  for (const char* answer : {"SSH-2.0-x\r\n", "HTTP/1.1 2", "HTTP/1.1 200 OK",
                             "HTTP/1.1 abc OK\r\n\r\n"}) {
    LoopbackServer server([answer](const std::string&) { return answer; });
    EXPECT_EQ(Post(server).status().code(), absl::StatusCode::kDataLoss)
        << answer;
  }
}

TEST(HttpPostTest, AServerThatNeverAnswers) {
  LoopbackServer server([](const std::string&) { return ""; });
  EXPECT_EQ(Post(server, absl::Milliseconds(50)).status().code(),
            absl::StatusCode::kUnavailable);
  int asked = 0;
  const absl::Status status =
      HttpPost(Url(server.url()), "text/plain", "body", absl::Minutes(1),
               [&asked] { return ++asked > 2; })
          .status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("stops"));
}

TEST(HttpPostTest, NobodyThere) {
  std::string url;
  {
    LoopbackServer server([](const std::string&) { return ""; });
    url = server.url();
  }
  const absl::Status status =
      HttpPost(Url(url), "text/plain", "body", absl::Minutes(1), Never)
          .status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("refused"));
}

}  // namespace
}  // namespace stoker
