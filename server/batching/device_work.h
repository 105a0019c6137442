// Work that others than the queue have for device threads: which waits for
// which thread, and what became of it. What the work does is the caller's.
//
// Not thread-safe: the batcher's lock guards it. An item lives on the stack of
// whoever waits for it, until it is over or refused.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <vector>

namespace stoker {

class DeviceWork {
 public:
  struct Item {
    enum class State { kWaiting, kOver, kRefused };
    std::function<void()> work;
    State state = State::kWaiting;
  };

  explicit DeviceWork(int threads) : waiting_(static_cast<size_t>(threads)) {}

  bool empty(int thread) const { return Of(thread).empty(); }
  void Add(int thread, Item& item) { Of(thread).push_back(&item); }
  // The first that waits for the thread; null: none does.
  Item* Take(int thread);
  // Ends all that wait; for when the threads end.
  void RefuseAll();

 private:
  std::deque<Item*>& Of(int thread) {
    return waiting_[static_cast<size_t>(thread)];
  }
  const std::deque<Item*>& Of(int thread) const {
    return waiting_[static_cast<size_t>(thread)];
  }

  std::vector<std::deque<Item*>> waiting_;
};

}  // namespace stoker
