#include "base/communicate.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace stoker {
namespace {

constexpr size_t kMaxLog = size_t{64} << 10;

// Whether there may be more to come.
bool Take(int fd, std::string& to) {
  std::array<char, 1 << 16> bytes;
  const ssize_t got = read(fd, bytes.data(), bytes.size());
  if (got > 0) to.append(bytes.data(), static_cast<size_t>(got));
  return got > 0 || (got < 0 && errno == EINTR);
}

// Whether there is more to give.
bool Give(int fd, std::string_view& left) {
  const ssize_t written = write(fd, left.data(), left.size());
  if (written < 0) return errno == EINTR || errno == EAGAIN;
  left.remove_prefix(static_cast<size_t>(written));
  return !left.empty();
}

}  // namespace

Conversation Communicate(
    Subprocess& child, std::string_view input, absl::Duration silence,
    const std::function<void(std::string_view)>& on_reply) {
  Conversation heard;
  enum { kReply, kLog, kInput };
  std::array<pollfd, 3> ends = {{{child.reply_fd(), POLLIN, 0},
                                 {child.stderr_fd(), POLLIN, 0},
                                 {child.stdin_fd(), POLLOUT, 0}}};
  const auto close_input = [&] {
    child.CloseStdin();
    ends[kInput].fd = -1;  // poll passes over it
  };
  if (input.empty()) {
    close_input();
  } else {
    fcntl(child.stdin_fd(), F_SETFL,
          fcntl(child.stdin_fd(), F_GETFL) | O_NONBLOCK);
  }
  const int limit = static_cast<int>(absl::ToInt64Milliseconds(silence));
  while (ends[kReply].fd >= 0 || ends[kLog].fd >= 0) {
    const int ready = poll(ends.data(), ends.size(), limit);
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) {
      child.Kill();
      child.Wait();
      heard.end =
          absl::StrCat("was silent for ", absl::FormatDuration(silence));
      return heard;
    }
    if (ends[kInput].revents != 0 && !Give(ends[kInput].fd, input)) {
      close_input();
    }
    if (ends[kReply].revents != 0) {
      const size_t before = heard.reply.size();
      if (!Take(ends[kReply].fd, heard.reply)) ends[kReply].fd = -1;
      if (on_reply && heard.reply.size() > before) {
        on_reply(std::string_view(heard.reply).substr(before));
      }
    }
    if (ends[kLog].revents != 0 && !Take(ends[kLog].fd, heard.log)) {
      ends[kLog].fd = -1;
    }
    if (heard.log.size() > 2 * kMaxLog) {
      heard.log.erase(0, heard.log.size() - kMaxLog);
    }
  }
  heard.end = child.Wait();
  return heard;
}

std::string LastLine(const std::string& text) {
  std::string last;
  for (const auto line : absl::StrSplit(text, '\n', absl::SkipWhitespace())) {
    last = std::string(line);
  }
  return last;
}

}  // namespace stoker
