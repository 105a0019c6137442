#include "base/communicate.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/process_pipes.h"

namespace stoker {
namespace {

constexpr size_t kMaxLog = size_t{64} << 10;

}  // namespace

Conversation Communicate(
    Subprocess& child, std::string_view input, absl::Duration silence,
    const std::function<void(std::string_view)>& on_reply) {
  Conversation heard;
  ProcessPipes pipes(
      child,
      [&](std::string_view piece) {
        heard.reply.append(piece);
        if (on_reply) on_reply(piece);
      },
      [&](std::string_view piece) {
        AppendKeepingEnd(heard.log, piece, kMaxLog);
      });
  pipes.Give(input);
  pipes.EndInput();
  while (pipes.reply_open() || pipes.log_open()) {
    if (pipes.Serve(silence)) continue;
    child.Kill();
    child.Wait();
    heard.end = absl::StrCat("was silent for ", absl::FormatDuration(silence));
    return heard;
  }
  heard.end = child.Wait();
  return heard;
}

void AppendKeepingEnd(std::string& log, std::string_view piece, size_t bytes) {
  log.append(piece);
  if (log.size() > 2 * bytes) log.erase(0, log.size() - bytes);
}

std::string LastLine(const std::string& text) {
  std::string last;
  for (const auto line : absl::StrSplit(text, '\n', absl::SkipWhitespace())) {
    last = std::string(line);
  }
  return last;
}

}  // namespace stoker
