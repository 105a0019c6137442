#include "rpc/call_loop.h"

#include <algorithm>
#include <utility>

#include "rpc/grpc_time.h"

namespace stoker {
namespace {

// Calls that wait to be matched with one that arrives; each is replaced when it
// is. What arrives beyond them waits for its turn inside gRPC.
constexpr int kAwaited = 32;

constexpr absl::Duration kLongestLook = absl::Seconds(1);
constexpr int kLooksPerLimit = 8;
constexpr int kEventsPerLook = 256;  // at the clock

}  // namespace

CallLoop::CallLoop(const std::string& name, grpc::AsyncGenericService& service,
                   std::unique_ptr<grpc::ServerCompletionQueue> queue,
                   const MethodTable& methods, absl::Duration stall_limit,
                   std::function<void()> on_stall, Clock& clock)
    : service_(service),
      queue_(std::move(queue)),
      methods_(methods),
      stall_limit_(stall_limit),
      look_interval_(std::min(kLongestLook, stall_limit / kLooksPerLimit)),
      on_stall_(std::move(on_stall)),
      clock_(clock),
      name_(name) {}

CallLoop::~CallLoop() {
  if (started_) return;  // and ended by Join
  queue_->Shutdown();
  void* tag = nullptr;
  bool ok = false;
  while (queue_->Next(&tag, &ok)) {
  }
}

void CallLoop::Errand::Run() {
  alarm_.Set(loop_.queue_.get(), gpr_inf_past(GPR_CLOCK_MONOTONIC), tag());
}

void CallLoop::Start() {
  started_ = true;
  for (int i = 0; i < kAwaited; ++i) Call::Await(*this);
  thread_ = Thread(name_, [this] { Loop(); });
}

void CallLoop::Loop() {
  using Queue = grpc::CompletionQueue;
  MonotonicTime look;
  gpr_timespec until{};
  const auto plan = [&](MonotonicTime now) {
    look = now + look_interval_;
    until = GrpcTimeAfter(look_interval_);
  };
  plan(clock_.Now());
  int events = 0;
  for (;;) {
    void* tag = nullptr;
    bool ok = false;
    const Queue::NextStatus status = queue_->AsyncNext(&tag, &ok, until);
    if (status == Queue::SHUTDOWN) return;
    if (status == Queue::GOT_EVENT) {
      static_cast<LoopEvent*>(tag)->Happen(ok);
      // A queue that is never empty never says that it is time.
      if (++events % kEventsPerLook != 0) continue;
    }
    const MonotonicTime now = clock_.Now();
    if (status == Queue::GOT_EVENT && now < look) continue;
    EndStalledCalls(now);
    plan(now);
  }
}

void CallLoop::StopCalls() { tell_of_stop_.Run(); }

void CallLoop::TellOfStop() {
  stopping_ = true;
  for (Call* call = first_; call != nullptr; call = call->next_) call->OnStop();
}

void CallLoop::EndStalledCalls(MonotonicTime now) {
  for (Call* call = first_; call != nullptr; call = call->next_) {
    if (call->EndIfStalled(now)) on_stall_();
  }
}

void CallLoop::Join() {
  {
    const auto none = [this] {
      mu_.AssertReaderHeld();
      return calls_ == 0;
    };
    absl::MutexLock lock(&mu_);
    mu_.Await(absl::Condition(&none));
  }
  end_.Run();
  thread_.Join();
}

void CallLoop::Add(Call& call) {
  call.next_ = first_;
  if (first_ != nullptr) first_->previous_ = &call;
  first_ = &call;
  absl::MutexLock lock(&mu_);
  ++calls_;
}

void CallLoop::Unlink(Call& call) {
  (call.previous_ != nullptr ? call.previous_->next_ : first_) = call.next_;
  if (call.next_ != nullptr) call.next_->previous_ = call.previous_;
  call.previous_ = call.next_ = nullptr;
}

void CallLoop::Remove() {
  absl::MutexLock lock(&mu_);
  --calls_;
}

}  // namespace stoker
