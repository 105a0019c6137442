// Decides whether the server can afford a request, and tells a refused client
// when to come back.
//
// Every request holds bytes from its headers on until its answer has been sent:
// the call, its message, what is copied of it, its answer. All of them together
// stay below one ceiling, whatever clients send. What one model's requests may
// hold is as much as is still free for all (dynamic thresholds; Choudhury and
// Hahne, "Dynamic queue length thresholds for shared-memory packet switches",
// 1998): one flooded model gets half of the memory, two a third each, and there
// is always room for the others.
//
// Thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "metrics/metrics.h"

namespace stoker {

// Why a request was refused that might be answered at another time; the label
// `reason` of the metric.
enum class Refusal {
  kMemory,        // all requests together hold too much
  kModelMemory,   // those of its model do
  kQueue,         // its queue is full, or its model stops
  kQueueTimeout,  // it waited for too long
  kStalled,       // its client did not send or take what was due
};

class Admission {
 public:
  // What a call takes besides its messages: the transport's part and ours.
  static constexpr size_t kCallBytes = 16 << 10;

  // `max_bytes`: the ceiling.
  Admission(size_t max_bytes, MetricRegistry& metrics);

  class Ticket;

  // What holds memory and waits for its client.
  enum class Idle {
    kMessages,  // that have begun to arrive and are not whole
    kStreams,   // calls that stay open: streams of inferences, watches
  };

  // Counts a refusal; `model` is empty where it is not known, else one of the
  // repository's.
  void CountRefusal(std::string_view model, Refusal reason)
      ABSL_LOCKS_EXCLUDED(mu_);

  size_t bytes() const ABSL_LOCKS_EXCLUDED(mu_);
  size_t max_bytes() const { return max_bytes_; }
  // The largest message that can be admitted at all.
  size_t max_message_bytes() const;

 private:
  // Of a model; the nameless one's: of all requests.
  struct Account {
    std::string model;
    size_t bytes = 0;
    absl::Duration answer_time = absl::Milliseconds(100);  // moving average
    std::map<Refusal, Counter> refusals;
  };

  Account& AccountOf(std::string_view model) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void CountLocked(Account& account, Refusal reason)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const size_t max_bytes_;
  MetricRegistry& metrics_;

  mutable absl::Mutex mu_;
  std::array<size_t, 2> idle_ ABSL_GUARDED_BY(mu_) = {};  // by kind
  Gauge gauge_ ABSL_GUARDED_BY(mu_);
  // Accounts are never removed: models come from the repository.
  std::map<std::string, std::unique_ptr<Account>, std::less<>> accounts_
      ABSL_GUARDED_BY(mu_);
  Account& all_ ABSL_GUARDED_BY(mu_);
};

// What one request holds; gives it back when destroyed. Outlived by the
// Admission. Its methods may be called from any thread, one at a time.
class Admission::Ticket {
 public:
  explicit Ticket(Admission& admission) : admission_(admission) {}
  ~Ticket() {
    Busy();
    Resize(0);
  }
  Ticket(const Ticket&) = delete;
  Ticket& operator=(const Ticket&) = delete;

  // RESOURCE_EXHAUSTED, and nothing is taken, when there is no room; with a
  // retry hint where waiting helps. Counted.
  absl::Status Take(size_t bytes);
  // As Take, for bytes of which nobody knows when they are given back. All of
  // a kind may hold as much together as is still free for all: whoever sends
  // half messages only, or opens streams and says nothing, leaves half of the
  // memory to the others. A ticket has one kind at a time.
  absl::Status TakeIdle(Idle kind, size_t bytes);
  // The message is whole: its bytes are like all others from now on.
  void Busy();
  // From now on the request's bytes are the model's too. As Take.
  absl::Status Assign(std::string_view model);
  // Holds `bytes` from now on: less than before, or what can't be refused any
  // more.
  void Resize(size_t bytes);
  size_t bytes() const { return bytes_; }
  // Whether no other request holds anything.
  bool Alone() const;

  // Counts the refusal and adds a retry hint to its status: a client that waits
  // for as long as an answer takes at present finds another queue.
  absl::Status Refuse(Refusal reason, absl::Status status);
  // How long the request took from arrival to answer.
  void RecordAnswer(absl::Duration time);

 private:
  absl::Status CheckLocked(size_t more)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(admission_.mu_);
  absl::Status RefuseLocked(Refusal reason, absl::Status status)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(admission_.mu_);
  void ResizeLocked(size_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(admission_.mu_);

  Admission& admission_;
  Account* account_ = nullptr;  // the model's, once assigned
  size_t bytes_ = 0;
  size_t idle_ = 0;  // of them
  Idle idle_kind_ = Idle::kMessages;
};

}  // namespace stoker
