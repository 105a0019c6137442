// A server whose port speaks TLS: many clients at a time, files that change
// beneath them, peers that come and say little.
#include <gtest/gtest.h>

#include <atomic>
#include <csignal>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/fakes/fake_clock.h"
#include "tests/fakes/temp_folder.h"
#include "tests/unit/wire/certificates.h"
#include "tests/unit/wire/echo_calls.h"
#include "tests/unit/wire/tls_peer.h"
#include "wire/tls_context.h"

namespace stoker {
namespace {

class TlsServerTest : public ::testing::Test {
 protected:
  TlsServerTest() {
    std::signal(SIGPIPE, SIG_IGN);  // OpenSSL's client writes as it likes
    files_.Use(authority_.Sign("DNS:localhost"));
  }

  void Start(WireLimits limits = {}, Clock& clock = Clock::Real(),
             int loops = 1) {
    TlsOptions tls;
    tls.certificate = files_.certificate;
    tls.key = files_.key;
    auto context = TlsContext::Open(tls, metrics_, clock);
    ASSERT_TRUE(context.ok()) << context.status();
    tls_ = *std::move(context);
    WireOptions options;
    options.tls = tls_.get();
    options.limits = limits;
    options.loops = loops;
    server_ = std::make_unique<EchoServer>(options, clock);
  }
  double Failures(const std::string& reason) {
    return MetricValue(metrics_, "stoker_tls_handshakes_failed_total",
                       {{"reason", reason}});
  }
  // The first bytes of a client, which can be sent as often as one likes.
  static std::string Hello() {
    TlsClient client;
    client.Shake();
    return client.TakeOutput();
  }
  static std::string Echo(TlsPeer& peer, uint32_t stream,
                          const std::string& way, const std::string& text) {
    if (!peer.Ask(stream, way, text)) return "not sent";
    std::string answer;
    for (;;) {
      const RawFrame frame = peer.Receive();
      if (frame.type == RawFrame::kEnd) return "hung up";
      if (frame.stream != stream) continue;
      if (frame.type == RawFrame::kData) answer += frame.payload;
      if ((frame.flags & kEndStream) != 0) break;
    }
    return answer.size() < 5 ? answer : answer.substr(5);
  }

