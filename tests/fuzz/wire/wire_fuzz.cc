#include "tests/fuzz/wire/wire_fuzz.h"

#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "base/clock.h"
#include "base/file_descriptor.h"
#include "metrics/metrics.h"
#include "wire/byte_stream.h"
#include "wire/connection.h"
#include "wire/frame_meter.h"
#include "wire/loop.h"

namespace stoker {
namespace {

constexpr size_t kMaxInput = 100'000;
constexpr size_t kMaxReserved = 1 << 20;
constexpr int kTurns = 40;

// Gives back what it gets, in one of two ways.
class EchoHandler final : public CallHandler {
 public:
  EchoHandler(Call& call, WireOutcome& outcome, int& open)
      : call_(call), outcome_(outcome), open_(open) {
    ++open_;
    ++outcome_.calls;
  }
  ~EchoHandler() override { --open_; }

 private:
  bool streams() const { return call_.method() == "/s"; }

  void OnStart() override { streams() ? call_.Read() : call_.ReadSoon(); }
  CallStatus Reserve(size_t bytes) override {
    reserved_ += bytes;
    if (reserved_ <= kMaxReserved) return {};
    return {absl::StatusCode::kResourceExhausted, "full", "details"};
  }
  void OnMessage(const ByteChain& message) override {
    ++outcome_.messages;
    reserved_ = 0;
    streams() ? call_.Write(message) : call_.Answer(message);
  }
  void OnEndOfMessages() override { call_.Finish({}); }
  void OnWritten(bool ok) override {
    ok ? call_.Read() : call_.Finish({absl::StatusCode::kCancelled, "", ""});
  }
  void OnCancel() override {
    call_.Finish({absl::StatusCode::kCancelled, "", ""});
  }

  Call& call_;
  WireOutcome& outcome_;
  int& open_;
  size_t reserved_ = 0;
};

void Hold(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "broken: %s\n", what);
  std::abort();
}

}  // namespace

WireOutcome FuzzWire(const uint8_t* data, size_t size) {
  static MetricRegistry& registry = *new MetricRegistry();
  static WireMetrics& metrics = *new WireMetrics(registry);
  static Peers& peers = *new Peers();
  WireOutcome outcome;
  int open = 0;
  const MakeHandler make = [&](Call& call) -> std::unique_ptr<CallHandler> {
    if (call.method() == "/none") return nullptr;
    return std::make_unique<EchoHandler>(call, outcome, open);
  };
  const std::function<void()> on_stall = [] {};
  WireLimits limits;
  limits.max_message_bytes = kMaxReserved;
  limits.useless_frames = 200;
  limits.max_waiting_calls = 50;
  WireLoop loop("fuzz", limits, make, metrics, on_stall, Clock::Real());

  int pair[2];
  Hold(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair) == 0,
       "expected a pair of sockets");
  FileDescriptor peer(pair[0]);
  const MakeConnection grpc = &Connection::Make;
  loop.Adopt(peers.Enter(""), [&grpc, socket = FileDescriptor(pair[1])](
                                  WireLoop& its, PeerTicket ticket) mutable {
    return grpc(its, std::make_unique<SocketStream>(std::move(socket)),
                std::move(ticket));
  });
  std::string bytes = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
  bytes.append("\0\0\0\4\0\0\0\0\0", 9);
  bytes.append(reinterpret_cast<const char*>(data), std::min(size, kMaxInput));
  FrameMeter meter;
  size_t sent = 0;
  for (int turn = 0; turn < kTurns; ++turn) {
    const ssize_t more = send(peer.get(), bytes.data() + sent,
                              bytes.size() - sent, MSG_NOSIGNAL);
    if (more > 0) {
      meter.Add(std::string_view(bytes).substr(sent, static_cast<size_t>(more)),
                [&](const FrameMeter::Head&) { ++outcome.frames; });
      sent += static_cast<size_t>(more);
    }
    loop.Turn(0);
    std::array<char, 65536> taken;
    if (recv(peer.get(), taken.data(), taken.size(), 0) == 0) {
      outcome.hung_up = true;
    }
  }
  peer = FileDescriptor(-1);
  for (int turn = 0; turn < kTurns && open > 0; ++turn) loop.Turn(0);
  for (int turn = 0; turn < 3; ++turn) loop.Turn(0);
  Hold(open == 0, "a call outlived its connection");
  return outcome;
}

}  // namespace stoker
