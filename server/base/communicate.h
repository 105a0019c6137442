// Talks with a child process until its end: gives it its input, takes what it
// replies and what it writes to stdout and stderr, all at once, so that no pipe
// is ever full for good.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

#include "absl/time/time.h"
#include "base/subprocess.h"

namespace stoker {

struct Conversation {
  std::string reply;  // from the child's reply pipe, whole
  std::string log;    // the end of its stdout and stderr, 64 to 128 KiB
  std::string end;    // Subprocess::Wait's, or "was silent for 2m"
};

// Writes `input` to the child's stdin and closes it. A child that neither reads
// nor writes for `silence` is killed. `on_reply` is called, on this thread,
// with each piece of the reply as it comes. The caller has SIGPIPE ignored.
Conversation Communicate(
    Subprocess& child, std::string_view input, absl::Duration silence,
    const std::function<void(std::string_view)>& on_reply = nullptr);

// Appends what a child wrote, and keeps at least the last `bytes` of it, at
// most twice as many.
void AppendKeepingEnd(std::string& log, std::string_view piece, size_t bytes);

// The last line that is not empty.
std::string LastLine(const std::string& text);

}  // namespace stoker