  const TempFolder folder_;
  const CertificateFiles files_{folder_.path()};
  const TestAuthority authority_;
  FakeClock clock_{absl::Now()};
  MetricRegistry metrics_;
  std::unique_ptr<TlsContext> tls_;
  std::unique_ptr<EchoServer> server_;
};

TEST_F(TlsServerTest, AnswersBothVersions) {
  Start();
  for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
    TlsClientOptions options;
    options.version = version;
    TlsPeer peer(server_->port(), options);
    ASSERT_TRUE(peer.secure());
    EXPECT_EQ(Echo(peer, 1, "/echo/Now", "hello"), "hello");
    EXPECT_EQ(Echo(peer, 3, "/echo/Later", "again"), "again");
  }
}

// Clients come and go on all loops while the files are exchanged.
TEST_F(TlsServerTest, FilesAreExchangedUnderTraffic) {
  Start({}, Clock::Real(), 2);
  const std::vector<Identity> identities = [this] {
    std::vector<Identity> made;
    for (int i = 0; i < 4; ++i)
      made.push_back(authority_.Sign("DNS:localhost"));
    return made;
  }();
  std::atomic<bool> over = false;
  std::atomic<int> answered = 0, failed = 0;
  std::vector<std::thread> clients;
  for (int i = 0; i < 3; ++i) {
    clients.emplace_back([&] {
      TlsPeer kept(server_->port());
      uint32_t stream = 1;
      while (!over) {
        TlsPeer fresh(server_->port());
        const bool well = Echo(kept, stream, "/echo/Later", "kept") == "kept" &&
                          Echo(fresh, 1, "/echo/Now", "fresh") == "fresh";
        stream += 2;
        ++(well ? answered : failed);
      }
    });
  }
  int rounds = 0;
  while (answered < 150 && failed == 0) {
    const Identity& next = identities[static_cast<size_t>(++rounds % 4)];
    const std::string pem = next.CertificatePem();
    CertificateFiles::Write(files_.certificate, pem.substr(0, pem.size() / 2));
    tls_->Look();
    files_.Use(next);
    tls_->Look();
  }
  over = true;
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(failed, 0);
  EXPECT_GT(rounds, 3);
}

// What one peer doesn't read waits in its calls, and is whole when it does.
TEST_F(TlsServerTest, AnswersThatAreReadLate) {
  Start();
  TlsPeer peer(server_->port());
  ASSERT_TRUE(peer.secure());
  constexpr int kCalls = 8;
  const std::string text(60'000, 'x');
  for (uint32_t i = 0; i < kCalls; ++i) {
    ASSERT_TRUE(peer.Open(1 + 2 * i, "/echo/Now"));
    const std::string message = RawPeer::Message(text);
    constexpr size_t kPiece = 16'000;  // its settings aren't agreed to yet
    for (size_t at = 0; at < message.size(); at += kPiece) {
      const int flags = at + kPiece >= message.size() ? kEndStream : 0;
      ASSERT_TRUE(peer.Send(RawFrame::kData, flags, 1 + 2 * i,
                            message.substr(at, kPiece)));
    }
  }
  TlsPeer other(server_->port());
  EXPECT_EQ(Echo(other, 1, "/echo/Now", "beside it"), "beside it");
  ASSERT_TRUE(peer.Send(RawFrame::kWindowUpdate, 0, 0,
                        RawPeer::Number(kCalls * 70'000)));
  size_t bytes = 0;
  for (int ended = 0; ended < kCalls;) {
    const RawFrame frame = peer.Receive();
    ASSERT_NE(frame.type, RawFrame::kEnd);
    if (frame.type == RawFrame::kData) bytes += frame.payload.size();
    if (frame.stream != 0 && (frame.flags & kEndStream) != 0) ++ended;
  }
  EXPECT_EQ(bytes, kCalls * (text.size() + 5));
}

TEST_F(TlsServerTest, WhoSaysNothingMakesRoom) {
  WireLimits limits;
  limits.max_handshakes = 8;
  Start(limits);
  std::vector<std::unique_ptr<RawPeer>> silent;
  for (int i = 0; i < 8; ++i) {
    silent.push_back(std::make_unique<RawPeer>(server_->port(), false));
  }
  for (int i = 1; i <= 12; ++i) {
    TlsPeer peer(server_->port());
    ASSERT_TRUE(peer.secure());
    EXPECT_EQ(Echo(peer, 1, "/echo/Now", "hello"), "hello");
    EXPECT_EQ(server_->Ended("handshakes"), 1);
  }
  EXPECT_EQ(silent[0]->Receive().type, RawFrame::kEnd);
}

// A recorded hello costs its sender nothing. Others are answered meanwhile.
TEST_F(TlsServerTest, AFloodOfHellos) {
  WireLimits limits;
  limits.max_handshakes = 32;
  Start(limits);
  TlsPeer bystander(server_->port());
  const std::string hello = Hello();
  std::vector<std::unique_ptr<RawPeer>> flood;
  for (uint32_t i = 0; i < 300; ++i) {
    flood.push_back(std::make_unique<RawPeer>(server_->port(), false));
    flood.back()->SendBytes(hello);
    if (i % 30 == 0) {
      EXPECT_EQ(Echo(bystander, 1 + 2 * i, "/echo/Now", "hello"), "hello");
    }
  }
  TlsPeer fresh(server_->port());
  EXPECT_EQ(Echo(fresh, 1, "/echo/Now", "hello"), "hello");
  EXPECT_GE(server_->Ended("handshakes"), 200);
}

TEST_F(TlsServerTest, AHandshakeHasItsTime) {
  WireLimits limits;
  limits.handshake_limit = absl::Seconds(5);
  Start(limits, clock_);
  RawPeer silent(server_->port(), false), half(server_->port(), false);
  const std::string hello = Hello();
  ASSERT_TRUE(half.SendBytes(hello.substr(0, hello.size() / 2)));
  {
    TlsPeer other(server_->port());
    EXPECT_EQ(Echo(other, 1, "/echo/Now", "hello"), "hello");
  }
  clock_.Advance(absl::Seconds(6));
  RawPeer knock(server_->port(), false);  // the loop looks at its clock
  EXPECT_EQ(silent.Receive().type, RawFrame::kEnd);
  EXPECT_EQ(half.Receive().type, RawFrame::kEnd);
  EXPECT_EQ(server_->Ended("handshake"), 2);
  EXPECT_EQ(Failures("unfinished"), 2);
}

TEST_F(TlsServerTest, StopsAmidHandshakes) {
  Start();
  std::vector<std::unique_ptr<RawPeer>> peers;
  const std::string hello = Hello();
  for (size_t i = 0; i < 50; ++i) {
    peers.push_back(std::make_unique<RawPeer>(server_->port(), false));
    peers.back()->SendBytes(hello.substr(0, 1 + i * hello.size() / 50));
  }
  server_->wire->Shutdown(Clock::Real().Now() + absl::Seconds(10));
  server_->wire.reset();
  server_.reset();
}

TEST_F(TlsServerTest, WhoRenewsKeysAgainAndAgain) {
  Start();
  TlsPeer peer(server_->port());
  uint32_t stream = 1;
  while (stream < 1'000 && Echo(peer, stream, "/echo/Now", "x") == "x") {
    peer.RenewKeys();
    stream += 2;
  }
  EXPECT_GT(stream, 100u);
  EXPECT_LT(stream, 300u);
  EXPECT_EQ(server_->Ended("frames"), 1);
}

TEST_F(TlsServerTest, PlainTextToItsPort) {
  Start();
  RawPeer peer(server_->port());
  EXPECT_EQ(peer.Receive().type, RawFrame::kEnd);
  TlsPeer other(server_->port());
  EXPECT_EQ(Echo(other, 1, "/echo/Now", "hello"), "hello");
  EXPECT_EQ(Failures("plain_text"), 1);
}

}  // namespace
}  // namespace stoker
