// A supervised child process with its own process group. It dies with the daemon:
// PR_SET_PDEATHSIG(SIGKILL) where the platform has it, and Kill() in the destructor.
//
// Not thread-safe, except that Kill() may be called from any thread.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace stoker {

class Subprocess {
 public:
  struct Options {
    std::vector<std::string> argv;                          // argv[0]: looked up in PATH
    std::vector<std::pair<std::string, std::string>> env;   // added to the parent's
    std::string working_folder;                             // empty: the parent's
    int reply_fd = 3;  // the child's end of the reply pipe gets this number
  };

  // Starts argv with stdin as a pipe, a reply pipe at Options::reply_fd, and stderr
  // (and stdout, which joins it) as a pipe. All other descriptors are closed.
  // NOT_FOUND when argv[0] is not an executable file.
  static absl::StatusOr<std::unique_ptr<Subprocess>> Start(const Options& options);

  // Kills the process group and reaps the child.
  ~Subprocess();

  pid_t pid() const { return pid_; }
  // Blocking descriptors owned by this object.
  int stdin_fd() const { return stdin_fd_; }
  int reply_fd() const { return reply_fd_; }
  int stderr_fd() const { return stderr_fd_; }

  // Closes the child's stdin: a polite child ends by itself.
  void CloseStdin();
  // SIGKILL to the whole process group. Idempotent.
  void Kill();
  // Waits for the child's end; returns "exit status 3" or "killed by signal 9 (Killed)".
  std::string Wait();

 private:
  Subprocess(pid_t pid, int stdin_fd, int reply_fd, int stderr_fd);

  const pid_t pid_;
  int stdin_fd_;
  const int reply_fd_;
  const int stderr_fd_;
  bool reaped_ = false;
  std::string end_;
};

}  // namespace stoker
