// Turns on a device that several models share: how much of it a run takes, and
// whose run is next. A CPU is counted in cores, a GPU in runs that it takes at
// a time; both are its capacity here.
//
// Who waits gets its turn in the order of virtual start times: a client's
// virtual time advances by what its runs used, divided by its weight, and
// catches up with the others' when it was idle (start-time fair queueing:
// Goyal, Vin and Cheng, SIGCOMM 1996). So of two busy models the one with twice
// the weight gets twice the time, and one that was idle neither owes nor is
// owed.
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
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/clock.h"

namespace stoker {

class DeviceTurns {
 public:
  // The clock outlives this object. `patience`: infinite where runs beside each
  // other must not be more than fit.
  DeviceTurns(int capacity, Clock& clock,
              absl::Duration patience = absl::InfiniteDuration());

  // One that asks for turns: a model version. The turns outlive it.
  class Client {
   public:
    // `share` of the capacity for each turn; more than there is counts as all.
    Client(DeviceTurns& turns, int share, double weight);

   private:
    friend class DeviceTurns;
    DeviceTurns& turns_;
    const int share_;
    const double weight_;
    double virtual_time_ = 0;  // guarded by turns_.mu_
    int active_ = 0;           // turns held or waited for; the same
  };

  // Ends with its object.
  class Turn {
   public:
    Turn() = default;
    Turn(Turn&& other) noexcept;
    Turn& operator=(Turn&& other) noexcept;
    ~Turn() { End(); }

    void End();

   private:
    friend class DeviceTurns;
    Turn(Client* client, MonotonicTime start)
        : client_(client), start_(start) {}
    Client* client_ = nullptr;
    MonotonicTime start_;  // tells the client's turns apart
  };

  // Blocks until the client's turn comes.
  static Turn Take(Client& client);
  // The turn, where it can be had at once without passing by anyone.
  static std::optional<Turn> TryTake(Client& client);
  // Whether another client has a turn or waits for one.
  static bool Contended(const Client& client);
  // Turns that are waited for.
  int waiting() const ABSL_LOCKS_EXCLUDED(mu_);
  // Nobody has a turn or waits for one.
  bool idle() const ABSL_LOCKS_EXCLUDED(mu_);
  // Turns that were asked for, ever.
  uint64_t asked() const ABSL_LOCKS_EXCLUDED(mu_);

 private:
  struct Waiting {
    Client* client;
    std::optional<MonotonicTime> granted;
  };
  struct Held {
    const Client* client;
    MonotonicTime start;
    bool lent = false;
  };
  // The client has, or waits for, one turn more.
  void AddLocked(Client& client) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void GrantLocked(Client& client, MonotonicTime now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // To all who are due.
  void GrantNextLocked(MonotonicTime now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void AwaitGrantLocked(Waiting& waiting) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Turns that have lasted too long by now lend what they hold.
  void LendLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // When the next will have.
  MonotonicTime NextLoanLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void End(Client& client, MonotonicTime start);

  const int capacity_;
  Clock& clock_;
  const absl::Duration patience_;
  mutable absl::Mutex mu_;
  int free_ ABSL_GUARDED_BY(mu_);
  int active_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t asked_ ABSL_GUARDED_BY(mu_) = 0;
  double virtual_now_ ABSL_GUARDED_BY(mu_) = 0;
  std::list<Waiting*> waiting_ ABSL_GUARDED_BY(mu_);  // in order of arrival
  std::vector<Held> held_ ABSL_GUARDED_BY(mu_);
};

}  // namespace stoker
