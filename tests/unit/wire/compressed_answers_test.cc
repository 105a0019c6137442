// Which answers are compressed: those to calls that come compressed, where the
// client takes that, and it is worth it.
#include <gtest/gtest.h>

#include <string>

#include "tests/unit/wire/echo_calls.h"
#include "tests/unit/wire/raw_peer.h"
#include "wire/inflater.h"

namespace stoker {
namespace {

constexpr size_t kMax = 1 << 20;

struct Answer {
  bool compressed = false;
  std::string content;
};

Answer AskFor(EchoServer& server, const std::string& way,
              const std::string& headers, const std::string& content) {
  RawPeer peer(server.port());
  peer.Open(1, way, headers);
  // A call may send messages as they are, whatever it announces.
  const std::string message = RawPeer::Message(content);
  constexpr size_t kFrame = 16384;
  for (size_t at = 0; at < message.size(); at += kFrame) {
    const int flags = at + kFrame < message.size() ? 0 : kEndStream;
    peer.Send(RawFrame::kData, flags, 1, message.substr(at, kFrame));
  }
  Answer answer;
  std::string data;
  for (;;) {
    const RawFrame frame = peer.Receive();
    if (frame.type == RawFrame::kEnd) break;
    if (frame.stream != 1) continue;
    if (frame.type == RawFrame::kData) data += frame.payload;
    if ((frame.flags & kEndStream) != 0) break;
  }
  EXPECT_GE(data.size(), 5u) << way;
  if (data.size() < 5) return answer;
  answer.compressed = data[0] != 0;
  answer.content = data.substr(5);
  return answer;
}

std::string Inflated(Encoding encoding, const std::string& bytes) {
  const ByteChain chain = ByteChain::Copy(bytes);
  Inflater inflater(encoding, chain.slices().front(), kMax);
  while (!inflater.done()) {
    const CallStatus status =
        inflater.Step([](size_t) { return CallStatus(); });
    EXPECT_TRUE(status.ok()) << status.message;
    if (!status.ok()) return "";
  }
  return inflater.Take().Joined();
}

std::string Coding(const std::string& name, const std::string& accepted) {
  return RawPeer::Literal("grpc-encoding", name) +
         RawPeer::Literal("grpc-accept-encoding", accepted);
}

TEST(CompressedAnswers, AsTheRequest) {
  EchoServer server;
  const std::string text(20'000, 'z');
  for (const Encoding encoding : {Encoding::kGzip, Encoding::kDeflate}) {
    for (const char* way : {"/echo/Now", "/echo/Later", "/echo/Stream"}) {
      const std::string name = EncodingName(encoding);
      const Answer answer = AskFor(
          server, way, Coding(name, "identity,deflate, gzip, snappy"), text);
      EXPECT_TRUE(answer.compressed) << way;
      EXPECT_LT(answer.content.size(), 1'000u);
      EXPECT_TRUE(Inflated(encoding, answer.content) == text) << way;
    }
  }
}

TEST(CompressedAnswers, NotWhereTheClientDoesNotTakeThem) {
  EchoServer server;
  const std::string text(20'000, 'z');
  for (const std::string& headers :
       {std::string(), Coding("identity", "identity,deflate,gzip"),
        Coding("gzip", "identity,deflate,x-gzip"),
        RawPeer::Literal("grpc-encoding", "gzip")}) {
    const Answer answer = AskFor(server, "/echo/Later", headers, text);
    EXPECT_FALSE(answer.compressed);
    EXPECT_TRUE(answer.content == text);
  }
}

TEST(CompressedAnswers, NotWhereItIsNotWorthIt) {
  EchoServer server;
  const std::string headers = Coding("gzip", "gzip");
  EXPECT_FALSE(AskFor(server, "/echo/Now", headers, "short").compressed);
  std::string noise(20'000, '\0');
  uint32_t state = 1;
  for (char& c : noise) {
    state = state * 1664525 + 1013904223;
    c = static_cast<char>(state >> 24);
  }
  const Answer answer = AskFor(server, "/echo/Later", headers, noise);
  EXPECT_FALSE(answer.compressed);
  EXPECT_TRUE(answer.content == noise);
}

// A loop's thread serves others, too.
TEST(CompressedAnswers, LargeOnesOnAnotherThreadOnly) {
  EchoServer server;
  const std::string headers = Coding("gzip", "gzip");
  const std::string text(60'000, 'z');
  EXPECT_FALSE(AskFor(server, "/echo/Now", headers, text).compressed);
  EXPECT_TRUE(AskFor(server, "/echo/Later", headers, text).compressed);
}

}  // namespace
}  // namespace stoker
