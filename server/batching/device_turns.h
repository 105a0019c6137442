// Turns on what several models share: how much of it a run takes, and whose run
// is next. A CPU is counted in cores, a GPU in runs that it takes at a time, a
// named resource of model.yaml in units; all are capacity here. A run that
// takes turns on several of them: batching/run_turns.h.
//
// Who waits gets its turn in the order of virtual start times: a client's
// virtual time advances by what its runs used, divided by its weight, and
// catches up with the others' when it was idle (start-time fair queueing:
// Goyal, Vin and Cheng, SIGCOMM 1996). So of two busy models the one with twice
// the weight gets twice the time, and one that was idle neither owes nor is
// owed. Who has more to run asks for its next turn in the moment in which the
// last one ends (Renew): else two models of one thread each would alternate,
// whatever they weigh, since whose turn ends is not among those who wait.
//
// A run can't be interrupted. One that lasts longer than the others' patience
// lends them what it holds, if there are any that wait: the operating system
// divides the cores from then on, and a run of minutes keeps nobody else from
// being answered.
//
// Thread-safe.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "metrics/metrics.h"

namespace stoker {

class DeviceTurns {
 private:
  struct Waiting;

 public:
  // As much as the client that takes most at a time.
  static constexpr int kAsAsked = 0;

  // The clock outlives this object. `patience`: infinite where runs beside each
  // other must not be more than fit.
  DeviceTurns(int capacity, Clock& clock,
              absl::Duration patience = absl::InfiniteDuration());

  // From now on these show the capacity, and what of it is taken.
  void Show(Gauge capacity, Gauge taken) ABSL_LOCKS_EXCLUDED(mu_);

  // What is recorded of a client's turns: seconds times its share, and seconds.
  struct Record {
    std::optional<Counter> held;
    std::optional<Counter> waited;
  };

  // One that asks for turns: a model version. The turns outlive its Leave.
  class Client {
   public:
    // `share` of the capacity for each turn; more than there is counts as all.
    Client(DeviceTurns& turns, int share, double weight, Record record = {});
    Client(const Client&) = delete;
    Client& operator=(const Client&) = delete;

    // Asks for no turn any more. Idempotent.
    void Leave();

   private:
    friend class DeviceTurns;
    DeviceTurns& turns_;
    const int share_;
    const double weight_;
    Record record_;            // guarded by turns_.mu_
    double virtual_time_ = 0;  // the same
    int active_ = 0;           // turns held or waited for; the same
    bool left_ = false;        // used by one thread
  };

  // Ends with its object.
  class Turn {
   public:
    Turn();
    Turn(Turn&& other) noexcept;
    Turn& operator=(Turn&& other) noexcept;
    ~Turn();

    // Neither has come nor was asked for.
    bool empty() const { return client_ == nullptr; }
    // Ends it, or asks for it no more.
    void End();
    // Ends it and asks for the client's next in the same moment; whether that
    // has come, too. Else Await has to be called.
    bool Renew();
    // Blocks until it has come.
    void Await();

   private:
    friend class DeviceTurns;
    Turn(Client* client, MonotonicTime start);
    Client* client_ = nullptr;
    MonotonicTime start_;             // tells the client's turns apart
    std::unique_ptr<Waiting> asked_;  // null: it has come
  };

  // Blocks until the client's turn comes.
  static Turn Take(Client& client);
  // The turn, where it can be had at once without passing by anyone.
  static std::optional<Turn> TryTake(Client& client);
  // Turns that are waited for.
  int waiting() const ABSL_LOCKS_EXCLUDED(mu_);
  // That have not left.
  int clients() const ABSL_LOCKS_EXCLUDED(mu_);
  // Nobody has a turn or waits for one.
  bool idle() const ABSL_LOCKS_EXCLUDED(mu_);
  // Turns that were asked for, ever.
  uint64_t asked() const ABSL_LOCKS_EXCLUDED(mu_);

 private:
  struct Waiting {
    Client* client;
    MonotonicTime since;
    std::optional<MonotonicTime> granted;
  };
  struct Held {
    const Client* client;
    MonotonicTime start;
    bool lent = false;
  };
  // The share that the client gets.
  int Join(int share) ABSL_LOCKS_EXCLUDED(mu_);
  void Leave(int share) ABSL_LOCKS_EXCLUDED(mu_);
  void FitCapacityLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void ShowLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // The client has, or waits for, one turn more.
  void AddLocked(Client& client) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void GrantLocked(Client& client, MonotonicTime now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // To all who are due.
  void GrantNextLocked(MonotonicTime now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Await(Waiting& waiting) ABSL_LOCKS_EXCLUDED(mu_);
  // Turns that have lasted too long by now lend what they hold.
  void LendLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // When the next will have.
  MonotonicTime NextLoanLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Nobody is granted what that leaves.
  void EndLocked(Client& client, MonotonicTime start, MonotonicTime now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void End(Client& client, MonotonicTime start) ABSL_LOCKS_EXCLUDED(mu_);
  // Ends that one and asks for this one; whether it is granted.
  bool Renew(MonotonicTime start, Waiting& waiting) ABSL_LOCKS_EXCLUDED(mu_);
  // It is asked for no more.
  void Forgo(Waiting& waiting) ABSL_LOCKS_EXCLUDED(mu_);

  const bool as_asked_;
  Clock& clock_;
  const absl::Duration patience_;
  mutable absl::Mutex mu_;
  int capacity_ ABSL_GUARDED_BY(mu_);
  int free_ ABSL_GUARDED_BY(mu_);  // below 0 while what shrank is held
  std::multiset<int> shares_ ABSL_GUARDED_BY(mu_);  // of all clients
  std::optional<Gauge> shows_capacity_ ABSL_GUARDED_BY(mu_);
  std::optional<Gauge> shows_taken_ ABSL_GUARDED_BY(mu_);
  int active_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t asked_ ABSL_GUARDED_BY(mu_) = 0;
  double virtual_now_ ABSL_GUARDED_BY(mu_) = 0;
  std::list<Waiting*> waiting_ ABSL_GUARDED_BY(mu_);  // in order of arrival
  std::vector<Held> held_ ABSL_GUARDED_BY(mu_);
};

}  // namespace stoker
