// TLS by itself: what a peer may send it in which pieces, and what is told of
// it.
#include "wire/tls_stream.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/fakes/fake_clock.h"
#include "tests/fakes/temp_folder.h"
#include "tests/unit/wire/certificates.h"
#include "tests/unit/wire/tls_peer.h"

namespace stoker {
namespace {

constexpr size_t kRoom = 64 << 10;

class TlsStreamTest : public ::testing::Test {
 protected:
  explicit TlsStreamTest() { files_.Use(authority_.Sign("DNS:localhost")); }

  TlsContext& Tls() {
    if (tls_ == nullptr) {
      TlsOptions options;
      options.certificate = files_.certificate;
      options.key = files_.key;
      if (asks_clients_) {
        CertificateFiles::Write(files_.client_ca, authority_.Pem());
        options.client_ca = files_.client_ca;
        options.client_names = names_;
      }
      auto tls = TlsContext::Open(options, metrics_, clock_);
      EXPECT_TRUE(tls.ok()) << tls.status();
      tls_ = *std::move(tls);
    }
    return *tls_;
  }

  // A stream and the other end of its socket.
  struct Pair {
    std::unique_ptr<TlsStream> stream;
    FileDescriptor peer;
  };
  Pair Open(int buffer = 0) {
    std::array<int, 2> ends = {-1, -1};
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0,
                         ends.data()),
              0);
    if (buffer > 0) {
      setsockopt(ends[0], SOL_SOCKET, SO_SNDBUF, &buffer, sizeof(buffer));
    }
    return {std::make_unique<TlsStream>(FileDescriptor(ends[0]), Tls(),
                                        TlsProtocol::kH2, "peer"),
            FileDescriptor(ends[1])};
  }

