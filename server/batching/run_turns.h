// The turns that a run needs before it may begin: one on its device, and one on
// each named resource that its model asks for. Each of them is shared by weight
// for itself (batching/device_turns.h).
//
// They are taken one after the other, resources in the order of their names and
// the device last, by everybody: so nobody waits for what is held by somebody
// who waits for him, and no core is kept for a run that waits for a resource.
//
// Thread-safe, but for a Turn, which is one thread's.
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "batching/device_turns.h"
#include "metrics/metrics.h"

namespace stoker {

// Of one device, for the runs of one model.
struct RunDemand {
  struct Resource {
    std::string name;  // in metrics
    DeviceTurns* turns = nullptr;
    int count = 1;  // of it, for each run
  };
  std::string device;  // in metrics
  DeviceTurns* turns = nullptr;
  std::vector<Resource> resources = {};  // in everybody's order
};

class RunTurns {
 public:
  // What is behind the demand's pointers outlives this object's Leave. `share`:
  // of the device. `labels`: of the model, in metrics.
  RunTurns(const RunDemand& demand, int share, double weight,
           MetricSource& metrics, const Labels& labels);

  // Ends with its object, which the RunTurns outlive.
  class Turn {
   public:
    Turn() = default;
    Turn(Turn&& other) noexcept { *this = std::move(other); }
    Turn& operator=(Turn&& other) noexcept;
    ~Turn() { End(); }

    bool empty() const { return parts_.empty(); }
    void End();
    // Ends it and asks for the next in the same moment; whether it has come,
    // too. Else Complete has to be called before anything runs.
    bool Renew();

   private:
    friend class RunTurns;
    absl::InlinedVector<DeviceTurns::Turn, 2> parts_;  // as clients_
  };

  // No turn is asked for any more: what there is for others doesn't depend on
  // this model. Idempotent; by one thread.
  void Leave();

  // Takes what the turn lacks: all of it where it is empty. Blocks until it
  // has come.
  void Complete(Turn& turn);
  // The turn, where it can be had at once without passing by anyone.
  std::optional<Turn> TryTake();

 private:
  std::deque<DeviceTurns::Client> clients_;  // in the order of taking
};

}  // namespace stoker
