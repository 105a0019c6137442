#include "status/page_server.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zlib.h>

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "base/clock.h"
#include "base/thread.h"
#include "metrics/metrics.h"

namespace stoker {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

int Connect(int port) {
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) !=
      0) {
    close(fd);
    return -1;
  }
  return fd;
}

bool IsComplete(const std::string& answer, bool has_body) {
  const size_t body = answer.find("\r\n\r\n");
  if (body == std::string::npos || !has_body) return body != std::string::npos;
  const size_t length = answer.find("Content-Length: ");
  return length < body &&
         answer.size() >= body + 4 + std::stoul(answer.substr(length + 16));
}

// Stops at Content-Length.
std::string Ask(int port, const std::string& method, const std::string& path,
                const std::string& headers = "") {
  const int fd = Connect(port);
  if (fd < 0) return "";
  const std::string request = absl::StrCat(
      method, " ", path, " HTTP/1.0\r\nHost: localhost\r\n", headers, "\r\n");
  if (write(fd, request.data(), request.size()) < 0) return "";
  std::string answer;
  char buffer[4096];
  ssize_t n;
  while (!IsComplete(answer, method != "HEAD") &&
         (n = read(fd, buffer, sizeof(buffer))) > 0) {
    answer.append(buffer, static_cast<size_t>(n));
  }
  close(fd);
  return answer;
}

// Two answers may come in different seconds.
std::string WithoutDate(std::string answer) {
  const size_t date = answer.find("Date: ");
  answer.erase(date, answer.find("\r\n", date) + 2 - date);
  return answer;
}

std::string BodyOf(const std::string& answer) {
  return answer.substr(answer.find("\r\n\r\n") + 4);
}

std::string Unpacked(const std::string& gzip) {
  z_stream stream{};
  EXPECT_EQ(inflateInit2(&stream, MAX_WBITS + 16), Z_OK);
  std::string text(1 << 20, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(gzip.data()));
  stream.avail_in = static_cast<uInt>(gzip.size());
  stream.next_out = reinterpret_cast<Bytef*>(text.data());
  stream.avail_out = static_cast<uInt>(text.size());
  EXPECT_EQ(inflate(&stream, Z_FINISH), Z_STREAM_END);
  text.resize(stream.total_out);
  inflateEnd(&stream);
  return text;
}

class PageServerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto started = PageServer::Start(
        {"127.0.0.1:0"},
        {{"/",
          [] {
            return Page{"text/html; charset=utf-8", "<p>front", "none"};
          }},
         {"/metrics",
          [this] {
            return Page{"text/plain; charset=utf-8",
                        absl::StrCat("asked ", ++asked_, "\n"), ""};
          }}},
        {{"/late",
          [this](const std::string& query, std::function<void(Page)> done) {
            query_ = query;
            done_ = std::move(done);
            asked_late_.Notify();
          }}},
        metrics_, Clock::Real());
    ASSERT_TRUE(started.ok()) << started.status();
    server_ = *std::move(started);
  }

  std::string Ask(const std::string& method, const std::string& path,
                  const std::string& headers = "") {
    return stoker::Ask(server_->port(), method, path, headers);
  }

  MetricRegistry metrics_;
  int asked_ = 0;
  std::string query_;
  std::function<void(Page)> done_;
  absl::Notification asked_late_;
  std::unique_ptr<PageServer> server_;
};

TEST_F(PageServerTest, APageThatTakesAWhileKeepsNoOtherWaiting) {
  std::string late;
  Thread asks("asks", [&] { late = Ask("GET", "/late?how=long"); });
  asked_late_.WaitForNotification();
  EXPECT_EQ(query_, "how=long");
  EXPECT_THAT(Ask("GET", "/"), StartsWith("HTTP/1.1 200 OK\r\n"));
  std::exchange(done_, nullptr)(Page{"text/plain", "there", ""});
  asks.Join();
  EXPECT_EQ(BodyOf(late), "there");
}

TEST_F(PageServerTest, APageThatTakesAWhileIsForGet) {
  EXPECT_THAT(Ask("POST", "/late"), HasSubstr("\r\nAllow: GET\r\n"));
}

TEST_F(PageServerTest, MakesAPageAnewForEachRequest) {
  EXPECT_GT(server_->port(), 0);
  const std::string answer = Ask("GET", "/metrics");
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(answer, HasSubstr("\r\nContent-Type: text/plain; "
                                "charset=utf-8\r\n"));
  EXPECT_THAT(answer, HasSubstr("\r\nCache-Control: no-store\r\n"));
  EXPECT_THAT(answer, Not(HasSubstr("Content-Security-Policy")));
  EXPECT_EQ(BodyOf(answer), "asked 1\n");
  EXPECT_EQ(BodyOf(Ask("GET", "/metrics?from=here")), "asked 2\n");
  EXPECT_THAT(Ask("GET", "/"),
              HasSubstr("\r\nContent-Security-Policy: none\r\n"));
}