  static bool SendAll(const Pair& pair, std::string_view bytes) {
    return send(pair.peer.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
           static_cast<ssize_t>(bytes.size());
  }
  static std::string TakeAll(const Pair& pair) {
    std::string bytes;
    std::array<char, 16384> piece;
    for (;;) {
      const ssize_t more =
          recv(pair.peer.get(), piece.data(), piece.size(), MSG_DONTWAIT);
      if (more <= 0) return bytes;
      bytes.append(piece.data(), static_cast<size_t>(more));
    }
  }
  // What the stream makes of what was sent to it.
  static long Receive(const Pair& pair, std::string& text) {
    std::array<char, kRoom> memory;
    // In pieces, as what goes to different places is received.
    constexpr size_t kFirst = 1000;
    const std::array<iovec, 2> pieces = {
        {{memory.data(), kFirst}, {memory.data() + kFirst, kRoom - kFirst}}};
    const long size = pair.stream->Receive(pieces.data(), 2);
    if (size > 0) text.append(memory.data(), static_cast<size_t>(size));
    return size;
  }
  static long Receive(const Pair& pair) {
    std::string ignored;
    return Receive(pair, ignored);
  }
  // Carries what both have to say, in pieces of that size.
  static bool Shake(const Pair& pair, TlsClient& client, size_t piece = kRoom) {
    for (int i = 0; i < 20; ++i) {
      const bool done = client.Shake();
      const std::string out = client.TakeOutput();
      for (size_t at = 0; at < out.size(); at += piece) {
        if (!SendAll(pair, out.substr(at, piece))) return false;
        if (Receive(pair) == ByteStream::kBroken) {
          client.Give(TakeAll(pair));
          client.Shake();
          return false;
        }
      }
      const std::string back = TakeAll(pair);
      for (size_t at = 0; at < back.size(); at += piece) {
        client.Give(std::string_view(back).substr(at, piece));
        if (at + piece < back.size()) client.Shake();
      }
      if (done && !pair.stream->ShakesHands()) return true;
    }
    return false;
  }
  static long Send(const Pair& pair, std::string_view text) {
    const iovec piece = {const_cast<char*>(text.data()), text.size()};
    return pair.stream->Send(&piece, 1);
  }
  double Failures(const std::string& reason) {
    return MetricValue(metrics_, "stoker_tls_handshakes_failed_total",
                       {{"reason", reason}});
  }
  // What a client of this kind comes to.
  bool IsLetIn(const TlsClientOptions& options) {
    const Pair pair = Open();
    TlsClient client(options);
    return Shake(pair, client);
  }

  const TempFolder folder_;
  const CertificateFiles files_{folder_.path()};
  const TestAuthority authority_;
  FakeClock clock_{absl::Now()};
  MetricRegistry metrics_;
  bool asks_clients_ = false;
  std::vector<std::string> names_;
  std::unique_ptr<TlsContext> tls_;
};

class EachVersion : public TlsStreamTest,
                    public ::testing::WithParamInterface<int> {
 protected:
  static TlsClientOptions Client() {
    TlsClientOptions options;
    options.version = GetParam();
    return options;
  }
};

INSTANTIATE_TEST_SUITE_P(Tls, EachVersion,
                         ::testing::Values(TLS1_2_VERSION, TLS1_3_VERSION),
                         [](const auto& info) {
                           return info.param == TLS1_2_VERSION ? "Tls12"
                                                               : "Tls13";
                         });

TEST_P(EachVersion, AHandshakeInSingleBytes) {
  const Pair pair = Open();
  EXPECT_TRUE(pair.stream->ShakesHands());
  EXPECT_FALSE(pair.stream->CanSend());
  EXPECT_EQ(Send(pair, "too early"), ByteStream::kLater);
  TlsClient client(Client());
  ASSERT_TRUE(Shake(pair, client, 1));
  EXPECT_TRUE(pair.stream->CanSend());
  EXPECT_FALSE(pair.stream->OwesBytes());
  client.Write("there");
  std::string heard;
  for (const char byte : client.TakeOutput()) {
    ASSERT_TRUE(SendAll(pair, std::string(1, byte)));
    ASSERT_NE(Receive(pair, heard), ByteStream::kBroken);
  }
  EXPECT_EQ(heard, "there");
  EXPECT_EQ(Send(pair, "back"), 4);
  client.Give(TakeAll(pair));
  EXPECT_EQ(client.Read(), "back");
}

TEST_P(EachVersion, BothSayThatTheyEnd) {
  Pair pair = Open();
  TlsClient client(Client());
  ASSERT_TRUE(Shake(pair, client));
  client.Write("last words");
  SSL_shutdown(client.ssl());
  ASSERT_TRUE(SendAll(pair, client.TakeOutput()));
  std::string heard;
  EXPECT_EQ(Receive(pair, heard), 10);
  EXPECT_EQ(heard, "last words");
  EXPECT_EQ(Receive(pair), 0);
  EXPECT_EQ(Receive(pair), 0);
  EXPECT_EQ(Send(pair, "answer"), 6);  // this side is open still
  client.Give(TakeAll(pair));
  EXPECT_EQ(client.Read(), "answer");
  EXPECT_FALSE(client.HeardClose());
  pair.stream.reset();
  client.Give(TakeAll(pair));
  client.Read();
  EXPECT_TRUE(client.HeardClose());
}

// With a socket that takes little at a time: all arrives in order, and no more
// is encrypted than that and a bit.
TEST_P(EachVersion, ASlowReaderOfMuch) {
  const Pair pair = Open(8 << 10);
  TlsClient client(Client());
  ASSERT_TRUE(Shake(pair, client));
  constexpr size_t kAll = 3 << 20;
  constexpr size_t kPiece = 100'000;
  std::string sent(kAll, '\0');
  std::mt19937 random(1);
  for (char& byte : sent) byte = static_cast<char>(random());
  std::string heard;
  size_t taken = 0;
  int waits = 0;
  while (heard.size() < kAll) {
    if (taken < kAll) {
      const std::string_view rest = std::string_view(sent).substr(taken);
      std::array<iovec, 4> pieces;
      size_t at = 0;
      int count = 0;
      // Small ones and large ones by turns.
      for (; count < 4 && at < rest.size(); ++count) {
        const std::string_view one =
            rest.substr(at, count % 2 == 0 ? 100 : kPiece);
        pieces[count] = {const_cast<char*>(one.data()), one.size()};
        at += one.size();
      }
      const long more = pair.stream->Send(pieces.data(), count);
      ASSERT_NE(more, ByteStream::kBroken);
      if (more > 0) taken += static_cast<size_t>(more);
      if (more == ByteStream::kLater) ++waits;
    } else {
      ASSERT_NE(pair.stream->Send(nullptr, 0), ByteStream::kBroken);
    }
    EXPECT_LE(taken - heard.size(), (512u << 10));
    client.Give(TakeAll(pair));
    heard += client.Read();
  }
  EXPECT_EQ(heard == sent, true);
  EXPECT_GT(waits, 10);
  EXPECT_FALSE(pair.stream->OwesBytes());
}

TEST_P(EachVersion, WhoStopsOnTheWay) {
  Pair pair = Open();
  TlsClient client(Client());
  client.Shake();
  const std::string hello = client.TakeOutput();
  ASSERT_TRUE(SendAll(pair, hello.substr(0, hello.size() / 2)));
  EXPECT_EQ(Receive(pair), ByteStream::kLater);
  EXPECT_EQ(Receive(pair), ByteStream::kLater);
  pair.stream.reset();
  EXPECT_EQ(Failures("unfinished"), 1);

  pair = Open();
  TlsClient other(Client());
  other.Shake();
  ASSERT_TRUE(SendAll(pair, other.TakeOutput()));
  EXPECT_EQ(Receive(pair), ByteStream::kLater);
  pair.peer = FileDescriptor(-1);
  EXPECT_LE(Receive(pair), 0);
  EXPECT_EQ(Failures("closed"), 1);
  pair.stream.reset();
  EXPECT_EQ(Failures("unfinished"), 1);  // once is enough
}

// The socket takes nothing of what the server has to say: it waits.
TEST_P(EachVersion, WhoDoesNotReadTheHandshake) {
  const Pair pair = Open(4 << 10);
  const std::string filler(64 << 10, 'x');
  while (send(pair.stream->descriptor(), filler.data(), filler.size(),
              MSG_NOSIGNAL) > 0) {
  }
  while (send(pair.stream->descriptor(), filler.data(), 1, MSG_NOSIGNAL) > 0) {
  }
  TlsClient client(Client());
  client.Shake();
  ASSERT_TRUE(SendAll(pair, client.TakeOutput()));
  EXPECT_EQ(Receive(pair), ByteStream::kLater);
  EXPECT_TRUE(pair.stream->OwesBytes());
  TakeAll(pair);
  EXPECT_EQ(pair.stream->Send(nullptr, 0), ByteStream::kLater);
  EXPECT_FALSE(pair.stream->OwesBytes());
  ASSERT_TRUE(Shake(pair, client));
}

TEST_P(EachVersion, GarbageWithinTheHandshake) {
  const Pair pair = Open();
  TlsClient client(Client());
  client.Shake();
  std::string hello = client.TakeOutput();
  for (size_t i = 5; i < hello.size(); ++i) hello[i] = '\x5a';
  ASSERT_TRUE(SendAll(pair, hello));
  EXPECT_EQ(Receive(pair), ByteStream::kBroken);
  EXPECT_EQ(Receive(pair), ByteStream::kBroken);
  EXPECT_EQ(Send(pair, "x"), ByteStream::kBroken);
  EXPECT_EQ(Failures("other"), 1);
}

TEST_P(EachVersion, GarbageBehindTheHandshakeLeavesNothingForTheNext) {
  Pair broken = Open();
  const Pair next = Open();
  TlsClient client(Client()), other(Client());
  ASSERT_TRUE(Shake(broken, client));
  ASSERT_TRUE(Shake(next, other));
  client.Write("a record");
  std::string record = client.TakeOutput();
  record.back() ^= 1;
  ASSERT_TRUE(SendAll(broken, record));
  EXPECT_EQ(Receive(broken), ByteStream::kBroken);
  EXPECT_EQ(Send(broken, "x"), ByteStream::kBroken);
  broken.stream.reset();
  EXPECT_EQ(Send(next, "mine"), 4);
  other.Give(TakeAll(next));
  EXPECT_EQ(other.Read(), "mine");
}

// Version 1.2's way to new keys is refused, and who insists is cut off.
TEST_F(TlsStreamTest, NoRenegotiation) {
  const Pair pair = Open();
  TlsClientOptions options;
  options.version = TLS1_2_VERSION;
  TlsClient client(options);
  ASSERT_TRUE(Shake(pair, client));
  ASSERT_EQ(SSL_renegotiate(client.ssl()), 1);
  client.Shake();
  ASSERT_TRUE(SendAll(pair, client.TakeOutput()));
  EXPECT_EQ(Receive(pair), ByteStream::kLater);
  client.Give(TakeAll(pair));
  EXPECT_FALSE(client.Shake());
  EXPECT_EQ(ERR_GET_REASON(ERR_peek_last_error()), SSL_R_NO_RENEGOTIATION);
  // The connection is as it was.
  EXPECT_EQ(Send(pair, "still here"), 10);
}

// Version 1.3's.
TEST_F(TlsStreamTest, WhoRenewsKeysAgainAndAgain) {
  const Pair pair = Open();
  TlsClient client;
  ASSERT_TRUE(Shake(pair, client));
  int renewed = 0;
  long outcome = ByteStream::kLater;
  for (; renewed < 1'000 && outcome != ByteStream::kFlooded; ++renewed) {
    ASSERT_EQ(SSL_key_update(client.ssl(), SSL_KEY_UPDATE_REQUESTED), 1);
    client.Write("x");
    ASSERT_TRUE(SendAll(pair, client.TakeOutput()));
    outcome = Receive(pair);
    client.Give(TakeAll(pair));
    client.Read();
  }
  EXPECT_EQ(outcome, ByteStream::kFlooded);
  EXPECT_GT(renewed, 50);
  EXPECT_LT(renewed, 200);
}

TEST_F(TlsStreamTest, PlainText) {
  const Pair pair = Open();
  ASSERT_TRUE(SendAll(pair, "PRI * HTTP/2.0\r\n\r\n"));
  EXPECT_EQ(Receive(pair), ByteStream::kBroken);
  EXPECT_EQ(Failures("plain_text"), 1);
}

TEST_F(TlsStreamTest, AnotherProtocolOrNone) {
  TlsClientOptions options;
  options.alpn = std::string("\10http/1.1");
  EXPECT_FALSE(IsLetIn(options));
  options.alpn = "";
  EXPECT_FALSE(IsLetIn(options));
  EXPECT_EQ(Failures("alpn"), 2);
  options.alpn = std::string("\10http/1.1\2h2");
  EXPECT_TRUE(IsLetIn(options));
}

TEST_F(TlsStreamTest, WhichClientsAreLetIn) {
  asks_clients_ = true;
  names_ = {"*.example.com", "spiffe://cluster/a"};
  const TestAuthority another;
  const auto outcome = [this](const Identity& client) {
    std::string all;
    for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
      TlsClientOptions options;
      options.own = &client;
      options.version = version;
      all += IsLetIn(options) ? "in " : "out ";
    }
    return all;
  };
  EXPECT_EQ(outcome(authority_.Sign("DNS:a.example.com")), "in in ");
  EXPECT_EQ(outcome(authority_.Sign("URI:spiffe://cluster/a")), "in in ");
  EXPECT_EQ(outcome(another.Sign("DNS:a.example.com")), "out out ");
  EXPECT_EQ(Failures("certificate"), 2);
  EXPECT_EQ(outcome(authority_.Sign("DNS:a.example.com", -1)), "out out ");
  EXPECT_EQ(Failures("expired"), 2);
  EXPECT_EQ(outcome(authority_.Sign("")), "out out ");
  EXPECT_EQ(outcome(authority_.Sign("DNS:example.com,DNS:a.b.example.com")),
            "out out ");
  EXPECT_EQ(outcome(authority_.Sign("email:a@a.example.com")), "out out ");
  EXPECT_EQ(outcome(authority_.Sign("IP:127.0.0.1")), "out out ");
  EXPECT_EQ(Failures("name"), 8);
  EXPECT_FALSE(IsLetIn({}));
  EXPECT_EQ(Failures("no_certificate"), 1);
}

