// What becomes of peers that take their time.
#include <gtest/gtest.h>

#include <thread>

#include "tests/fakes/fake_clock.h"
#include "tests/unit/wire/echo_calls.h"
#include "tests/unit/wire/raw_peer.h"

namespace stoker {
namespace {

class ConnectionTimesTest : public ::testing::Test {
 protected:
  // Moves the time on by steps as small as a loop's look, until it is so.
  template <typename Condition>
  bool Until(Condition condition, absl::Duration most) {
    for (absl::Duration passed; passed < most;
         passed += absl::Milliseconds(100)) {
      for (int i = 0; i < 50; ++i) {
        if (condition()) return true;
        std::this_thread::yield();
      }
      clock_.Advance(absl::Milliseconds(100));
      server_->Wake();
    }
    // The loop may be late.
    for (int i = 0; i < 100'000 && most > absl::ZeroDuration(); ++i) {
      if (condition()) return true;
      if (i % 1'000 == 0) server_->Wake();
      std::this_thread::yield();
    }
    return false;
  }
  // The server's clock stands still meanwhile.
  template <typename Number>
  void Await(const std::atomic<Number>& count, Number least) {
    while (count < least) std::this_thread::yield();
  }
  void Pass(absl::Duration time) {
    Until([] { return false; }, time);
  }

  struct Server : EchoServer {
    using EchoServer::EchoServer;
    // A loop looks at its clock when something comes: a connection does.
    void Wake() { RawPeer knock(port(), false); }
  };

  void Start(WireLimits limits) {
    WireOptions options;
    options.limits = limits;
    options.on_stall = [this] { ++stalls_; };
    server_ = std::make_unique<Server>(options, clock_);
  }

  // A peer whose settings the server has seen.
  void Settle(RawPeer& peer) {
    EXPECT_EQ(peer.Await(RawFrame::kSettings).type, RawFrame::kSettings);
    ASSERT_TRUE(peer.Ask(1, "/echo/Now", "hello"));
    EXPECT_EQ(peer.AwaitEnd(1).type, RawFrame::kHeaders);
  }

  // Connections end by their age alone.
  static WireLimits OldAge() {
    WireLimits limits;
    limits.max_age = absl::Seconds(10);
    limits.keepalive = absl::Hours(1);
    limits.stall_limit = absl::Hours(1);
    return limits;
  }
  // With a call, 3, that keeps the connection.
  void GrowOld(RawPeer& peer) {
    Settle(peer);
    ASSERT_TRUE(peer.Open(3, "/echo/Now"));
    Await(server_->counts.started, 1);
    EXPECT_TRUE(
        Until([&] { return server_->Ended("age") >= 1; }, absl::Seconds(15)));
  }

  // Begins a stop, whose first goodbye the peer gets; to be joined.
  std::thread Stop(RawPeer& peer) {
    std::thread stop(
        [this] { server_->wire->Shutdown(MonotonicTime::InfiniteFuture()); });
    EXPECT_EQ(peer.Await(RawFrame::kGoaway).last_stream(), 0x7fffffffu);
    return stop;
  }

  FakeClock clock_;
  std::atomic<int> stalls_ = 0;
  std::unique_ptr<Server> server_;
};

TEST_F(ConnectionTimesTest, WhoNeverSpeaksHttp2) {
  Start({});
  RawPeer silent(server_->port(), false);
  EXPECT_TRUE(Until([&] { return server_->Ended("handshake") >= 1; },
                    absl::Seconds(35)));
  while (silent.Receive().type != RawFrame::kEnd) {
  }
}

TEST_F(ConnectionTimesTest, WhoDoesNotAnswerPings) {
  Start({});
  RawPeer peer(server_->port());
  Settle(peer);
  EXPECT_TRUE(
      Until([&] { return server_->Ended("silent") >= 1; }, absl::Seconds(70)));
  EXPECT_EQ(peer.Await(RawFrame::kPing).type, RawFrame::kPing);
  EXPECT_EQ(peer.Await(RawFrame::kEnd).type, RawFrame::kEnd);
}

TEST_F(ConnectionTimesTest, HeadersThatNeverBecomeWhole) {
  WireLimits limits;
  limits.stall_limit = absl::Seconds(5);
  Start(limits);
  RawPeer peer(server_->port());
  Settle(peer);
  const std::string headers = RawPeer::Frame(
      RawFrame::kHeaders, kEndHeaders, 3, RawPeer::RequestHeaders("/echo/Now"));
  ASSERT_TRUE(peer.SendBytes(headers.substr(0, headers.size() - 20)));
  Pass(absl::Seconds(3));
  // That it goes on is not enough.
  ASSERT_TRUE(peer.SendBytes(headers.substr(headers.size() - 20, 10)));
  EXPECT_TRUE(
      Until([&] { return server_->Ended("stalled") >= 1; }, absl::Seconds(3)));
  EXPECT_EQ(peer.Await(RawFrame::kEnd).type, RawFrame::kEnd);
}

TEST_F(ConnectionTimesTest, WhoIsIdle) {
  WireLimits limits;
  limits.max_idle = absl::Seconds(10);
  limits.keepalive = absl::Hours(1);
  Start(limits);
  RawPeer peer(server_->port());
  Settle(peer);
  EXPECT_TRUE(
      Until([&] { return server_->Ended("idle") >= 1; }, absl::Seconds(15)));
  EXPECT_EQ(peer.Await(RawFrame::kGoaway).error(), 0u);
}

// Takes no more calls, and lets the open one end.
TEST_F(ConnectionTimesTest, WhoIsOld) {
  Start(OldAge());
  RawPeer peer(server_->port());
  GrowOld(peer);
  EXPECT_EQ(peer.Await(RawFrame::kGoaway).error(), 0u);
  ASSERT_TRUE(
      peer.Send(RawFrame::kData, kEndStream, 3, RawPeer::Message("late")));
  EXPECT_EQ(peer.AwaitEnd(3).type, RawFrame::kHeaders);
}

// The first goodbye names no call, for some may be on their way; the second one
// comes when the client has seen it, and names the last that is answered.
TEST_F(ConnectionTimesTest, AGoodbyeIsSaidTwice) {
  Start(OldAge());
  RawPeer peer(server_->port());
  GrowOld(peer);
  const RawFrame first = peer.Await(RawFrame::kGoaway);
  EXPECT_EQ(first.error(), 0u);
  EXPECT_EQ(first.last_stream(), 0x7fffffffu);
  const RawFrame ping = peer.Await(RawFrame::kPing);
  // A ping of the client's own says nothing.
  ASSERT_TRUE(peer.Send(RawFrame::kPing, 0, 0, "8 bytes."));
  ASSERT_TRUE(peer.Ask(5, "/echo/Now", "on its way"));
  EXPECT_EQ(peer.AwaitEnd(5).type, RawFrame::kHeaders);
  ASSERT_TRUE(peer.Send(RawFrame::kPing, kAck, 0, ping.payload));
  const RawFrame second = peer.Await(RawFrame::kGoaway);
  EXPECT_EQ(second.error(), 0u);
  EXPECT_EQ(second.last_stream(), 5u);
}

// What a client has sent before it could know is answered, though no call was
// open when the stop began.
TEST_F(ConnectionTimesTest, AStopWaitsUntilItsGoodbyeIsRead) {
  Start({});
  RawPeer peer(server_->port());
  Settle(peer);
  std::thread stop = Stop(peer);
  const RawFrame ping = peer.Await(RawFrame::kPing);
  ASSERT_TRUE(peer.Ask(3, "/echo/Now", "on its way"));
  EXPECT_EQ(peer.AwaitEnd(3).type, RawFrame::kHeaders);
  ASSERT_TRUE(peer.Send(RawFrame::kPing, kAck, 0, ping.payload));
  EXPECT_EQ(peer.Await(RawFrame::kGoaway).last_stream(), 3u);
  stop.join();
}

TEST_F(ConnectionTimesTest, AStopDoesNotWaitForWhoNeverReads) {
  Start({});
  RawPeer peer(server_->port());
  Settle(peer);
  std::thread stop = Stop(peer);
  clock_.Advance(absl::Seconds(1));
  stop.join();
}

TEST_F(ConnectionTimesTest, OldAgeHasItsGrace) {
  WireLimits limits = OldAge();
  limits.age_grace = absl::Seconds(5);
  Start(limits);
  RawPeer peer(server_->port());
  Settle(peer);
  ASSERT_TRUE(peer.Ask(3, "/echo/Never", "x"));
  Await(server_->counts.started, 1);
  EXPECT_TRUE(
      Until([&] { return server_->Ended("age") >= 1; }, absl::Seconds(15)));
  EXPECT_TRUE(
      Until([&] { return server_->counts.cancelled == 1; }, absl::Seconds(10)));
  EXPECT_EQ(peer.Await(RawFrame::kEnd).type, RawFrame::kEnd);
}

TEST_F(ConnectionTimesTest, MessagesThatNeverBecomeWhole) {
  WireLimits limits;
  limits.stall_limit = absl::Seconds(5);
  limits.keepalive = absl::Hours(1);
  Start(limits);
  RawPeer peer(server_->port());
  Settle(peer);
  // One that has not begun, one that was, and one of a stream.
  ASSERT_TRUE(peer.Open(3, "/echo/Now"));
  ASSERT_TRUE(peer.Open(5, "/echo/Now"));
  ASSERT_TRUE(peer.Open(7, "/echo/Stream"));
  for (const uint32_t stream : {5, 7}) {
    ASSERT_TRUE(peer.Send(RawFrame::kData, 0, stream,
                          RawPeer::Message("half").substr(0, 7)));
  }
  Await(server_->counts.started, 4);
  Await<int64_t>(server_->counts.reserved, 5 + 2 * 4);
  EXPECT_TRUE(Until([&] { return stalls_ == 3; }, absl::Seconds(8)));
  EXPECT_TRUE(
      Until([&] { return server_->counts.ended == 4; }, absl::Seconds(1)));
  EXPECT_EQ(peer.AwaitEnd(7).type, RawFrame::kHeaders);
}

// A stream may be silent between its messages.
TEST_F(ConnectionTimesTest, StreamsMayTakeTheirTime) {
  WireLimits limits;
  limits.stall_limit = absl::Seconds(5);
  limits.keepalive = absl::Hours(1);
  Start(limits);
  RawPeer peer(server_->port());
  Settle(peer);
  ASSERT_TRUE(peer.Open(3, "/echo/Stream"));
  ASSERT_TRUE(peer.Send(RawFrame::kData, 0, 3, RawPeer::Message("one")));
  EXPECT_EQ(peer.Await(RawFrame::kData).stream, 3u);
  Pass(absl::Seconds(20));
  ASSERT_TRUE(
      peer.Send(RawFrame::kData, kEndStream, 3, RawPeer::Message("two")));
  EXPECT_EQ(peer.Await(RawFrame::kData).payload, RawPeer::Message("two"));
  EXPECT_EQ(stalls_, 0);
}

// Its window is never opened: the answer can't leave.
TEST_F(ConnectionTimesTest, AnswersThatNobodyTakes) {
  WireLimits limits;
  limits.stall_limit = absl::Seconds(5);
  limits.keepalive = absl::Hours(1);
  Start(limits);
  RawPeer peer(server_->port());
  Settle(peer);
  ASSERT_TRUE(peer.Open(3, "/echo/Now"));
  const std::string message = RawPeer::Message(std::string(60'000, 'x'));
  for (size_t at = 0; at < message.size(); at += 16'000) {
    const bool last = at + 16'000 >= message.size();
    ASSERT_TRUE(peer.Send(RawFrame::kData, last ? kEndStream : 0, 3,
                          message.substr(at, 16'000)));
  }
  // 65,535 bytes of the connection's window: "hello" and this leave no room.
  EXPECT_EQ(peer.AwaitEnd(3).type, RawFrame::kHeaders);
  ASSERT_TRUE(peer.Open(5, "/echo/Now"));
  for (size_t at = 0; at < message.size(); at += 16'000) {
    const bool last = at + 16'000 >= message.size();
    ASSERT_TRUE(peer.Send(RawFrame::kData, last ? kEndStream : 0, 5,
                          message.substr(at, 16'000)));
  }
  Await<int64_t>(server_->counts.reserved, 5 + 2 * 60'000);
  EXPECT_TRUE(Until([&] { return stalls_ == 1; }, absl::Seconds(8)));
  EXPECT_EQ(peer.AwaitEnd(5).type, RawFrame::kReset);
}

// Nor need a call whose client takes nothing go on for long.
TEST_F(ConnectionTimesTest, WhatMayNotGoOnWaitsForNoClient) {
  WireLimits limits;
  limits.stall_limit = absl::Hours(1);
  limits.keepalive = absl::Hours(1);
  Start(limits);
  RawPeer peer(server_->port());
  Settle(peer);
  const std::string message = RawPeer::Message(std::string(60'000, 'x'));
  const auto send = [&](uint32_t stream, int end) {
    for (size_t at = 0; at < message.size(); at += 16'000) {
      const bool last = at + 16'000 >= message.size();
      ASSERT_TRUE(peer.Send(RawFrame::kData, last ? end : 0, stream,
                            message.substr(at, 16'000)));
    }
  };
  // The first answer fits into the connection's window, the second doesn't.
  ASSERT_TRUE(peer.Open(3, "/echo/Now"));
  send(3, kEndStream);
  EXPECT_EQ(peer.AwaitEnd(3).type, RawFrame::kHeaders);
  ASSERT_TRUE(peer.Open(5, "/echo/Stream"));
  send(5, 0);
  Await<int64_t>(server_->counts.reserved, 5 + 2 * 60'000);
  server_->counts.may_go_on = false;
  // Within a second, unless the loop looks late at a clock that runs ahead.
  EXPECT_TRUE(
      Until([&] { return server_->counts.ended == 3; }, absl::Minutes(1)));
  EXPECT_EQ(peer.AwaitEnd(5).type, RawFrame::kReset);
}

TEST_F(ConnectionTimesTest, DeadlinesOfTheClient) {
  Start({});
  RawPeer peer(server_->port());
  Settle(peer);
  ASSERT_TRUE(
      peer.Open(3, "/echo/Never", RawPeer::Literal("grpc-timeout", "2S")));
  ASSERT_TRUE(peer.Send(RawFrame::kData, kEndStream, 3, RawPeer::Message("x")));
  Await<int64_t>(server_->counts.reserved, 5 + 1);
  EXPECT_TRUE(
      Until([&] { return server_->counts.cancelled == 1; }, absl::Seconds(4)));
  EXPECT_EQ(peer.AwaitEnd(3).type, RawFrame::kHeaders);
}

}  // namespace
}  // namespace stoker
