#include "tests/fuzz/http/http_fuzz.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "base/clock.h"
#include "base/file_descriptor.h"
#include "metrics/metrics.h"
#include "wire/byte_stream.h"
#include "wire/http_connection.h"
#include "wire/loop.h"

namespace stoker {
namespace {

constexpr size_t kMaxInput = 100'000;
constexpr size_t kMaxBody = 1 << 20;
constexpr int kTurns = 60;

void Hold(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "broken: %s\n", what);
  std::abort();
}

// Gives back what it gets: at once, when a later turn comes, or before it came.
class EchoHttp final : public HttpHandler {
 public:
  EchoHttp(HttpCall& call, WireLoop& loop, HttpOutcome& outcome, int& open)
      : call_(call), loop_(loop), outcome_(outcome), open_(open) {
    ++open_;
    ++outcome_.requests;
  }
  ~EchoHttp() override { --open_; }

 private:
  void OnStart() override {
    if (call_.head().target == "/early") Answer(404, {});
  }
  CallStatus Reserve(size_t bytes) override {
    reserved_ += bytes;
    if (reserved_ <= 3 * kMaxBody) return {};
    return {absl::StatusCode::kResourceExhausted, "full", "details"};
  }
  void OnBody(const ByteChain& body) override {
    ++outcome_.bodies;
    Hold(body.size() <= reserved_, "a body takes more than was reserved");
    if (call_.head().target != "/later") return Answer(200, body);
    loop_.Run(
        [keep = call_.shared_from_this(), this, body] { Answer(200, body); });
  }
  void OnBadBody(const CallStatus& why) override {
    Answer(why.code == absl::StatusCode::kResourceExhausted ? 413 : 400, {});
  }
  void Answer(int status, const ByteChain& body) {
    HttpAnswer answer;
    answer.status = status;
    answer.body = body;
    call_.Answer(answer);
  }

  HttpCall& call_;
  WireLoop& loop_;
  HttpOutcome& outcome_;
  int& open_;
  size_t reserved_ = 0;
};

}  // namespace

HttpOutcome FuzzHttp(const uint8_t* data, size_t size) {
  static MetricRegistry& registry = *new MetricRegistry();
  static WireMetrics& metrics = *new WireMetrics(registry);
  static Peers& peers = *new Peers();
  HttpOutcome outcome;
  int open = 0;
  const MakeHandler none = [](Call&) { return nullptr; };
  const std::function<void()> on_stall = [] {};
  WireLimits limits;
  limits.max_message_bytes = kMaxBody;
  WireLoop loop("fuzz", limits, none, metrics, on_stall, Clock::Real());
  const MakeConnection http = HttpConnection::Maker([&](HttpCall& call) {
    return std::make_unique<EchoHttp>(call, loop, outcome, open);
  });

  int pair[2];
  Hold(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair) == 0,
       "expected a pair of sockets");
  FileDescriptor peer(pair[0]);
  loop.Adopt(peers.Enter(""), [&http, socket = FileDescriptor(pair[1])](
                                  WireLoop& its, PeerTicket ticket) mutable {
    return http(its, std::make_unique<SocketStream>(std::move(socket)),
                std::move(ticket));
  });
  const std::string bytes(reinterpret_cast<const char*>(data),
                          std::min(size, kMaxInput));
  size_t sent = 0;
  for (int turn = 0; turn < kTurns && !outcome.hung_up; ++turn) {
    const ssize_t more = send(peer.get(), bytes.data() + sent,
                              bytes.size() - sent, MSG_NOSIGNAL);
    if (more > 0) sent += static_cast<size_t>(more);
    loop.Turn(0);
    std::array<char, 65536> taken;
    const ssize_t got = recv(peer.get(), taken.data(), taken.size(), 0);
    if (got > 0) outcome.answers.append(taken.data(), static_cast<size_t>(got));
    outcome.hung_up = got == 0;
  }
  peer = FileDescriptor(-1);
  for (int turn = 0; turn < kTurns && open > 0; ++turn) loop.Turn(0);
  for (int turn = 0; turn < 3; ++turn) loop.Turn(0);
  Hold(open == 0, "a request outlived its connection");
  return outcome;
}

}  // namespace stoker
