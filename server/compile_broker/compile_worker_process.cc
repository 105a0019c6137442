#include "compile_broker/compile_worker_process.h"

#include <fcntl.h>
#include <poll.h>
#include <spdlog/spdlog.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/errno_status.h"
#include "base/status_macros.h"
#include "base/utf8.h"

namespace stoker {

namespace {

constexpr size_t kReadBytes = 16 << 10;
constexpr int kMaxReadsInARow = 16;
constexpr size_t kMaxLogLineBytes = 4 << 10;

void SetNonBlocking(int fd) {
  fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
}

// glibc has no wrapper before 2.36. -1 before Linux 5.3.
int OpenPidFd(pid_t pid) {
  return static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
}

// Writing to a worker that is gone must be an error, not the daemon's end.
void BlockSigPipe() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

// Hands what can be read without waiting to `consume`, up to a bound, so that a
// flood in one pipe can't starve the others. False at the end of the file.
template <typename Consume>
bool Drain(int fd, Consume consume) {
  char buffer[kReadBytes];
  for (int reads = 0; reads < kMaxReadsInARow; ++reads) {
    const ssize_t n = read(fd, buffer, sizeof(buffer));
    if (n > 0) {
      if (!consume(std::string_view(buffer, static_cast<size_t>(n)))) {
        return true;
      }
    } else if (n == 0) {
      return false;
    } else if (errno != EINTR) {
      return errno == EAGAIN;
    }
  }
  return true;
}

// For poll; -1 waits for ever. Rounded up, or poll would spin at the end.
int PollTimeout(absl::Time until) {
  if (until == absl::InfiniteFuture()) return -1;
  const absl::Duration left = until - Clock::Real().Now();
  return static_cast<int>(std::clamp<int64_t>(
      absl::ToInt64Milliseconds(left + absl::Milliseconds(1)), 0, 60'000));
}

}  // namespace

absl::StatusOr<std::unique_ptr<CompileWorkerProcess>>
CompileWorkerProcess::Start(const Subprocess::Options& options,
                            Callbacks callbacks) {
  ASSIGN_OR_RETURN(auto process, Subprocess::Start(options));
  const int wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (wake_fd < 0) return ErrnoStatus(errno, "eventfd");
  for (int fd :
       {process->stdin_fd(), process->reply_fd(), process->stderr_fd()}) {
    SetNonBlocking(fd);
  }
  const int pid_fd = OpenPidFd(process->pid());
  return std::unique_ptr<CompileWorkerProcess>(new CompileWorkerProcess(
      std::move(process), wake_fd, pid_fd, std::move(callbacks)));
}

CompileWorkerProcess::CompileWorkerProcess(std::unique_ptr<Subprocess> process,
                                           int wake_fd, int pid_fd,
                                           Callbacks callbacks)
    : process_(std::move(process)),
      wake_fd_(wake_fd),
      pid_fd_(pid_fd),
      callbacks_(std::move(callbacks)),
      thread_("compile-pipes", [this] { Serve(); }) {}

CompileWorkerProcess::~CompileWorkerProcess() {
  {
    absl::MutexLock lock(&mu_);
    let_go_ = true;
  }
  eventfd_write(wake_fd_, 1);
  thread_.Join();
  if (pid_fd_ >= 0) close(pid_fd_);
  close(wake_fd_);
}

void CompileWorkerProcess::Send(std::string_view line) {
  {
    absl::MutexLock lock(&mu_);
    outbox_.append(line);
  }
  eventfd_write(wake_fd_, 1);
}

std::string CompileWorkerProcess::LastWords(size_t max_bytes) const {
  absl::MutexLock lock(&mu_);
  return tail_.LastLines(max_bytes);
}

bool CompileWorkerProcess::LetGo() const {
  absl::MutexLock lock(&mu_);
  return let_go_;
}

void CompileWorkerProcess::Serve() {
  BlockSigPipe();
  while (WaitForPipes()) {
  }
  Finish();
}

bool CompileWorkerProcess::WaitForPipes() {
  bool writing;
  {
    absl::MutexLock lock(&mu_);
    writing = stdin_open_ && !outbox_.empty();
  }
  pollfd fds[] = {
      {wake_fd_, POLLIN, 0},
      {pid_fd_, POLLIN, 0},
      {reply_open_ ? process_->reply_fd() : -1, POLLIN, 0},
      {log_open_ ? process_->stderr_fd() : -1, POLLIN, 0},
      {writing ? process_->stdin_fd() : -1, POLLOUT, 0},
  };
  poll(fds, std::size(fds), PollTimeout(kill_at_));
  process_ended_ = fds[1].revents != 0;
  if (fds[0].revents != 0) HearOwner();
  if (fds[2].revents != 0) ReadReplies();
  if (fds[3].revents != 0) ReadLog();
  if (fds[4].revents != 0 && stdin_open_) WriteJobs();
  return !process_ended_ && fault_.empty() && Clock::Real().Now() < kill_at_;
}

void CompileWorkerProcess::HearOwner() {
  eventfd_t count;
  eventfd_read(wake_fd_, &count);
  if (!LetGo() || !stdin_open_) return;
  stdin_open_ = false;
  process_->CloseStdin();
  KillSoon();
}

void CompileWorkerProcess::KillSoon() {
  kill_at_ = std::min(kill_at_, Clock::Real().Now() + kFarewell);
}

void CompileWorkerProcess::ReadReplies() {
  reply_open_ = Drain(process_->reply_fd(), [this](std::string_view piece) {
    size_t newline;
    while ((newline = piece.find('\n')) != std::string_view::npos) {
      reply_so_far_.append(piece.substr(0, newline));
      piece.remove_prefix(newline + 1);
      std::string line = std::exchange(reply_so_far_, "");
      if (!LetGo()) callbacks_.on_reply(std::move(line));
    }
    reply_so_far_.append(piece);
    if (reply_so_far_.size() <= kMaxReplyBytes) return true;
    fault_ = absl::StrCat("sent more than ", kMaxReplyBytes,
                          " bytes without a newline");
    return false;
  });
  // A process that ends closes its pipes a moment before it can be waited for;
  // one that lives on without this pipe is of no use.
  if (!reply_open_) KillSoon();
}

void CompileWorkerProcess::ReadLog() {
  log_open_ = Drain(process_->stderr_fd(), [this](std::string_view piece) {
    {
      absl::MutexLock lock(&mu_);
      tail_.Append(piece);
    }
    LogLines(piece);
    return true;
  });
}

void CompileWorkerProcess::LogLines(std::string_view bytes) {
  if (!spdlog::should_log(spdlog::level::debug)) return;
  log_so_far_.append(bytes);
  size_t start = 0, newline;
  while ((newline = log_so_far_.find('\n', start)) != std::string::npos ||
         log_so_far_.size() - start > kMaxLogLineBytes) {
    const size_t end = std::min(newline, start + kMaxLogLineBytes);
    spdlog::debug("compile worker {}: {}", process_->pid(),
                  ValidUtf8(log_so_far_.substr(start, end - start)));
    start = end == newline ? end + 1 : end;
  }
  log_so_far_.erase(0, start);
}

void CompileWorkerProcess::WriteJobs() {
  absl::MutexLock lock(&mu_);  // the descriptor doesn't block
  while (!outbox_.empty()) {
    const ssize_t n =
        write(process_->stdin_fd(), outbox_.data(), outbox_.size());
    if (n >= 0) {
      outbox_.erase(0, static_cast<size_t>(n));
    } else if (errno != EINTR) {
      if (errno == EAGAIN) return;
      stdin_open_ = false;  // its end is about to be seen
      return;
    }
  }
}

void CompileWorkerProcess::Finish() {
  if (!process_ended_ && fault_.empty()) fault_ = "closed its reply pipe";
  if (!process_ended_) process_->Kill();
  const std::string end = process_->Wait();
  // What it wrote before it died.
  if (reply_open_ && process_ended_) ReadReplies();
  if (log_open_) ReadLog();
  if (LetGo()) return;
  callbacks_.on_end(fault_.empty() ? end : absl::StrCat(fault_, "; ", end));
}

}  // namespace stoker
