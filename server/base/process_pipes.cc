#include "base/process_pipes.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

namespace stoker {
namespace {

constexpr size_t kReadBytes = 16 << 10;
constexpr int kMaxReadsInARow = 16;

void SetNonBlocking(int fd) {
  fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
}

// Hands over what can be read without waiting, up to a bound. False at the end.
bool Drain(int fd, const ProcessPipes::Sink& sink) {
  std::array<char, kReadBytes> buffer;
  for (int reads = 0; reads < kMaxReadsInARow; ++reads) {
    const ssize_t got = read(fd, buffer.data(), buffer.size());
    if (got > 0) {
      sink({buffer.data(), static_cast<size_t>(got)});
    } else if (got == 0) {
      return false;
    } else if (errno != EINTR) {
      return errno == EAGAIN;
    }
  }
  return true;
}

// -1 waits for ever. Rounded up, or poll would spin at the end.
int PollTimeout(absl::Duration limit) {
  if (limit == absl::InfiniteDuration()) return -1;
  return static_cast<int>(std::clamp<int64_t>(
      absl::ToInt64Milliseconds(absl::Ceil(limit, absl::Milliseconds(1))), 0,
      std::numeric_limits<int>::max()));
}

}  // namespace

ProcessPipes::ProcessPipes(Subprocess& child, Sink on_reply, Sink on_log)
    : child_(child),
      on_reply_(std::move(on_reply)),
      on_log_(std::move(on_log)) {
  for (const int fd : {child.stdin_fd(), child.reply_fd(), child.stderr_fd()}) {
    SetNonBlocking(fd);
  }
}

void ProcessPipes::Give(std::string_view bytes) {
  if (child_.stdin_fd() < 0) return;
  outbox_.erase(0, std::exchange(taken_, 0));
  outbox_.append(bytes);
}

void ProcessPipes::EndInput() {
  input_ends_ = true;
  if (outbox_.empty()) DropInput();
}

void ProcessPipes::DropInput() {
  outbox_.clear();
  taken_ = 0;
  child_.CloseStdin();
}

bool ProcessPipes::Serve(absl::Duration limit, absl::Span<pollfd> also) {
  // poll passes over negative descriptors.
  const bool writing = child_.stdin_fd() >= 0 && !outbox_.empty();
  std::vector<pollfd> fds = {{reply_open_ ? child_.reply_fd() : -1, POLLIN, 0},
                             {log_open_ ? child_.stderr_fd() : -1, POLLIN, 0},
                             {writing ? child_.stdin_fd() : -1, POLLOUT, 0}};
  const size_t ours = fds.size();
  fds.insert(fds.end(), also.begin(), also.end());
  const int ready = poll(fds.data(), fds.size(), PollTimeout(limit));
  if (ready < 0) return errno == EINTR;
  std::copy(fds.begin() + static_cast<std::ptrdiff_t>(ours), fds.end(),
            also.begin());
  if (fds[2].revents != 0) Write();
  if (fds[0].revents != 0) {
    reply_open_ = Drain(child_.reply_fd(), on_reply_);
  }
  if (fds[1].revents != 0) log_open_ = Drain(child_.stderr_fd(), on_log_);
  return ready > 0;
}

void ProcessPipes::Write() {
  while (taken_ < outbox_.size()) {
    const ssize_t written = write(child_.stdin_fd(), outbox_.data() + taken_,
                                  outbox_.size() - taken_);
    if (written >= 0) {
      taken_ += static_cast<size_t>(written);
    } else if (errno == EAGAIN) {
      return;
    } else if (errno != EINTR) {
      return DropInput();
    }
  }
  outbox_.clear();
  taken_ = 0;
  if (input_ends_) DropInput();
}

}  // namespace stoker
