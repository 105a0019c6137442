// Chooses a share of what passes at random.
//
// Thread-safe: each thread has random numbers of its own.
#pragma once

#include <cstdint>

namespace stoker {

// Good for choices and for names that are not to collide, not for secrets.
uint64_t RandomBits();

class Sampler {
 public:
  // `share`: from 0, nothing, to 1, everything.
  explicit Sampler(double share);

  bool Draw() const {
    return everything_ || (below_ != 0 && RandomBits() < below_);
  }

 private:
  const bool everything_;
  const uint64_t below_;
};

}  // namespace stoker
