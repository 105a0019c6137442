// One thread that waits for its sockets and does all that is to be done for
// them. A connection stays with its loop, and so do its calls.
//
// Thread-safe where it says so; all else is called on the loop's thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_set.h"
#include "absl/functional/any_invocable.h"
#include "absl/synchronization/mutex.h"
#include "base/clock.h"
#include "base/file_descriptor.h"
#include "base/thread.h"
#include "wire/call.h"
#include "wire/handshakes.h"
#include "wire/limits.h"
#include "wire/peer_connection.h"
#include "wire/peers.h"
#include "wire/wire_metrics.h"

namespace stoker {

class StreamCall;

class WireLoop {
 public:
  // Everything passed by reference outlives this object.
  WireLoop(std::string name, const WireLimits& limits,
           const MakeHandler& make_handler, WireMetrics& metrics,
           const std::function<void()>& on_stall, Clock& clock);
  // Join; without Start, its calls end here.
  ~WireLoop();

  void Start();
  // Takes a connection that was accepted, which `make` makes on the thread if
  // there is room for it. Any thread, until Join.
  using MakeAdopted = absl::AnyInvocable<std::unique_ptr<PeerConnection>(
      WireLoop&, PeerTicket)>;
  void Adopt(PeerTicket peer, MakeAdopted make);
  // Runs `work` on the thread, soon, in the order of the calls. Any thread,
  // also the loop's own.
  void Run(absl::AnyInvocable<void()> work) ABSL_LOCKS_EXCLUDED(mu_);
  // Any thread.
  bool OnThread() const;

  // Tells the calls that the server stops, and the peers that no more are
  // taken. Once; any thread.
  void Drain();
  // Waits until no call is left and the peers know that none are taken, and no
  // longer than that. Any thread.
  bool AwaitDrained(MonotonicTime deadline) ABSL_LOCKS_EXCLUDED(mu_);
  // Ends what is left of them for the clients, waits until their handlers are
  // through, and ends the thread. Idempotent; any thread, one at a time.
  void Join() ABSL_LOCKS_EXCLUDED(mu_);

  // ---- on the thread

  // Waits for what happens, for at most that long, and does what is to be done
  // for it. The thread does nothing else; a test may do it instead of a thread.
  void Turn(int timeout_ms) ABSL_LOCKS_EXCLUDED(mu_);

  const WireLimits& limits() const { return limits_; }
  const MakeHandler& make_handler() const { return make_handler_; }
  WireMetrics& metrics() { return metrics_; }
  // A client kept a call waiting for too long.
  void CountStall() { on_stall_(); }
  Clock& clock() { return clock_; }
  // When this turn began.
  MonotonicTime now() const { return now_; }
  bool draining() const { return draining_; }

  void Watch(int descriptor, uint32_t events, EventSource& source);
  void Rewatch(int descriptor, uint32_t events, EventSource& source);
  void Unwatch(int descriptor);

  // There is something to do for it, besides its socket's events.
  void Busy(PeerConnection& connection);
  // One that takes another's place.
  void Add(std::unique_ptr<PeerConnection> connection);
  // It is over; deleted at the end of the turn.
  void Bury(PeerConnection& connection);
  // Something happens to a call whose connection is over.
  void Deliver(std::shared_ptr<StreamCall> call);
  Handshakes& handshakes() { return handshakes_; }
  // Memory that every connection receives into.
  std::vector<char>& scratch() { return scratch_; }

  // Bytes that calls hold which nobody reads yet, beyond a first window. False:
  // there are more now than there may be.
  bool Keep(int64_t more);

  // A call waits for its first message, and does so no more. Each once.
  using Waiting = std::list<StreamCall*>;
  Waiting::iterator BeginWaiting(StreamCall& call);
  void EndWaiting(Waiting::iterator place) { waiting_.erase(place); }

  // What a drain awaits: a call that has arrived, a goodbye that was said; and
  // that it is gone, or was read. Any thread.
  void CountAwaited() ABSL_LOCKS_EXCLUDED(mu_);
  void CountOff() ABSL_LOCKS_EXCLUDED(mu_);

 private:
  void Loop();
  int Timeout() ABSL_LOCKS_EXCLUDED(mu_);
  void RunErrands() ABSL_LOCKS_EXCLUDED(mu_);
  void ServeHandshakes();
  void ServeBusy();
  void ServeOrphans();
  void Tick();
  void TellOfDrain();
  void CancelCalls();
  bool CloseIdlest();
  void BuryDead();

  const std::string name_;
  const WireLimits limits_;
  const MakeHandler& make_handler_;
  WireMetrics& metrics_;
  const std::function<void()>& on_stall_;
  Clock& clock_;
  const FileDescriptor epoll_;
  const FileDescriptor wake_;
  const absl::Duration tick_interval_;

  // On the thread only.
  MonotonicTime now_;
  MonotonicTime next_tick_;
  bool draining_ = false;
  bool ending_ = false;
  absl::flat_hash_set<PeerConnection*> connections_;  // owned
  std::deque<PeerConnection*> busy_;
  std::vector<PeerConnection*> dead_;
  std::deque<std::shared_ptr<StreamCall>> orphans_;
  Handshakes handshakes_;
  Waiting waiting_;                // the first has waited for longest
  std::atomic<int64_t> kept_ = 0;  // a call may die on another thread
  std::vector<char> scratch_;

  absl::Mutex mu_;
  std::vector<absl::AnyInvocable<void()>> errands_ ABSL_GUARDED_BY(mu_);
  int64_t awaited_ ABSL_GUARDED_BY(mu_) = 0;  // by a drain

  std::atomic<std::thread::id> thread_id_;
  bool started_ = false;  // the owner's
  Thread thread_;
};

}  // namespace stoker
