// A server behind proxies: who is at the other end is what they say.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/fakes/fake_clock.h"
#include "tests/fakes/temp_folder.h"
#include "tests/unit/wire/certificates.h"
#include "tests/unit/wire/echo_calls.h"
#include "tests/unit/wire/proxy_headers.h"
#include "tests/unit/wire/tls_peer.h"
#include "wire/tls_context.h"

namespace stoker {
namespace {

constexpr char kLine[] = "PROXY TCP4 192.0.2.1 198.51.100.1 56324 443\r\n";

WireOptions Behind(const std::string& proxies = "127.0.0.0/8") {
  WireOptions options;
  options.proxies = {*IpNetwork::Parse(proxies)};
  return options;
}

// Who asks, as the server sees it; empty: it hangs up.
std::string Asks(RawPeer& peer, uint32_t stream = 1) {
  if (!peer.Ask(stream, "/echo/Peer", "")) return "";
  const std::string answer = peer.Await(RawFrame::kData).payload;
  return answer.size() < 5 ? "" : answer.substr(5);
}

std::string AsksBehind(int port, const std::string& header) {
  RawPeer peer(port, false);
  peer.SendBytes(header);
  peer.Hello();
  return Asks(peer);
}

TEST(ProxiedConnection, TheHeaderSaysWhoAsks) {
  EchoServer server(Behind());
  EXPECT_EQ(AsksBehind(server.port(), kLine), "192.0.2.1");
  EXPECT_EQ(
      AsksBehind(server.port(), SecondHeader(0x21, 0x21, Six("2001:db8::7"))),
      "2001:db8::7");
  EXPECT_EQ(AsksBehind(server.port(), "PROXY UNKNOWN\r\n"), "127.0.0.1");
  EXPECT_EQ(AsksBehind(server.port(), SecondHeader(0x20, 0x00, "")),
            "127.0.0.1");
  EXPECT_EQ(server.Ended("proxy_header"), 0);
}

// All of it with the first bytes of HTTP/2, and each byte by itself.
TEST(ProxiedConnection, HoweverItIsCut) {
  EchoServer server(Behind());
  const std::string all = std::string(kLine) +
                          "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" +
                          RawPeer::Frame(RawFrame::kSettings, 0, 0, "");
  RawPeer at_once(server.port(), false);
  ASSERT_TRUE(at_once.SendBytes(all));
  EXPECT_EQ(Asks(at_once), "192.0.2.1");
  RawPeer in_pieces(server.port(), false);
  for (const char byte : all) {
    ASSERT_TRUE(in_pieces.SendBytes(std::string(1, byte)));
    std::this_thread::yield();
  }
  EXPECT_EQ(Asks(in_pieces), "192.0.2.1");
}

TEST(ProxiedConnection, LimitsAreOfThatAddress) {
  WireOptions options = Behind();
  options.limits.max_connections_per_peer = 2;
  EchoServer server(options);
  std::vector<std::unique_ptr<RawPeer>> peers;
  for (const char* source : {"10.0.0.1", "10.0.0.1", "10.0.0.2", "10.0.0.2"}) {
    peers.push_back(std::make_unique<RawPeer>(server.port(), false));
    peers.back()->SendBytes(SecondHeader(0x21, 0x11, Four(source)));
    peers.back()->Hello();
    EXPECT_EQ(Asks(*peers.back()), source);
  }
  EXPECT_EQ(
      AsksBehind(server.port(), SecondHeader(0x21, 0x11, Four("10.0.0.1"))),
      "");
  EXPECT_EQ(server.Ended("peer_limit"), 1);
  EXPECT_EQ(Asks(*peers.front(), 3), "10.0.0.1");
}

TEST(ProxiedConnection, WhoIsNoProxyIsSentAway) {
  EchoServer server(Behind("10.0.0.0/8"));
  EXPECT_EQ(AsksBehind(server.port(), kLine), "");
  EXPECT_EQ(server.Ended("proxy_source"), 1);
}

TEST(ProxiedConnection, WhatIsNoHeaderEndsTheConnection) {
  EchoServer server(Behind());
  int wrong = 0;
  for (const std::string& header :
       {std::string(""), std::string("GET / HTTP/1.1\r\n\r\n"),
        std::string("PROXY TCP4 1.2.3.4\r\n"),
        std::string("PROXY ") + std::string(4'000, 'x'),
        SecondHeader(0x21, 0x11, "short"),
        SecondHeader(0x20, 0x00, std::string(5'000, 'x'))}) {
    EXPECT_EQ(AsksBehind(server.port(), header), "");
    EXPECT_EQ(server.Ended("proxy_header"), ++wrong);
  }
  // A header's beginning and the connection's end.
  {
    RawPeer peer(server.port(), false);
    ASSERT_TRUE(peer.SendBytes("PROXY"));
  }
  while (server.Ended("proxy_header") == wrong) std::this_thread::yield();
  // What balancers do to see whether anybody is here.
  { RawPeer peer(server.port(), false); }
  EXPECT_EQ(AsksBehind(server.port(), kLine), "192.0.2.1");
  EXPECT_EQ(server.Ended("proxy_header"), wrong + 1);
}

TEST(ProxiedConnection, AHeaderHasItsTime) {
  FakeClock clock(absl::Now());
  EchoServer server(Behind(), clock);
  RawPeer silent(server.port(), false), slow(server.port(), false);
  ASSERT_TRUE(slow.SendBytes("PROXY TCP4 "));
  // Both were accepted before this one.
  EXPECT_EQ(AsksBehind(server.port(), kLine), "192.0.2.1");
  clock.Advance(absl::Seconds(11));
  EXPECT_EQ(AsksBehind(server.port(), kLine), "192.0.2.1");
  EXPECT_EQ(silent.Await(RawFrame::kEnd).type, RawFrame::kEnd);
  EXPECT_EQ(slow.Await(RawFrame::kEnd).type, RawFrame::kEnd);
  EXPECT_EQ(server.Ended("proxy_header"), 2);
}

TEST(ProxiedConnection, ThoseThatWaitMakeRoom) {
  WireOptions options = Behind();
  options.limits.max_connections = 4;
  EchoServer server(options);
  std::vector<std::unique_ptr<RawPeer>> silent;
  for (int i = 0; i < 20; ++i) {
    silent.push_back(std::make_unique<RawPeer>(server.port(), false));
  }
  EXPECT_EQ(AsksBehind(server.port(), kLine), "192.0.2.1");
  EXPECT_GE(server.Ended("idle"), 16);
  EXPECT_LE(MetricValue(server.metrics, "stoker_connections"), 5);
}

TEST(ProxiedConnection, TheServersEndEndsThem) {
  EchoServer server(Behind());
  RawPeer silent(server.port(), false);
  EXPECT_EQ(AsksBehind(server.port(), kLine), "192.0.2.1");
  server.wire->Shutdown(MonotonicTime::InfinitePast());
  EXPECT_EQ(silent.Await(RawFrame::kEnd).type, RawFrame::kEnd);
}

TEST(ProxiedConnection, ItComesBeforeTls) {
  const TempFolder folder;
  const CertificateFiles files(folder.path());
  const TestAuthority authority;
  files.Use(authority.Sign("DNS:localhost"));
  MetricRegistry metrics;
  TlsOptions tls;
  tls.certificate = files.certificate;
  tls.key = files.key;
  auto context = TlsContext::Open(tls, metrics, Clock::Real());
  ASSERT_TRUE(context.ok()) << context.status();
  WireOptions options = Behind();
  options.tls = context->get();
  EchoServer server(options);
  TlsClientOptions client;
  client.before = SecondHeader(0x21, 0x11, Four("192.0.2.9"));
  TlsPeer peer(server.port(), client);
  ASSERT_TRUE(peer.secure());
  EXPECT_EQ(Asks(peer), "192.0.2.9");
  TlsPeer without(server.port());
  EXPECT_FALSE(without.secure());
  EXPECT_EQ(server.Ended("proxy_header"), 1);
}

}  // namespace
}  // namespace stoker
