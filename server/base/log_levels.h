// Which messages of base/log.h are written. May change while the process runs.
//
// Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <string_view>

namespace stoker::log {

// Each on its own, as Triton has them; critical messages are always written.
struct Levels {
  uint32_t verbose = 0;  // debug messages are written unless 0
  bool info = true;
  bool warning = true;
  bool error = true;

  // "debug", "info", "warn" or "error", the least that is written.
  static Levels From(std::string_view least);
  bool operator==(const Levels&) const = default;
};

Levels CurrentLevels();
void SetLevels(const Levels& levels);

// Where they are kept. A library with a copy of this room goes by those of the
// program that opened it once that has told it to; they outlive it.
using LevelWord = std::atomic<uint64_t>;
LevelWord& KeptLevels();
void ShareLevels(LevelWord& kept);

}  // namespace stoker::log
