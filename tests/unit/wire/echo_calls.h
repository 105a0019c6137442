// A server whose calls give back what they get, in the ways that a test asks
// for by the method's name:
//
//   /echo/Now     answers one message on the loop
//   /echo/Later   answers one message on another thread
//   /echo/Peer    answers who asks
//   /echo/Where   answers which CPUs the loop's thread may use
//   /echo/Stream  writes every message back, one at a time
//   /echo/Fail    ends with the message as the status's text, and details
//   /echo/Never   reads one message, and ends when it is cancelled
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/synchronization/mutex.h"
#include "base/clock.h"
#include "base/cpus.h"
#include "base/thread.h"
#include "metrics/metrics.h"
#include "wire/call.h"
#include "wire/wire_server.h"

namespace stoker {

// Does what it is given, on a thread of its own.
class Worker {
 public:
  Worker() : thread_("worker", [this] { Loop(); }) {}
  ~Worker() {
    Do(nullptr);
    thread_.Join();
  }
  void Do(absl::AnyInvocable<void()> work) {
    absl::MutexLock lock(&mu_);
    queue_.push_back(std::move(work));
  }

 private:
  bool HasWork() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return !queue_.empty();
  }
  void Loop() {
    for (;;) {
      std::vector<absl::AnyInvocable<void()>> work;
      {
        absl::MutexLock lock(&mu_);
        mu_.Await(absl::Condition(this, &Worker::HasWork));
        work.swap(queue_);
      }
      for (auto& one : work) {
        if (one == nullptr) return;
        one();
      }
    }
  }

  absl::Mutex mu_;
  std::vector<absl::AnyInvocable<void()>> queue_ ABSL_GUARDED_BY(mu_);
  Thread thread_;
};

// What became of all calls.
struct EchoCounts {
  std::atomic<int> started = 0, cancelled = 0, stopped = 0, ended = 0;
  std::atomic<int64_t> reserved = 0;
  std::atomic<int64_t> may_reserve = INT64_MAX;
  std::atomic<bool> may_go_on = true;  // streams
};

class EchoCall final : public CallHandler {
 public:
  EchoCall(Call& call, EchoCounts& counts, Worker& worker)
      : call_(call), counts_(counts), worker_(worker), way_(call.method()) {}
  ~EchoCall() override { ++counts_.ended; }

  void OnStart() override {
    ++counts_.started;
    way_ == "/echo/Stream" ? call_.Read() : call_.ReadSoon();
  }
  CallStatus Reserve(size_t bytes) override {
    const auto more = static_cast<int64_t>(bytes);
    if (counts_.reserved + more > counts_.may_reserve) {
      return {absl::StatusCode::kResourceExhausted, "no room", ""};
    }
    counts_.reserved += more;
    return {};
  }
  void OnMessage(const ByteChain& message) override {
    if (way_ == "/echo/Now") {
      call_.Answer(message);
    } else if (way_ == "/echo/Later") {
      worker_.Do([this, message, keep = call_.shared_from_this()] {
        call_.Answer(message);
      });
    } else if (way_ == "/echo/Peer") {
      call_.Answer(ByteChain::Copy(call_.peer()->shown()));
    } else if (way_ == "/echo/Where") {
      call_.Answer(ByteChain::Copy(CpuList(UsableCpus())));
    } else if (way_ == "/echo/Stream") {
      call_.Write(message);
    } else if (way_ == "/echo/Fail") {
      call_.Finish({absl::StatusCode::kFailedPrecondition, message.Joined(),
                    std::string("\0\xFF details", 10)});
    }
  }
  void OnEndOfMessages() override { call_.Finish({}); }
  void OnWritten(bool ok) override {
    ok ? call_.Read() : call_.Finish({absl::StatusCode::kCancelled, "", ""});
  }
  void OnCancel() override {
    ++counts_.cancelled;
    call_.Finish({absl::StatusCode::kCancelled, "", ""});
  }
  void OnStop() override { ++counts_.stopped; }
  CallStatus MayGoOn() override {
    if (counts_.may_go_on || way_ != "/echo/Stream") return {};
    return {absl::StatusCode::kPermissionDenied, "no longer", ""};
  }

 private:
  Call& call_;
  EchoCounts& counts_;
  Worker& worker_;
  const std::string way_;
};

class EchoServer {
 public:
  explicit EchoServer(WireOptions options = {}, Clock& clock = Clock::Real()) {
    if (options.address.empty()) options.address = "127.0.0.1:0";
    auto server = WireServer::Start(
        options,
        [this](Call& call) -> std::unique_ptr<CallHandler> {
          if (call.method().rfind("/echo/", 0) != 0) return nullptr;
          return std::make_unique<EchoCall>(call, counts, worker);
        },
        metrics, clock);
    EXPECT_TRUE(server.ok()) << server.status();
    if (server.ok()) wire = *std::move(server);
  }

  int port() const { return wire->port(); }
  double Ended(const std::string& reason) {
    return MetricValue(metrics, "stoker_connections_ended_total",
                       {{"reason", reason}});
  }

  double EndedCalls(const std::string& reason) {
    return MetricValue(metrics, "stoker_calls_ended_total",
                       {{"reason", reason}});
  }

  MetricRegistry metrics;
  EchoCounts counts;
  Worker worker;
  std::unique_ptr<WireServer> wire;
};

}  // namespace stoker
