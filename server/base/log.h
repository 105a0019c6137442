// The process's log, a line a message. What writes to it formats nothing
// itself: spdlog's header and fmt's formatting of floating point would
// otherwise be compiled into every file that has something to say.
//
//   log::Warn("{}: recorded traffic is not used: {}", spec.name, why);
//
// Any thread. Where lines go is main's to say, by spdlog's default logger.
#pragma once

#include <fmt/core.h>

#include <utility>

namespace stoker::log {

enum class Level { kDebug, kInfo, kWarn, kError, kCritical };

// Whether a message of that level is written; for messages that are costly to
// put together.
bool Enabled(Level level);

void Write(Level level, fmt::string_view format, fmt::format_args args);

// The format is checked against the arguments when this is compiled.
template <typename... Args>
void Debug(fmt::format_string<Args...> format, Args&&... args) {
  Write(Level::kDebug, format, fmt::make_format_args(args...));
}
template <typename... Args>
void Info(fmt::format_string<Args...> format, Args&&... args) {
  Write(Level::kInfo, format, fmt::make_format_args(args...));
}
template <typename... Args>
void Warn(fmt::format_string<Args...> format, Args&&... args) {
  Write(Level::kWarn, format, fmt::make_format_args(args...));
}
template <typename... Args>
void Error(fmt::format_string<Args...> format, Args&&... args) {
  Write(Level::kError, format, fmt::make_format_args(args...));
}
template <typename... Args>
void Critical(fmt::format_string<Args...> format, Args&&... args) {
  Write(Level::kCritical, format, fmt::make_format_args(args...));
}

}  // namespace stoker::log
