#include "base/log.h"

#include <exception>

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

}  // namespace

bool Enabled(Level level) { return spdlog::should_log(Of(level)); }

void Write(Level level, fmt::string_view format, fmt::format_args args) {
  if (!Enabled(level)) return;
  try {
    spdlog::default_logger_raw()->log(Of(level), fmt::vformat(format, args));
  } catch (const std::exception& error) {  // no memory for the text
    spdlog::default_logger_raw()->log(spdlog::level::err, error.what());
  }
}

}  // namespace stoker::log
