#include "wire/loop.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>

#include "wire/stream_call.h"

namespace stoker {
namespace {

constexpr absl::Duration kLongestTick = absl::Milliseconds(250);
constexpr int kTicksPerLimit = 8;

constexpr int kEventsPerTurn = 64;

constexpr size_t kScratchBytes = 64 << 10;

// What one connection's calls may take of the thread before the next has its
// turn. A single message's reading and quick run come on top.
constexpr absl::Duration kSlice = absl::Microseconds(300);

// What handshakes may take of a turn; the one that has begun goes on to its
// end.
constexpr absl::Duration kHandshakeSlice = absl::Microseconds(500);

// How many calls of connections that are over are told of it before the time is
// looked at.
constexpr int kOrphansAtOnce = 16;

}  // namespace

WireLoop::WireLoop(std::string name, const WireLimits& limits,
                   const MakeHandler& make_handler, WireMetrics& metrics,
                   const std::function<void()>& on_stall, Clock& clock)
    : name_(std::move(name)),
      limits_(limits),
      make_handler_(make_handler),
      metrics_(metrics),
      on_stall_(on_stall),
      clock_(clock),
      epoll_(epoll_create1(EPOLL_CLOEXEC)),
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      tick_interval_(std::clamp(limits.stall_limit / kTicksPerLimit,
                                absl::Duration(absl::Milliseconds(1)),
                                kLongestTick)),
      handshakes_(limits.max_handshakes),
      scratch_(kScratchBytes) {}

WireLoop::~WireLoop() {
  Join();
  CancelCalls();
  while (!orphans_.empty()) ServeOrphans();
  BuryDead();
}

void WireLoop::Start() {
  started_ = true;
  epoll_event event = {};
  event.events = EPOLLIN;
  event.data.ptr = nullptr;  // the wake-up
  epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, wake_.get(), &event);
  thread_ = Thread(name_, [this] { Loop(); });
}

bool WireLoop::OnThread() const {
  return thread_id_.load(std::memory_order_relaxed) ==
         std::this_thread::get_id();
}

void WireLoop::Run(absl::AnyInvocable<void()> work) {
  bool wake = false;
  {
    absl::MutexLock lock(&mu_);
    wake = errands_.empty();
    errands_.push_back(std::move(work));
  }
  if (!wake || OnThread()) return;
  const uint64_t one = 1;
  if (write(wake_.get(), &one, sizeof(one)) < 0) return;  // it is awake
}

void WireLoop::RunErrands() {
  std::vector<absl::AnyInvocable<void()>> errands;
  {
    absl::MutexLock lock(&mu_);
    errands.swap(errands_);
  }
  for (absl::AnyInvocable<void()>& work : errands) work();
}

int WireLoop::Timeout() {
  if (!busy_.empty() || !orphans_.empty() || handshakes_.waiting()) return 0;
  {
    absl::MutexLock lock(&mu_);
    if (!errands_.empty()) return 0;
  }
  const absl::Duration left = next_tick_ - now_;
  return static_cast<int>(
      std::clamp<int64_t>(absl::ToInt64Milliseconds(left) + 1, 1,
                          absl::ToInt64Milliseconds(kLongestTick)));
}

void WireLoop::Loop() {
  while (!ending_) Turn(Timeout());
}

void WireLoop::Turn(int timeout_ms) {
  thread_id_.store(std::this_thread::get_id(), std::memory_order_relaxed);
  std::array<epoll_event, kEventsPerTurn> events;
  const int count =
      epoll_wait(epoll_.get(), events.data(), kEventsPerTurn, timeout_ms);
  now_ = clock_.Now();
  for (int i = 0; i < count; ++i) {
    if (events[i].data.ptr == nullptr) {
      uint64_t ignored = 0;
      if (read(wake_.get(), &ignored, sizeof(ignored)) < 0) continue;
    } else {
      static_cast<EventSource*>(events[i].data.ptr)->OnReady(events[i].events);
    }
  }
  RunErrands();
  ServeHandshakes();
  ServeBusy();
  ServeOrphans();
  if (now_ >= next_tick_) Tick();
  BuryDead();
}

void WireLoop::ServeHandshakes() {
  if (!handshakes_.waiting()) return;
  const MonotonicTime until = clock_.Now() + kHandshakeSlice;
  while (PeerConnection* const next = handshakes_.Next()) {
    next->ShakeHands();
    if (clock_.Now() >= until) return;
  }
}

void WireLoop::ServeBusy() {
  const size_t connections = busy_.size();
  for (size_t i = 0; i < connections && !busy_.empty(); ++i) {
    PeerConnection* const connection = busy_.front();
    busy_.pop_front();
    if (connection->Serve(kSlice)) busy_.push_back(connection);
  }
}

