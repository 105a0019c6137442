#include "telemetry/sampler.h"

#include <cmath>
#include <random>

namespace stoker {
namespace {

uint64_t Seed() {
  std::random_device device;
  return uint64_t{device()} << 32 | device();
}

}  // namespace

// SplitMix64.
uint64_t RandomBits() {
  thread_local uint64_t state = Seed();
  state += 0x9E3779B97F4A7C15;
  uint64_t bits = state;
  bits = (bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9;
  bits = (bits ^ (bits >> 27)) * 0x94D049BB133111EB;
  return bits ^ (bits >> 31);
}

void Sampler::Set(double share) {
  share_ = share;
  if (share >= 1) {
    below_ = kEverything;
  } else {
    below_ = share <= 0 ? 0 : static_cast<uint64_t>(std::ldexp(share, 64));
  }
}

}  // namespace stoker