// A stream lives on with what it began with; what is wrong is not used.
TEST_F(TlsStreamTest, FilesThatAreHalfWritten) {
  const auto shown = [this] {
    const Pair pair = Open();
    TlsClient client;
    EXPECT_TRUE(Shake(pair, client));
    const TestCertificate own(SSL_get1_peer_certificate(client.ssl()));
    return ASN1_INTEGER_get(X509_get0_serialNumber(own.get()));
  };
  const auto reloads = [this](const std::string& outcome) {
    return MetricValue(metrics_, "stoker_tls_reloads_total",
                       {{"outcome", outcome}});
  };
  const long old = shown();
  const Pair open = Open();
  TlsClient client;
  ASSERT_TRUE(Shake(open, client));
  const Identity fresh = authority_.Sign("DNS:localhost");
  const std::string certificate = fresh.CertificatePem();
  const std::string key = fresh.KeyPem();
  int failed = 0;
  const auto try_it = [&](const std::string& what) {
    Tls().Look();
    EXPECT_EQ(reloads("failed"), ++failed) << what;
    EXPECT_EQ(shown(), old) << what;
  };
  for (size_t cut = 0; cut < certificate.size() - 30; cut += 97) {
    CertificateFiles::Write(files_.certificate, certificate.substr(0, cut));
    Tls().Look();
    EXPECT_EQ(shown(), old) << cut;
  }
  failed = static_cast<int>(reloads("failed"));
  EXPECT_GE(failed, 1);
  CertificateFiles::Write(files_.certificate, certificate);
  try_it("the other's key");
  CertificateFiles::Write(files_.key, key.substr(0, key.size() / 2));
  try_it("half a key");
  unlink(files_.key.c_str());
  try_it("no key");
  CertificateFiles::Write(files_.key, key);
  Tls().Look();
  EXPECT_EQ(reloads("ok"), 1);
  EXPECT_NE(shown(), old);
  Tls().Look();
  EXPECT_EQ(reloads("ok"), 1);
  EXPECT_EQ(Send(open, "as before"), 9);
  open.stream->Send(nullptr, 0);
  client.Give(TakeAll(open));
  EXPECT_EQ(client.Read(), "as before");
}

}  // namespace
}  // namespace stoker
