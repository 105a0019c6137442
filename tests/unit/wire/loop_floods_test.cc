// What floods of calls leave behind, turn by turn of a loop that has no thread.
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <string>

#include "base/file_descriptor.h"
#include "metrics/metrics.h"
#include "tests/fakes/fake_clock.h"
#include "tests/unit/wire/adopted_peer.h"
#include "tests/unit/wire/raw_peer.h"
#include "wire/loop.h"

namespace stoker {
namespace {

// Waits for its message, and counts.
class WaitingCall final : public CallHandler {
 public:
  WaitingCall(Call& call, int& alive) : call_(call), alive_(alive) { ++alive_; }
  ~WaitingCall() override { --alive_; }

  void OnStart() override { call_.ReadSoon(); }
  CallStatus Reserve(size_t) override { return {}; }
  void OnMessage(const ByteChain& message) override { call_.Answer(message); }
  void OnEndOfMessages() override { call_.Finish({}); }
  void OnCancel() override {
    call_.Finish({absl::StatusCode::kCancelled, "", ""});
  }

 private:
  Call& call_;
  int& alive_;
};

class LoopFloodsTest : public ::testing::Test {
 protected:
  ~LoopFloodsTest() override {
    HangUp();
    EXPECT_EQ(alive_, 0);
  }
  // And the loop has seen it.
  void HangUp() {
    peer_ = FileDescriptor(-1);
    for (int i = 0; i < 20; ++i) Turn();
  }
  // One whose next bytes are HTTP/2's first.
  void Connect() {
    peer_ = ConnectTo(loop_, peers_);
    unsent_ = RawPeer::Preface();
    stream_ = 1;
  }
  // Sends calls until the server takes no more, at most so many bytes; those
  // that it took.
  size_t Ask(const std::string& method, size_t most) {
    size_t taken = 0;
    for (int still = 0; still < 100 && taken < most;) {
      while (unsent_.size() < 64 << 10) {
        unsent_ += RawPeer::Frame(RawFrame::kHeaders, kEndHeaders, stream_,
                                  RawPeer::RequestHeaders(method));
        stream_ += 2;
      }
      const ssize_t more =
          send(peer_.get(), unsent_.data(), unsent_.size(), MSG_NOSIGNAL);
      still = more > 0 ? 0 : still + 1;
      if (more > 0) {
        taken += static_cast<size_t>(more);
        unsent_.erase(0, static_cast<size_t>(more));
      }
      Turn();
    }
    return taken;
  }
  size_t Read() {
    size_t all = 0;
    std::array<char, 65536> memory;
    for (int still = 0; still < 100;) {
      const ssize_t more = recv(peer_.get(), memory.data(), memory.size(), 0);
      still = more > 0 ? 0 : still + 1;
      if (more > 0) all += static_cast<size_t>(more);
      Turn();
    }
    return all;
  }
  void Turn() {
    loop_.Turn(0);
    most_alive_ = std::max(most_alive_, alive_);
  }

  FakeClock clock_;
  MetricRegistry metrics_;
  WireMetrics wire_metrics_{metrics_};
  Peers peers_;
  int alive_ = 0, most_alive_ = 0;
  const MakeHandler make_ = [this](Call& call) -> std::unique_ptr<CallHandler> {
    if (call.method() == "/nobody/Knows") return nullptr;
    return std::make_unique<WaitingCall>(call, alive_);
  };
  const std::function<void()> on_stall_ = [] {};
  WireLoop loop_{"test", {}, make_, wire_metrics_, on_stall_, clock_};
  FileDescriptor peer_{-1};
  std::string unsent_;
  uint32_t stream_ = 1;
};

// Answers that nobody reads wait in memory, which has to end somewhere.
TEST_F(LoopFloodsTest, WhoReadsNothingIsNotRead) {
  constexpr size_t kMost = 32 << 20;
  Connect();
  EXPECT_LT(Ask("/nobody/Knows", kMost), 4u << 20);
  // It reads at last, and all goes on.
  EXPECT_GT(Read(), 100'000u);
  EXPECT_GT(Ask("/nobody/Knows", kMost), 100'000u);
}

// Calls of connections that are over are gone before as many others have come.
TEST_F(LoopFloodsTest, CallsDoNotOutliveTheirConnectionsForLong) {
  constexpr size_t kBytes = 1 << 20;  // 7,000 calls
  for (int i = 0; i < 5; ++i) {
    Connect();
    EXPECT_GE(Ask("/a/Call", kBytes), kBytes);
  }
  EXPECT_GT(most_alive_, 5'000);
  EXPECT_LT(most_alive_, 15'000);
}

}  // namespace
}  // namespace stoker
