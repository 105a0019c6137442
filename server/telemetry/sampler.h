// Chooses a share of what passes at random.
//
// Thread-safe: each thread has random numbers of its own.
#pragma once

#include <atomic>
#include <cstdint>

namespace stoker {

// Good for choices and for names that are not to collide, not for secrets.
uint64_t RandomBits();

class Sampler {
 public:
  // `share`: from 0, nothing, to 1, everything.
  explicit Sampler(double share) { Set(share); }

  void Set(double share);
  double share() const { return share_.load(std::memory_order_relaxed); }

  bool Draw() const {
    const uint64_t below = below_.load(std::memory_order_relaxed);
    return below == kEverything || (below != 0 && RandomBits() < below);
  }

 private:
  static constexpr uint64_t kEverything = UINT64_MAX;
  std::atomic<double> share_ = 0;
  std::atomic<uint64_t> below_ = 0;
};

}  // namespace stoker
