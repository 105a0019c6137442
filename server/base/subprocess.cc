#include "base/subprocess.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/errno_status.h"
#include "base/status_macros.h"

extern char** environ;

namespace stoker {
namespace {

namespace fs = std::filesystem;

constexpr int kMaxReplyFd = 255;

struct Pipe {
  int read_end = -1;
  int write_end = -1;

  Pipe() = default;
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  ~Pipe() {
    if (read_end >= 0) close(read_end);
    if (write_end >= 0) close(write_end);
  }

  absl::Status Open() {
    std::array<int, 2> ends;
    if (pipe2(ends.data(), O_CLOEXEC) != 0) return ErrnoStatus(errno, "pipe");
    read_end = ends[0];
    write_end = ends[1];
    return absl::OkStatus();
  }
  void CloseWriteEnd() { close(std::exchange(write_end, -1)); }
  int TakeReadEnd() { return std::exchange(read_end, -1); }
  int TakeWriteEnd() { return std::exchange(write_end, -1); }
};

bool IsExecutableFile(const std::string& path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) &&
         access(path.c_str(), X_OK) == 0;
}

// The absolute path of a program. Links stay as they are: a Python environment
// is found through the link's folder, not through its target's.
absl::StatusOr<std::string> FindProgram(const std::string& name) {
  std::vector<std::string> candidates;
  if (absl::StrContains(name, '/')) {
    candidates.push_back(name);
  } else {
    const char* path = std::getenv("PATH");
    for (absl::string_view folder :
         absl::StrSplit(path == nullptr ? "/usr/bin:/bin" : path, ':')) {
      candidates.push_back(
          absl::StrCat(folder.empty() ? "." : folder, "/", name));
    }
  }
  for (const std::string& candidate : candidates) {
    if (!IsExecutableFile(candidate)) continue;
    std::error_code error;
    std::string absolute = fs::absolute(candidate, error);
    if (!error) return absolute;
  }
  return absl::NotFoundError(absl::StrCat(
      "start ", name, ": not an executable file",
      absl::StrContains(name, '/') ? "" : " in any folder of PATH"));
}

std::vector<std::string> Environment(const Subprocess::Options& options) {
  const auto& inherit = options.inherit;
  std::map<std::string, std::string> values;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::pair<std::string, std::string> pair =
        absl::StrSplit(*entry, absl::MaxSplits('=', 1));
    if (!inherit.has_value() || std::find(inherit->begin(), inherit->end(),
                                          pair.first) != inherit->end()) {
      values[pair.first] = pair.second;
    }
  }
  for (const auto& [name, value] : options.env) values[name] = value;
  std::vector<std::string> lines;
  lines.reserve(values.size());
  for (const auto& [name, value] : values) {
    lines.push_back(absl::StrCat(name, "=", value));
  }
  return lines;
}

std::vector<char*> Pointers(std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  pointers.reserve(strings.size() + 1);
  for (std::string& text : strings) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

// All that the child needs between fork and exec. Everything is allocated
// before the fork: another thread may have held malloc's lock at that moment.
struct ChildPlan {
  const char* program;
  char* const* argv;
  char* const* envp;
  const char* working_folder;  // null: stay
  pid_t parent;
  int stdin_fd;
  int reply_fd;
  int reply_number;
  int stderr_fd;
  int error_fd;
};

// Async-signal-safe, as all of the child's code must be.
void CloseRange(unsigned first, unsigned last) {
  if (first > last || close_range(first, last, 0) == 0) return;
  struct rlimit limit = {};
  getrlimit(RLIMIT_NOFILE, &limit);
  const rlim_t end = std::min<rlim_t>(limit.rlim_cur, rlim_t{last} + 1);
  for (rlim_t fd = first; fd < end; ++fd) close(static_cast<int>(fd));
}

// Puts the pipes where they belong and closes all else. Returns the descriptor
// that reports errors, -1 on error.
int ArrangeDescriptors(const ChildPlan& plan) {
  // First out of the way of the numbers that are about to be overwritten.
  const int base = plan.reply_number + 1;
  const int in = fcntl(plan.stdin_fd, F_DUPFD_CLOEXEC, base);
  const int reply = fcntl(plan.reply_fd, F_DUPFD_CLOEXEC, base);
  const int err = fcntl(plan.stderr_fd, F_DUPFD_CLOEXEC, base);
  const int report = fcntl(plan.error_fd, F_DUPFD_CLOEXEC, base);
  if (in < 0 || reply < 0 || err < 0 || report < 0) return -1;
  if (dup2(in, STDIN_FILENO) < 0 || dup2(err, STDOUT_FILENO) < 0 ||
      dup2(err, STDERR_FILENO) < 0 || dup2(reply, plan.reply_number) < 0) {
    return -1;
  }
  CloseRange(STDERR_FILENO + 1, plan.reply_number - 1);
  CloseRange(plan.reply_number + 1, report - 1);
  CloseRange(report + 1, ~0U);
  return report;
}

void DefaultSignals() {
  for (int signal = 1; signal < NSIG; ++signal) std::signal(signal, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
}

[[noreturn]] void Fail(int error_fd) {
  const int error = errno;
  // When the write fails as well the parent sees an end of file and a child
  // that exited with 127.
  [[maybe_unused]] const ssize_t done = write(error_fd, &error, sizeof(error));
  _exit(127);
}

[[noreturn]] void RunChild(const ChildPlan& plan) {
  setpgid(0, 0);
  if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) Fail(plan.error_fd);
  if (getppid() != plan.parent) _exit(127);  // it died before the prctl
  const int report = ArrangeDescriptors(plan);
  if (report < 0) Fail(plan.error_fd);
  if (plan.working_folder != nullptr && chdir(plan.working_folder) != 0) {
    Fail(report);
  }
  DefaultSignals();
  execve(plan.program, plan.argv, plan.envp);
  Fail(report);
}

// fork with every signal blocked, so that no handler of the daemon runs in the
// child.
pid_t ForkChild(const ChildPlan& plan) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const pid_t pid = fork();
  if (pid == 0) RunChild(plan);
  const int error = errno;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  errno = error;
  return pid;
}

