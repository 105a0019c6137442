// A supervised child process with its own process group. It dies with the
// daemon: SIGKILL when its parent dies (PR_SET_PDEATHSIG), and Kill() in the
// destructor.
//
// The kernel takes "parent" to be the thread that called Start: let that thread
// live as long as the child should, e.g. the supervisor thread of a compile
// worker.
//
// Not thread-safe, except that Kill() may be called from any thread.
#pragma once

#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"

namespace stoker {

class Subprocess {
 public:
  struct Options {
    // argv[0] is looked up in PATH when it has no slash; with a slash it is
    // relative to the parent's folder, not to working_folder.
    std::vector<std::string> argv;
    // Which of the parent's variables the child has as well; nullopt: all.
    std::optional<std::vector<std::string>> inherit;
    // Added to those, or put in place of their values.
    std::vector<std::pair<std::string, std::string>> env;
    std::string working_folder;  // empty: the parent's
    int reply_fd = 3;  // the child's end of the reply pipe gets this number
  };

  // Starts argv with stdin as a pipe, a reply pipe at Options::reply_fd, and
  // stderr (and stdout, which joins it) as a pipe. All other descriptors are
  // closed, signal handlers and the signal mask are the defaults. NOT_FOUND
  // when argv[0] is not an executable file, INVALID_ARGUMENT when argv is empty
  // or reply_fd is not 3..255.
  static absl::StatusOr<std::unique_ptr<Subprocess>> Start(
      const Options& options);

  // Kills the process group and reaps the child.
  ~Subprocess();
  Subprocess(const Subprocess&) = delete;
  Subprocess& operator=(const Subprocess&) = delete;

  // Reaps dead children that no Subprocess has started. Process 1 of a
  // container inherits what its descendants leave behind, and nobody else
  // would. Leaves them for the next call while a dead child of a Subprocess
  // isn't waited for yet. Any thread may call it.
  static void ReapOrphans();

  pid_t pid() const { return pid_; }
  // Blocking descriptors owned by this object.
  int stdin_fd() const { return stdin_fd_; }  // -1 after CloseStdin
  int reply_fd() const { return reply_fd_; }
  int stderr_fd() const { return stderr_fd_; }

  // Closes the child's stdin: a polite child ends by itself.
  void CloseStdin();
  // SIGKILL to the whole process group. Idempotent; does nothing once Wait
  // returned.
  void Kill();
  // Waits for the child's end, kills what is left of its process group and
  // returns "exit status 3" or "killed by signal 9 (Killed)".
  std::string Wait();

 private:
  Subprocess(pid_t pid, int stdin_fd, int reply_fd, int stderr_fd);

  const pid_t pid_;
  int stdin_fd_;
  const int reply_fd_;
  const int stderr_fd_;

  absl::Mutex mu_;
  bool reaped_ ABSL_GUARDED_BY(mu_) = false;  // pid_ is nobody's from then on
  std::string end_ ABSL_GUARDED_BY(mu_);
};

// What waitpid gave, in the words of Subprocess::Wait.
std::string DescribeEnd(int status);

}  // namespace stoker