TEST_F(PageServerTest, HeadHasTheHeadersOfGet) {
  const std::string get = Ask("GET", "/");
  const std::string head = Ask("HEAD", "/");
  EXPECT_THAT(head, EndsWith("\r\n\r\n"));
  EXPECT_EQ(WithoutDate(head) + BodyOf(get), WithoutDate(get));
}

TEST_F(PageServerTest, PacksForWhoTakesIt) {
  const std::string answer =
      Ask("GET", "/metrics", "Accept-Encoding: deflate, gzip\r\n");
  EXPECT_THAT(answer, HasSubstr("\r\nContent-Encoding: gzip\r\n"));
  EXPECT_EQ(Unpacked(BodyOf(answer)), "asked 1\n");
}

TEST_F(PageServerTest, AnotherPathIsNotFound) {
  for (const char* path : {"/other", "/metrics/", "/metricsx", "//metrics/x",
                           "/other/../x", "/<script>"}) {
    const std::string answer = Ask("GET", path);
    EXPECT_THAT(answer, HasSubstr(" 404 Not Found\r\n")) << path;
    EXPECT_THAT(answer, HasSubstr("Content-Type: text/plain")) << path;
    EXPECT_THAT(answer, HasSubstr("expected / or /metrics, got /")) << path;
  }
  EXPECT_EQ(asked_, 0);
}

TEST_F(PageServerTest, AnotherMethodIsRefused) {
  for (const char* method : {"POST", "PUT", "DELETE", "OPTIONS", "PATCH"}) {
    const std::string answer = Ask(method, "/metrics", "Content-Length: 0\r\n");
    EXPECT_THAT(answer, HasSubstr(" 405 Method Not Allowed\r\n")) << method;
    EXPECT_THAT(answer, HasSubstr("\r\nAllow: GET, HEAD\r\n")) << method;
    EXPECT_EQ(BodyOf(answer),
              absl::StrCat("expected GET or HEAD, got ", method, "\n"));
  }
  EXPECT_EQ(asked_, 0);
}

TEST_F(PageServerTest, NonsenseIsAnsweredAndForgotten) {
  EXPECT_THAT(Ask("GARBAGE", "/metrics"), Not(HasSubstr(" 200 ")));
  EXPECT_THAT(Ask("GET", "metrics"), Not(HasSubstr(" 200 ")));
  EXPECT_THAT(Ask("OPTIONS", "*"), Not(HasSubstr(" 200 ")));
  EXPECT_EQ(asked_, 0);
  EXPECT_THAT(Ask("GET", "/metrics"), HasSubstr(" 200 OK"));
}

// Slow loris: they say half of what they have to, or nothing at all.
TEST_F(PageServerTest, SilentConnectionsKeepNobodyWaiting) {
  std::vector<int> silent;
  for (int i = 0; i < 400; ++i) {  // more than are taken at a time
    const int fd = Connect(server_->port());
    ASSERT_GE(fd, 0);
    silent.push_back(fd);
    constexpr std::string_view half = "GET /metrics HTTP/1.1\r\nHost";
    if (i % 2 == 0) {
      ASSERT_GT(send(fd, half.data(), half.size(), MSG_NOSIGNAL), 0);
    }
  }
  const MonotonicTime start = Clock::Real().Now();
  EXPECT_THAT(Ask("GET", "/metrics"), HasSubstr(" 200 OK"));
  EXPECT_LT(Clock::Real().Now() - start, absl::Seconds(5));
  for (const int fd : silent) close(fd);
}

TEST_F(PageServerTest, EndsAtOnce) {
  const MonotonicTime start = Clock::Real().Now();
  server_.reset();
  EXPECT_LT(Clock::Real().Now() - start, absl::Seconds(1));
}

// What is ended is counted, and what is open isn't: who asks has a connection.
TEST_F(PageServerTest, WhatItCounts) {
  EXPECT_THAT(stoker::Ask(server_->port(), "GET", "/ HTTP/9.9\r\n\r\n"),
              HasSubstr("505"));
  EXPECT_EQ(MetricValue(metrics_, "stoker_connections_ended_total",
                        {{"reason", "protocol"}}),
            1);
  EXPECT_EQ(MetricValue(metrics_, "stoker_connections"), 0);
}

TEST_F(PageServerTest, AnAddressInUseIsUnavailable) {
  const std::string address = absl::StrCat("127.0.0.1:", server_->port());
  const absl::Status status =
      PageServer::Start({address}, {}, {}, metrics_, Clock::Real()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  const std::string message(status.message());
  EXPECT_THAT(message, StartsWith(absl::StrCat("can't listen for metrics on '",
                                               address, "': ")));
  EXPECT_THAT(message, HasSubstr("Address already in use"));
}

TEST_F(PageServerTest, ANonsenseAddressIsInvalid) {
  for (const char* address : {"nonsense", "127.0.0.1:99999999", ":"}) {
    const absl::Status status =
        PageServer::Start({address}, {}, {}, metrics_, Clock::Real()).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << address;
    EXPECT_THAT(std::string(status.message()), HasSubstr(address));
  }
}

}  // namespace
}  // namespace stoker
