#include "base/log.h"

#include <atomic>
#include <cstdint>
#include <exception>

#include "base/log_levels.h"
#include "spdlog/spdlog.h"

namespace stoker::log {
namespace {

spdlog::level::level_enum Of(Level level) {
  switch (level) {
    case Level::kDebug:
      return spdlog::level::debug;
    case Level::kInfo:
      return spdlog::level::info;
    case Level::kWarn:
      return spdlog::level::warn;
    case Level::kError:
      return spdlog::level::err;
    case Level::kCritical:
      break;
  }
  return spdlog::level::critical;
}

// Levels in one word, so that they are read and changed together: a bit each,
// and the verbose level above them.
constexpr uint64_t kInfoBit = 1, kWarningBit = 2, kErrorBit = 4;
constexpr int kVerboseShift = 32;

uint64_t Packed(const Levels& levels) {
  return uint64_t{levels.verbose} << kVerboseShift |
         (levels.info ? kInfoBit : 0) | (levels.warning ? kWarningBit : 0) |
         (levels.error ? kErrorBit : 0);
}

std::atomic<LevelWord*>& TheLevels() {
  static LevelWord own = Packed(Levels());
  static std::atomic<LevelWord*> levels = &own;
  return levels;
}

bool IsOn(Level level) {
  const uint64_t levels = KeptLevels().load(std::memory_order_relaxed);
  switch (level) {
    case Level::kDebug:
      return levels >> kVerboseShift != 0;
    case Level::kInfo:
      return (levels & kInfoBit) != 0;
    case Level::kWarn:
      return (levels & kWarningBit) != 0;
    case Level::kError:
      return (levels & kErrorBit) != 0;
    case Level::kCritical:
      break;
  }
  return true;
}

}  // namespace

bool Enabled(Level level) {
  return IsOn(level) && spdlog::should_log(Of(level));
}

void Write(Level level, fmt::string_view format, fmt::format_args args) {
  if (!Enabled(level)) return;
  try {
    spdlog::default_logger_raw()->log(Of(level), fmt::vformat(format, args));
  } catch (const std::exception& error) {  // no memory for the text
    spdlog::default_logger_raw()->log(spdlog::level::err, error.what());
  }
}

Levels Levels::From(std::string_view least) {
  if (least == "debug") return {.verbose = 1};
  return {.info = least == "info",
          .warning = least == "info" || least == "warn"};
}

Levels CurrentLevels() {
  const uint64_t levels = KeptLevels().load(std::memory_order_relaxed);
  return {.verbose = static_cast<uint32_t>(levels >> kVerboseShift),
          .info = (levels & kInfoBit) != 0,
          .warning = (levels & kWarningBit) != 0,
          .error = (levels & kErrorBit) != 0};
}

// The library's own level lets through whatever may be asked for.
void SetLevels(const Levels& levels) {
  spdlog::default_logger_raw()->set_level(spdlog::level::debug);
  KeptLevels().store(Packed(levels), std::memory_order_relaxed);
}

LevelWord& KeptLevels() { return *TheLevels().load(std::memory_order_acquire); }

void ShareLevels(LevelWord& kept) {
  TheLevels().store(&kept, std::memory_order_release);
}

}  // namespace stoker::log