// The children that a Subprocess reaps. Held while one is forked, so that
// nobody sees a child that isn't in the set yet.
struct Children {
  absl::Mutex mu;
  std::set<pid_t> pids ABSL_GUARDED_BY(mu);

  static Children& Ours() {
    static Children& children = *new Children;
    return children;
  }
};

// The errno that the child met before exec; 0 when exec worked.
int ReadChildError(int fd) {
  int error = 0;
  ssize_t got;
  do {
    got = read(fd, &error, sizeof(error));
  } while (got < 0 && errno == EINTR);
  return got == sizeof(error) ? error : 0;
}

// Of a child that is dead, or about to be.
void Reap(pid_t pid, int* status) {
  Children& children = Children::Ours();
  absl::MutexLock lock(&children.mu);
  while (waitpid(pid, status, 0) < 0 && errno == EINTR) {
  }
  children.pids.erase(pid);
}

}  // namespace

std::string DescribeEnd(int status) {
  if (WIFEXITED(status)) {
    return absl::StrCat("exit status ", WEXITSTATUS(status));
  }
  const int signal = WTERMSIG(status);
  return absl::StrCat("killed by signal ", signal, " (", strsignal(signal),
                      ")");
}

absl::StatusOr<std::unique_ptr<Subprocess>> Subprocess::Start(
    const Options& options) {
  if (options.argv.empty()) {
    return absl::InvalidArgumentError("start a process: argv is empty");
  }
  if (options.reply_fd < 3 || options.reply_fd > kMaxReplyFd) {
    return absl::InvalidArgumentError(
        absl::StrCat("start ", options.argv[0], ": reply_fd is ",
                     options.reply_fd, ", expected 3..", kMaxReplyFd));
  }
  ASSIGN_OR_RETURN(const std::string program, FindProgram(options.argv[0]));
  std::vector<std::string> argv = options.argv;
  std::vector<std::string> env = Environment(options);
  const std::vector<char*> argv_pointers = Pointers(argv);
  const std::vector<char*> env_pointers = Pointers(env);

  Pipe in, reply, err, report;
  for (Pipe* pipe : {&in, &reply, &err, &report}) RETURN_IF_ERROR(pipe->Open());
  const ChildPlan plan = {
      .program = program.c_str(),
      .argv = argv_pointers.data(),
      .envp = env_pointers.data(),
      .working_folder = options.working_folder.empty()
                            ? nullptr
                            : options.working_folder.c_str(),
      .parent = getpid(),
      .stdin_fd = in.read_end,
      .reply_fd = reply.write_end,
      .reply_number = options.reply_fd,
      .stderr_fd = err.write_end,
      .error_fd = report.write_end,
  };
  pid_t pid;
  {
    Children& children = Children::Ours();
    absl::MutexLock lock(&children.mu);
    pid = ForkChild(plan);
    if (pid > 0) children.pids.insert(pid);
  }
  if (pid < 0) return ErrnoStatus(errno, absl::StrCat("fork for ", program));
  // Also from here, so that Kill() reaches the group whoever runs first.
  setpgid(pid, pid);
  report.CloseWriteEnd();
  if (const int error = ReadChildError(report.read_end); error != 0) {
    int status;
    Reap(pid, &status);
    std::string what = absl::StrCat("start ", program);
    if (!options.working_folder.empty()) {
      absl::StrAppend(&what, " in ", options.working_folder);
    }
    return ErrnoStatus(error, what);
  }
  return std::unique_ptr<Subprocess>(new Subprocess(
      pid, in.TakeWriteEnd(), reply.TakeReadEnd(), err.TakeReadEnd()));
}

Subprocess::Subprocess(pid_t pid, int stdin_fd, int reply_fd, int stderr_fd)
    : pid_(pid),
      stdin_fd_(stdin_fd),
      reply_fd_(reply_fd),
      stderr_fd_(stderr_fd) {}

void Subprocess::ReapOrphans() {
  Children& children = Children::Ours();
  absl::MutexLock lock(&children.mu);
  for (;;) {
    siginfo_t info = {};
    if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
        info.si_pid == 0 || children.pids.contains(info.si_pid)) {
      return;
    }
    waitpid(info.si_pid, nullptr, WNOHANG);
  }
}

Subprocess::~Subprocess() {
  Kill();
  Wait();
  CloseStdin();
  close(reply_fd_);
  close(stderr_fd_);
}

void Subprocess::CloseStdin() {
  if (stdin_fd_ >= 0) close(std::exchange(stdin_fd_, -1));
}

void Subprocess::Kill() {
  absl::MutexLock lock(&mu_);
  if (!reaped_) kill(-pid_, SIGKILL);
}

std::string Subprocess::Wait() {
  {
    absl::MutexLock lock(&mu_);
    if (reaped_) return end_;
  }
  // The dead child is left as a zombie at first: that keeps pid_, and with it
  // the number of the process group, from being given to somebody else before
  // Kill() is told that it is over.
  siginfo_t info;
  while (waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOWAIT) !=
             0 &&
         errno == EINTR) {
  }
  absl::MutexLock lock(&mu_);
  kill(-pid_, SIGKILL);
  int status = 0;
  Reap(pid_, &status);
  reaped_ = true;
  end_ = DescribeEnd(status);
  return end_;
}

}  // namespace stoker
