#include "compile_broker/compile_worker_process.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/errno_status.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "base/utf8.h"

namespace stoker {

namespace {

constexpr size_t kMaxLogLineBytes = 4 << 10;

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

}  // namespace

absl::StatusOr<std::unique_ptr<CompileWorkerProcess>>
CompileWorkerProcess::Start(const Subprocess::Options& options,
                            Callbacks callbacks) {
  ASSIGN_OR_RETURN(auto process, Subprocess::Start(options));
  const int wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (wake_fd < 0) return ErrnoStatus(errno, "eventfd");
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
      pipes_(
          *process_, [this](std::string_view piece) { ReadReplies(piece); },
          [this](std::string_view piece) { ReadLog(piece); }),
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
  pollfd also[] = {{wake_fd_, POLLIN, 0}, {pid_fd_, POLLIN, 0}};
  pipes_.Serve(kill_at_ - Clock::Real().Now(), also);
  if (also[0].revents != 0) HearOwner();
  process_ended_ = also[1].revents != 0;
  // A process that ends closes its pipes a moment before it can be waited for;
  // one that lives on without this pipe is of no use.
  if (!pipes_.reply_open()) KillSoon();
  return !process_ended_ && fault_.empty() && Clock::Real().Now() < kill_at_;
}

void CompileWorkerProcess::HearOwner() {
  eventfd_t count;
  eventfd_read(wake_fd_, &count);
  std::string lines;
  {
    absl::MutexLock lock(&mu_);
    lines = std::exchange(outbox_, "");
  }
  pipes_.Give(lines);
  if (!LetGo()) return;
  pipes_.DropInput();
  KillSoon();
}

void CompileWorkerProcess::KillSoon() {
  kill_at_ = std::min(kill_at_, Clock::Real().Now() + kFarewell);
}

void CompileWorkerProcess::ReadReplies(std::string_view piece) {
  if (!fault_.empty()) return;
  size_t newline;
  while ((newline = piece.find('\n')) != std::string_view::npos) {
    reply_so_far_.append(piece.substr(0, newline));
    piece.remove_prefix(newline + 1);
    std::string line = std::exchange(reply_so_far_, "");
    if (!LetGo()) callbacks_.on_reply(std::move(line));
  }
  reply_so_far_.append(piece);
  if (reply_so_far_.size() <= kMaxReplyBytes) return;
  fault_ = absl::StrCat("sent more than ", kMaxReplyBytes,
                        " bytes without a newline");
}

void CompileWorkerProcess::ReadLog(std::string_view piece) {
  {
    absl::MutexLock lock(&mu_);
    tail_.Append(piece);
  }
  LogLines(piece);
}

void CompileWorkerProcess::LogLines(std::string_view bytes) {
  if (!log::Enabled(log::Level::kDebug)) return;
  log_so_far_.append(bytes);
  size_t start = 0, newline;
  while ((newline = log_so_far_.find('\n', start)) != std::string::npos ||
         log_so_far_.size() - start > kMaxLogLineBytes) {
    const size_t end = std::min(newline, start + kMaxLogLineBytes);
    log::Debug("compile worker {}: {}", process_->pid(),
               ValidUtf8(log_so_far_.substr(start, end - start)));
    start = end == newline ? end + 1 : end;
  }
  log_so_far_.erase(0, start);
}

void CompileWorkerProcess::Finish() {
  if (!process_ended_ && fault_.empty()) fault_ = "closed its reply pipe";
  if (!process_ended_) process_->Kill();
  const std::string end = process_->Wait();
  // What it wrote before it died.
  pipes_.Serve(absl::ZeroDuration());
  if (LetGo()) return;
  callbacks_.on_end(fault_.empty() ? end : absl::StrCat(fault_, "; ", end));
}

}  // namespace stoker
