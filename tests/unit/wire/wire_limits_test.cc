// What becomes of peers that do too much.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <memory>
#include <thread>
#include <vector>

#include "tests/unit/wire/echo_calls.h"
#include "tests/unit/wire/raw_peer.h"

namespace stoker {
namespace {

bool Answers(int port) {
  RawPeer peer(port);
  return peer.Ask(1, "/echo/Now", "x") &&
         peer.AwaitEnd(1).type == RawFrame::kHeaders;
}

struct Flood {
  const char* name;
  std::string frame;
  const char* reason = "frames";
};

class FloodTest : public ::testing::TestWithParam<Flood> {};

TEST_P(FloodTest, EndsTheConnection) {
  EchoServer server;
  RawPeer peer(server.port());
  ASSERT_TRUE(peer.Open(1, "/echo/Stream"));
  std::string many;
  for (int i = 0; i < 1000; ++i) many += GetParam().frame;
  bool taken = true;
  for (int i = 0; i < 20 && taken; ++i) taken = peer.SendBytes(many);
  EXPECT_EQ(peer.Await(RawFrame::kEnd).type, RawFrame::kEnd);
  // Of what is answered it depends on the pieces in which it comes.
  EXPECT_EQ(server.Ended(GetParam().reason) + server.Ended("acks"), 1);
  EXPECT_TRUE(Answers(server.port()));
}

std::vector<Flood> Floods() {
  using F = RawFrame;
  return {
      {"EmptyData", RawPeer::Frame(F::kData, 0, 1, "")},
      {"Priority",
       RawPeer::Frame(F::kPriority, 0, 1, std::string("\0\0\0\0\x10", 5))},
      {"Ping", RawPeer::Frame(F::kPing, 0, 0, "12345678")},
      {"PingAnswer", RawPeer::Frame(F::kPing, kAck, 0, "12345678")},
      {"Settings", RawPeer::Frame(F::kSettings, 0, 0, "")},
      {"ManySettings",
       RawPeer::Frame(F::kSettings, 0, 0, std::string(size_t{33} * 6, '\0')),
       "settings"},
      {"Window", RawPeer::Frame(F::kWindowUpdate, 0, 0, RawPeer::Number(1))},
      {"Unknown", RawPeer::Frame(200, 0, 0, "what")},
  };
}

INSTANTIATE_TEST_SUITE_P(Frames, FloodTest, ::testing::ValuesIn(Floods()),
                         [](const auto& info) { return info.param.name; });

TEST(WireLimits, RapidResets) {
  EchoServer server;
  RawPeer peer(server.port());
  bool taken = true;
  for (uint32_t stream = 1; stream < 20'000 && taken; stream += 2) {
    taken = peer.Open(stream, "/echo/Never") &&
            peer.Send(RawFrame::kReset, 0, stream, RawPeer::Number(8));
  }
  EXPECT_EQ(peer.Await(RawFrame::kEnd).type, RawFrame::kEnd);
  EXPECT_LE(server.counts.started, 2000);
  EXPECT_EQ(server.Ended("resets"), 1);
  while (server.counts.ended < server.counts.started) {
    std::this_thread::yield();
  }
  EXPECT_TRUE(Answers(server.port()));
}

// Windows that make the server reset the stream, whose call goes on.
TEST(WireLimits, ResetsThatThePeerMakesUsDo) {
  EchoServer server;
  RawPeer peer(server.port());
  bool taken = true;
  for (uint32_t stream = 1; stream < 20'000 && taken; stream += 2) {
    taken = peer.Open(stream, "/echo/Never") &&
            peer.Send(RawFrame::kWindowUpdate, 0, stream,
                      RawPeer::Number(0x7FFFFFFF));
  }
  EXPECT_EQ(peer.Await(RawFrame::kEnd).type, RawFrame::kEnd);
  EXPECT_LE(server.counts.started, 4000);
  EXPECT_EQ(server.Ended("resets"), 1);
  EXPECT_TRUE(Answers(server.port()));
}

TEST(WireLimits, ContinuationsWithoutEnd) {
  EchoServer server;
  RawPeer peer(server.port());
  ASSERT_TRUE(peer.Send(RawFrame::kHeaders, 0, 1,
                        RawPeer::RequestHeaders("/echo/Now")));
  bool taken = true;
  for (int i = 0; i < 1000 && taken; ++i) {
    taken = peer.Send(RawFrame::kContinuation, 0, 1,
                      RawPeer::Literal("x", std::string(10, 'y')));
  }
  EXPECT_EQ(peer.Await(RawFrame::kEnd).type, RawFrame::kEnd);
  EXPECT_EQ(server.Ended("headers"), 1);
  EXPECT_TRUE(Answers(server.port()));
}

// A large entry of the table of headers, which is named by a byte then.
std::string LargeEntry() {
  return "\x40" + RawPeer::Literal("x", std::string(4'000, 'y')).substr(1);
}

// Few bytes that name a large entry of the table again and again.
TEST(WireLimits, HeadersThatUnfoldWithoutEnd) {
  EchoServer server;
  RawPeer peer(server.port());
  peer.Open(1, "/echo/Now", LargeEntry() + std::string(1'000, '\xbe'));
  EXPECT_EQ(peer.Await(RawFrame::kEnd).type, RawFrame::kEnd);
  EXPECT_EQ(server.Ended("headers"), 1);
  EXPECT_TRUE(Answers(server.port()));
}

// And trailers, which nobody asked for.
TEST(WireLimits, TrailersThatUnfoldWithoutEnd) {
  EchoServer server;
  RawPeer peer(server.port());
  ASSERT_TRUE(peer.Open(1, "/echo/Never", LargeEntry()));
  ASSERT_TRUE(peer.Send(RawFrame::kHeaders, kEndHeaders | kEndStream, 1,
                        std::string(1'000, '\xbe')));
  EXPECT_EQ(peer.Await(RawFrame::kEnd).type, RawFrame::kEnd);
  EXPECT_EQ(server.Ended("headers"), 1);
  EXPECT_TRUE(Answers(server.port()));
}

TEST(WireLimits, SomeTrailersAreNoTrouble) {
  EchoServer server;
  RawPeer peer(server.port());
  ASSERT_TRUE(peer.Open(1, "/echo/Now"));
  ASSERT_TRUE(peer.Send(RawFrame::kData, 0, 1, RawPeer::Message("x")));
  ASSERT_TRUE(peer.Send(RawFrame::kHeaders, kEndHeaders | kEndStream, 1,
                        RawPeer::Literal("x", "y")));
  EXPECT_EQ(peer.AwaitEnd(1).type, RawFrame::kHeaders);
}

// What was sent of headers waits in memory until the rest is here: of all
// connections together it is bounded.
TEST(WireLimits, HeadersThatAreNotWhole) {
  constexpr size_t kHalf = 14'000;
  WireOptions options;
  options.limits.max_kept_bytes = 3 * kHalf + 3'000;
  EchoServer server(options);
  std::vector<std::unique_ptr<RawPeer>> peers;
  const std::string headers = RawPeer::RequestHeaders("/echo/Now") +
                              RawPeer::Literal("x", std::string(kHalf, 'y'));
  const std::string whole =
      RawPeer::Frame(RawFrame::kHeaders, kEndHeaders, 1, headers);
  for (int i = 0; i < 4; ++i) {
    peers.push_back(std::make_unique<RawPeer>(server.port()));
    ASSERT_TRUE(peers[i]->Await(RawFrame::kSettings).type != RawFrame::kEnd);
    ASSERT_TRUE(peers[i]->SendBytes(whole.substr(0, whole.size() - 1)));
    // It has been read when another one's next call is answered.
    EXPECT_TRUE(Answers(server.port()));
  }
  EXPECT_EQ(peers[3]->Await(RawFrame::kEnd).type, RawFrame::kEnd);
  EXPECT_EQ(server.Ended("headers"), 1);
  // The others' become whole, and their room is another's.
  ASSERT_TRUE(peers[0]->SendBytes(whole.substr(whole.size() - 1)));
  ASSERT_TRUE(
      peers[0]->Send(RawFrame::kData, kEndStream, 1, RawPeer::Message("x")));
  EXPECT_EQ(peers[0]->AwaitEnd(1).type, RawFrame::kHeaders);
  peers[1].reset();
  RawPeer late(server.port());
  ASSERT_TRUE(late.Open(1, "/echo/Now",
                        RawPeer::Literal("x", std::string(kHalf, 'y'))));
  ASSERT_TRUE(late.Send(RawFrame::kData, kEndStream, 1, RawPeer::Message("x")));
  EXPECT_EQ(late.AwaitEnd(1).type, RawFrame::kHeaders);
}

// Each of these makes the server look at all streams.
TEST(WireLimits, SettingsOfAConnectionWithManyCalls) {
  EchoServer server;
  RawPeer peer(server.port());
  std::string many;
  for (uint32_t stream = 1; stream < 4'000; stream += 2) {
    many += RawPeer::Frame(RawFrame::kHeaders, kEndHeaders, stream,
                           RawPeer::RequestHeaders("/echo/Never"));
  }
  ASSERT_TRUE(peer.SendBytes(many));
  const std::string window("\0\4\0\0\xff\xff", 6);
  std::string settings;
  for (int i = 0; i < 150; ++i) {
    settings += RawPeer::Frame(RawFrame::kSettings, 0, 0, window);
  }
  peer.SendBytes(settings);
  peer.SendBytes(settings);
  EXPECT_EQ(peer.Await(RawFrame::kEnd).type, RawFrame::kEnd);
  EXPECT_EQ(server.Ended("frames"), 1);
}

// Pings whose answers nobody reads, fewer than there may be.
TEST(WireLimits, AcknowledgementsThatNobodyReads) {
  WireOptions options;
  options.limits.max_waiting_acks = 10;
  EchoServer server(options);
  RawPeer peer(server.port());
  std::string many;
  for (int i = 0; i < 20; ++i) {
    many += RawPeer::Frame(RawFrame::kPing, 0, 0, "12345678");
  }
  peer.SendBytes(many);
  EXPECT_EQ(peer.Await(RawFrame::kEnd).type, RawFrame::kEnd);
  EXPECT_EQ(server.Ended("acks"), 1);
  EXPECT_TRUE(Answers(server.port()));
}

TEST(WireLimits, AMessageThatIsTooLong) {
  WireOptions options;
  options.limits.max_message_bytes = 100;
  EchoServer server(options);
  RawPeer peer(server.port());
  ASSERT_TRUE(peer.Ask(1, "/echo/Now", std::string(100, 'x')));
  EXPECT_EQ(peer.AwaitEnd(1).type, RawFrame::kHeaders);
  EXPECT_EQ(server.EndedCalls("too_long"), 0);
  ASSERT_TRUE(peer.Ask(3, "/echo/Now", std::string(101, 'x')));
  EXPECT_EQ(peer.AwaitEnd(3).type, RawFrame::kHeaders);
  EXPECT_EQ(server.EndedCalls("too_long"), 1);
}

// Who hasn't seen the limit is refused streams, and loses nothing else.
TEST(WireLimits, CallsOfAConnection) {
  WireOptions options;
  options.limits.max_calls = 2;
  EchoServer server(options);
  RawPeer peer(server.port());
  for (const uint32_t stream : {1, 3}) {
    ASSERT_TRUE(peer.Open(stream, "/echo/Stream"));
    ASSERT_TRUE(peer.Send(RawFrame::kData, 0, stream, RawPeer::Message("x")));
    EXPECT_EQ(peer.Await(RawFrame::kData).payload, RawPeer::Message("x"));
  }
  EXPECT_EQ(MetricValue(server.metrics, "stoker_connections_full_total"), 1);
  ASSERT_TRUE(peer.Open(5, "/echo/Now"));
  const RawFrame refused = peer.AwaitEnd(5);
  EXPECT_EQ(refused.type, RawFrame::kReset);
  EXPECT_EQ(refused.error(), 7u);  // REFUSED_STREAM
  ASSERT_TRUE(peer.Send(RawFrame::kData, kEndStream, 1, ""));
  EXPECT_EQ(peer.AwaitEnd(1).type, RawFrame::kHeaders);
  ASSERT_TRUE(peer.Ask(7, "/echo/Now", "x"));
  EXPECT_EQ(peer.AwaitEnd(7).type, RawFrame::kHeaders);
  EXPECT_EQ(MetricValue(server.metrics, "stoker_connections_full_total"), 2);
}

// Who has acknowledged it and goes on all the same breaks HTTP/2's rules.
TEST(WireLimits, CallsBeyondALimitThatThePeerKnows) {
  WireOptions options;
  options.limits.max_calls = 1;
  EchoServer server(options);
  RawPeer peer(server.port());
  ASSERT_TRUE(peer.Send(RawFrame::kSettings, kAck, 0, ""));
  ASSERT_TRUE(peer.Open(1, "/echo/Stream"));
  ASSERT_TRUE(peer.Open(3, "/echo/Now"));
  EXPECT_EQ(peer.Await(RawFrame::kGoaway).error(), 1u);
  EXPECT_EQ(peer.Await(RawFrame::kEnd).type, RawFrame::kEnd);
  EXPECT_EQ(server.Ended("protocol"), 1);
}

// Whatever is in them, which is not read.
TEST(WireLimits, FramesThatAreTooLarge) {
  constexpr size_t kMost = 1 << 20;
  for (const int type : {RawFrame::kData, RawFrame::kHeaders}) {
    EchoServer server;
    RawPeer peer(server.port());
    ASSERT_TRUE(peer.Open(1, "/echo/Stream"));
    const uint32_t stream = type == RawFrame::kData ? 1 : 3;
    ASSERT_TRUE(peer.SendBytes(
        RawPeer::Frame(type, kEndHeaders, stream, std::string(kMost + 1, 'x'))
            .substr(0, 9)));
    EXPECT_EQ(peer.Await(RawFrame::kGoaway).error(), 6u);  // FRAME_SIZE_ERROR
    EXPECT_EQ(server.counts.started, 1);
  }
}

// The call is refused, the connection goes on, and so do its other calls.
TEST(WireLimits, TooManyHeaderBytes) {
  EchoServer server;
  RawPeer peer(server.port());
  ASSERT_TRUE(peer.Open(1, "/echo/Stream"));
  std::string more;
  for (int i = 0; i < 60; ++i) {
    more += RawPeer::Literal("x-" + std::to_string(i), std::string(250, 'y'));
  }
  ASSERT_TRUE(peer.Open(3, "/echo/Now", more));
  const RawFrame refused = peer.AwaitEnd(3);
  EXPECT_EQ(refused.type, RawFrame::kHeaders);
  EXPECT_EQ(server.counts.started, 1);
  EXPECT_EQ(server.EndedCalls("headers"), 1);
  ASSERT_TRUE(peer.Send(RawFrame::kData, 0, 1, RawPeer::Message("go on")));
  EXPECT_EQ(peer.Await(RawFrame::kData).payload, RawPeer::Message("go on"));
}

// What no base64 is concerns nobody but its call.
TEST(WireLimits, ABadBinaryHeader) {
  EchoServer server;
  RawPeer peer(server.port());
  ASSERT_TRUE(peer.Open(1, "/echo/Stream"));
  ASSERT_TRUE(peer.Open(3, "/echo/Now", RawPeer::Literal("x-bin", "*!*")));
  ASSERT_TRUE(peer.Send(RawFrame::kData, kEndStream, 3, RawPeer::Message("")));
  EXPECT_EQ(peer.AwaitEnd(3).stream, 3u);
  ASSERT_TRUE(peer.Send(RawFrame::kData, 0, 1, RawPeer::Message("go on")));
  EXPECT_EQ(peer.Await(RawFrame::kData).payload, RawPeer::Message("go on"));
}

TEST(WireLimits, OtherProtocols) {
  EchoServer server;
  for (const std::string& hello :
       {std::string("GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
        std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11),
        std::string(1000, '\0')}) {
    RawPeer peer(server.port(), false);
    peer.SendBytes(hello);
    EXPECT_EQ(peer.Await(RawFrame::kEnd).type, RawFrame::kEnd);
  }
  EXPECT_EQ(server.Ended("protocol"), 2);
  EXPECT_EQ(server.Ended("tls"), 1);
  EXPECT_TRUE(Answers(server.port()));
}

TEST(WireLimits, WhatIsNoGrpcGetsAnswersOfHttp) {
  EchoServer server;
  RawPeer peer(server.port());
  using P = RawPeer;
  ASSERT_TRUE(
      peer.Send(RawFrame::kHeaders, kEndHeaders | kEndStream, 1,
                P::Literal(":method", "GET") + P::Literal(":scheme", "http") +
                    P::Literal(":path", "/") + P::Literal(":authority", "x")));
  EXPECT_EQ(peer.AwaitEnd(1).payload, "This port speaks gRPC.\n");
  ASSERT_TRUE(peer.Send(
      RawFrame::kHeaders, kEndHeaders | kEndStream, 3,
      P::Literal(":method", "POST") + P::Literal(":scheme", "http") +
          P::Literal(":path", "/echo/Now") + P::Literal(":authority", "x") +
          P::Literal("content-type", "text/html")));
  EXPECT_EQ(peer.AwaitEnd(3).payload, "This port speaks gRPC.\n");
  EXPECT_EQ(server.counts.started, 0);
}

// Sends a message in frames that any peer takes, as far as the windows go.
void AskInPieces(RawPeer& peer, uint32_t stream, const std::string& way,
                 const std::string& bytes, int end = kEndStream) {
  constexpr size_t kPiece = 16'000;
  ASSERT_TRUE(peer.Open(stream, way));
  for (size_t at = 0; at < bytes.size(); at += kPiece) {
    const bool last = at + kPiece >= bytes.size();
    ASSERT_TRUE(peer.Send(RawFrame::kData, last ? end : 0, stream,
                          bytes.substr(at, kPiece)));
  }
}

// The first window of the settings that come next; 0: they have none.
uint32_t AwaitWindow(RawPeer& peer) {
  RawFrame frame = peer.Await(RawFrame::kSettings);
  while (frame.type == RawFrame::kSettings && (frame.flags & kAck) != 0) {
    frame = peer.Await(RawFrame::kSettings);
  }
  const std::string& entries = frame.payload;
  if (entries.size() != 6 || entries[1] != 4) return 0;
  uint32_t value = 0;
  std::memcpy(&value, entries.data() + 2, 4);
  peer.Send(RawFrame::kSettings, kAck, 0, "");
  return ntohl(value);
}

// A client whose messages are large need not wait for a window again.
TEST(WireLimits, WhoSendsMuchMaySendItAtOnce) {
  WireOptions options;
  options.limits.max_kept_bytes = 300'000;
  EchoServer server(options);
  RawPeer peer(server.port());
  EXPECT_EQ(peer.Await(RawFrame::kSettings).payload.size(), 30u);
  peer.Send(RawFrame::kSettings, kAck, 0, "");
  // More than the first window: it opens when the length is known.
  const std::string large = RawPeer::Message(std::string(200'000, 'x'));
  ASSERT_TRUE(peer.Open(1, "/echo/Later"));
  ASSERT_TRUE(peer.Send(RawFrame::kData, 0, 1, large.substr(0, 16'000)));
  while (peer.Await(RawFrame::kWindowUpdate).stream != 1) {
  }
  for (size_t at = 16'000; at < large.size(); at += 16'000) {
    const int flags = at + 16'000 >= large.size() ? kEndStream : 0;
    ASSERT_TRUE(peer.Send(RawFrame::kData, flags, 1, large.substr(at, 16'000)));
  }
  EXPECT_EQ(AwaitWindow(peer), 262'144u);
  AskInPieces(peer, 3, "/echo/Fail", RawPeer::Message("and this one"));
  EXPECT_EQ(peer.AwaitEnd(3).type, RawFrame::kHeaders);
  // What nobody reads yet has bounds all the same, of all calls together.
  const std::string kept(200'000, '\0');
  AskInPieces(peer, 5, "/echo/Never", RawPeer::Message("read") + kept, 0);
  AskInPieces(peer, 7, "/echo/Never", RawPeer::Message("read") + kept, 0);
  AskInPieces(peer, 9, "/echo/Never", RawPeer::Message("read") + kept, 0);
  EXPECT_EQ(peer.AwaitEnd(9).type, RawFrame::kHeaders);
  EXPECT_EQ(server.counts.cancelled, 1);
  EXPECT_EQ(server.EndedCalls("kept"), 1);
}

TEST(WireLimits, CallsWithoutAMessageMakeRoom) {
  WireOptions options;
  options.limits.max_waiting_calls = 2;
  EchoServer server(options);
  RawPeer peer(server.port());
  for (const uint32_t stream : {1, 3, 5}) {
    ASSERT_TRUE(peer.Open(stream, "/echo/Now"));
  }
  EXPECT_EQ(peer.AwaitEnd(1).type, RawFrame::kHeaders);
  EXPECT_EQ(server.EndedCalls("waiting"), 1);
  for (const uint32_t stream : {3, 5}) {
    ASSERT_TRUE(peer.Send(RawFrame::kData, kEndStream, stream,
                          RawPeer::Message("here")));
    EXPECT_EQ(peer.AwaitEnd(stream).type, RawFrame::kHeaders);
  }
}

TEST(WireLimits, ConnectionsWithoutCallsMakeRoom) {
  WireOptions options;
  options.limits.max_connections = 4;
  EchoServer server(options);
  std::vector<std::unique_ptr<RawPeer>> peers;
  for (int i = 0; i < 40; ++i) {
    peers.push_back(std::make_unique<RawPeer>(server.port()));
    ASSERT_TRUE(peers.back()->Ask(1, "/echo/Now", "x"));
    EXPECT_EQ(peers.back()->AwaitEnd(1).type, RawFrame::kHeaders) << i;
  }
  EXPECT_GE(server.Ended("idle"), 36);
  EXPECT_LE(MetricValue(server.metrics, "stoker_connections"), 4);
}

TEST(WireLimits, BusyConnectionsDoNot) {
  WireOptions options;
  options.limits.max_connections = 2;
  EchoServer server(options);
  RawPeer first(server.port()), second(server.port());
  for (RawPeer* peer : {&first, &second}) {
    ASSERT_TRUE(peer->Open(1, "/echo/Stream"));
    ASSERT_TRUE(peer->Send(RawFrame::kData, 0, 1, RawPeer::Message("x")));
    EXPECT_EQ(peer->Await(RawFrame::kData).payload, RawPeer::Message("x"));
  }
  RawPeer third(server.port());
  EXPECT_EQ(third.Await(RawFrame::kEnd).type, RawFrame::kEnd);
  EXPECT_EQ(server.Ended("limit"), 1);
  ASSERT_TRUE(first.Send(RawFrame::kData, 0, 1, RawPeer::Message("y")));
  EXPECT_EQ(first.Await(RawFrame::kData).payload, RawPeer::Message("y"));
}

TEST(WireLimits, ConnectionsOfOneAddress) {
  WireOptions options;
  options.limits.max_connections_per_peer = 2;
  EchoServer server(options);
  RawPeer first(server.port()), second(server.port());
  ASSERT_TRUE(second.Ask(1, "/echo/Now", "x"));
  EXPECT_EQ(second.AwaitEnd(1).type, RawFrame::kHeaders);
  RawPeer third(server.port());
  EXPECT_EQ(third.Await(RawFrame::kEnd).type, RawFrame::kEnd);
  EXPECT_EQ(server.Ended("peer_limit"), 1);
}

// The process has none left for a while: whoever comes is sent away, and the
// port is well again when they are back.
TEST(WireLimits, DescriptorsAreGoneForAWhile) {
  EchoServer server;
  RawPeer early(server.port());
  ASSERT_TRUE(early.Ask(1, "/echo/Now", "x"));
  EXPECT_EQ(early.AwaitEnd(1).type, RawFrame::kHeaders);
  {
    // This one's own descriptor is the last.
    rlimit before = {};
    getrlimit(RLIMIT_NOFILE, &before);
    std::vector<int> hoard;
    rlimit few = before;
    few.rlim_cur = 200;
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
    for (int fd = dup(0); fd >= 0; fd = dup(0)) hoard.push_back(fd);
    for (int i = 0; i < 20; ++i) {
      close(hoard.back());
      hoard.pop_back();
      RawPeer late(server.port());
      EXPECT_TRUE(late.connected());
      EXPECT_EQ(late.Await(RawFrame::kEnd).type, RawFrame::kEnd);
      hoard.push_back(dup(0));
    }
    EXPECT_GE(server.Ended("descriptors"), 20);
    for (const int fd : hoard) close(fd);
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  }
  ASSERT_TRUE(early.Ask(3, "/echo/Now", "x"));
  EXPECT_EQ(early.AwaitEnd(3).type, RawFrame::kHeaders);
  EXPECT_TRUE(Answers(server.port()));
}

}  // namespace
}  // namespace stoker