// A call's end costs less than its beginning: with as much of the turn as all
// else had they can't become more and more, however many connections come, open
// calls and go.
void WireLoop::ServeOrphans() {
  if (orphans_.empty()) return;
  const MonotonicTime begun = clock_.Now();
  const MonotonicTime until = begun + std::max(kSlice, begun - now_);
  while (!orphans_.empty() && clock_.Now() < until) {
    for (int i = 0; i < kOrphansAtOnce && !orphans_.empty(); ++i) {
      const std::shared_ptr<StreamCall> call = std::move(orphans_.front());
      orphans_.pop_front();
      call->HappenNow();
    }
  }
}

void WireLoop::Tick() {
  next_tick_ = now_ + tick_interval_;
  for (PeerConnection* connection : connections_) connection->Tick(now_);
}

void WireLoop::Adopt(PeerTicket peer, MakeAdopted make) {
  Run([this, peer = std::move(peer), make = std::move(make)]() mutable {
    if (draining_) return;
    if (peer.all() > limits_.max_connections && !CloseIdlest()) {
      metrics_.Count(Hangup::kLimit);
      return;
    }
    Add(make(*this, std::move(peer)));
  });
}

void WireLoop::Add(std::unique_ptr<PeerConnection> connection) {
  PeerConnection* const added = connection.release();
  connections_.insert(added);
  added->Begin();
}

bool WireLoop::CloseIdlest() {
  PeerConnection* idlest = nullptr;
  for (PeerConnection* connection : connections_) {
    if (!connection->idle()) continue;
    if (idlest == nullptr || connection->last_heard() < idlest->last_heard()) {
      idlest = connection;
    }
  }
  if (idlest == nullptr) return false;
  idlest->HangUp(Hangup::kIdle);
  return true;
}

void WireLoop::Watch(int descriptor, uint32_t events, EventSource& source) {
  epoll_event event = {};
  event.events = events;
  event.data.ptr = &source;
  epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, descriptor, &event);
}

void WireLoop::Rewatch(int descriptor, uint32_t events, EventSource& source) {
  epoll_event event = {};
  event.events = events;
  event.data.ptr = &source;
  epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, descriptor, &event);
}

void WireLoop::Unwatch(int descriptor) {
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, descriptor, nullptr);
}

void WireLoop::Busy(PeerConnection& connection) {
  busy_.push_back(&connection);
}

void WireLoop::Bury(PeerConnection& connection) {
  dead_.push_back(&connection);
  busy_.erase(std::remove(busy_.begin(), busy_.end(), &connection),
              busy_.end());
}

void WireLoop::BuryDead() {
  for (PeerConnection* connection : dead_) {
    connections_.erase(connection);
    delete connection;
  }
  dead_.clear();
}

void WireLoop::Deliver(std::shared_ptr<StreamCall> call) {
  orphans_.push_back(std::move(call));
}

bool WireLoop::Keep(int64_t more) {
  return kept_.fetch_add(more, std::memory_order_relaxed) + more <=
         limits_.max_kept_bytes;
}

WireLoop::Waiting::iterator WireLoop::BeginWaiting(StreamCall& call) {
  if (std::ssize(waiting_) >= limits_.max_waiting_calls) {
    waiting_.front()->EndWaiting();
  }
  return waiting_.insert(waiting_.end(), &call);
}

void WireLoop::Drain() {
  CountAwaited();
  Run([this] {
    TellOfDrain();
    CountOff();
  });
}

void WireLoop::TellOfDrain() {
  draining_ = true;
  for (PeerConnection* connection : connections_) {
    connection->Drain();
    connection->StopCalls();
  }
}

void WireLoop::CancelCalls() {
  // A connection that is over leaves the set only when the turn ends.
  for (PeerConnection* connection : connections_) connection->HangUp();
}

bool WireLoop::AwaitDrained(MonotonicTime deadline) {
  const auto none = [this] {
    mu_.AssertReaderHeld();
    return awaited_ == 0;
  };
  absl::MutexLock lock(&mu_);
  return clock_.AwaitWithDeadline(&mu_, absl::Condition(&none), deadline);
}

void WireLoop::Join() {
  if (!std::exchange(started_, false)) return;
  Run([this] { CancelCalls(); });
  AwaitDrained(MonotonicTime::InfiniteFuture());
  Run([this] { ending_ = true; });
  thread_.Join();
}

void WireLoop::CountAwaited() {
  absl::MutexLock lock(&mu_);
  ++awaited_;
}

void WireLoop::CountOff() {
  absl::MutexLock lock(&mu_);
  --awaited_;
}

}  // namespace stoker
