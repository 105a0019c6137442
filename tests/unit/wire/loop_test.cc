// A loop's end.
#include "wire/loop.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "base/file_descriptor.h"
#include "metrics/metrics.h"
#include "tests/unit/wire/adopted_peer.h"
#include "tests/unit/wire/raw_peer.h"

namespace stoker {
namespace {

// Waits for ever.
class OpenCall final : public CallHandler {
 public:
  OpenCall(Call& call, std::atomic<int>& open) : call_(call), open_(open) {
    ++open_;
  }
  ~OpenCall() override { --open_; }

  void OnStart() override { call_.Read(); }
  void OnMessage(const ByteChain&) override {}
  void OnEndOfMessages() override { call_.Finish({}); }
  void OnCancel() override {
    call_.Finish({absl::StatusCode::kCancelled, "", ""});
  }

 private:
  Call& call_;
  std::atomic<int>& open_;
};

class LoopTest : public ::testing::Test {
 protected:
  // A peer with a call that is open.
  void Connect(WireLoop& loop) {
    peer_ = ConnectTo(loop, peers_);
    const std::string hello =
        RawPeer::Preface() + RawPeer::Frame(RawFrame::kHeaders, kEndHeaders, 1,
                                            RawPeer::RequestHeaders("/a/Call"));
    ASSERT_EQ(send(peer_.get(), hello.data(), hello.size(), 0),
              std::ssize(hello));
  }
  std::unique_ptr<WireLoop> MakeLoop() {
    return std::make_unique<WireLoop>("test", WireLimits(), make_,
                                      wire_metrics_, on_stall_, Clock::Real());
  }

  MetricRegistry metrics_;
  WireMetrics wire_metrics_{metrics_};
  Peers peers_;
  std::atomic<int> open_ = 0;
  const MakeHandler make_ = [this](Call& call) {
    return std::make_unique<OpenCall>(call, open_);
  };
  const std::function<void()> on_stall_ = [] {};
  FileDescriptor peer_{-1};
};

TEST_F(LoopTest, WithoutAThreadItsConnectionsAndCallsEndWithIt) {
  std::unique_ptr<WireLoop> loop = MakeLoop();
  Connect(*loop);
  while (open_ == 0) loop->Turn(0);
  EXPECT_EQ(MetricValue(metrics_, "stoker_connections"), 1);
  loop.reset();
  EXPECT_EQ(open_, 0);
  EXPECT_EQ(MetricValue(metrics_, "stoker_connections"), 0);
}

TEST_F(LoopTest, WithAThreadThatNobodyJoined) {
  std::unique_ptr<WireLoop> loop = MakeLoop();
  loop->Start();
  Connect(*loop);
  while (open_ == 0) std::this_thread::yield();
  loop.reset();
  EXPECT_EQ(open_, 0);
  EXPECT_EQ(MetricValue(metrics_, "stoker_connections"), 0);
}

TEST_F(LoopTest, WhoHasAConnectionThatNeverBegan) {
  std::unique_ptr<WireLoop> loop = MakeLoop();
  Connect(*loop);
  loop.reset();
  EXPECT_EQ(open_, 0);
}

}  // namespace
}  // namespace stoker
