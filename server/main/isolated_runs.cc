#include "main/isolated_runs.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/errno_status.h"
#include "base/file_descriptor.h"
#include "base/status_macros.h"
#include "base/subprocess.h"
#include "main/child_arguments.h"
#include "runner/executable_loader.h"
#include "tensor/run_message.h"

namespace stoker {
namespace {

// False at the end of the file.
bool ReadAll(int fd, char* data, size_t size) {
  while (size > 0) {
    const ssize_t got = read(fd, data, size);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    data += got;
    size -= static_cast<size_t>(got);
  }
  return true;
}

absl::StatusOr<std::vector<Tensor>> RunOn(ExecutableLoader& loader,
                                          Executable& program,
                                          const std::string& message) {
  ASSIGN_OR_RETURN(const RunRequest request, DecodeRequest(message));
  const auto context = loader.NewContext(request.threads);
  ASSIGN_OR_RETURN(RunResult result, program.Run(*context, request.inputs));
  return std::move(result.outputs);
}

// The reply of a child, which leaves it in a file in memory: what it has begun
// to write when it dies is nobody's answer.
absl::StatusOr<std::string> RunInChild(ExecutableLoader& loader,
                                       Executable& program,
                                       const std::string& message) {
  const FileDescriptor file(memfd_create("reply", MFD_CLOEXEC));
  if (!file.ok()) return ErrnoStatus(errno, "memfd_create");
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child < 0) return ErrnoStatus(errno, "fork");
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);
    const std::string reply = EncodeReply(RunOn(loader, program, message));
    _exit(WriteAll(file.get(), reply, "a reply").ok() ? 0 : 1);
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    return absl::AbortedError(DescribeEnd(status));
  }
  const off_t size = lseek(file.get(), 0, SEEK_END);
  std::string reply(static_cast<size_t>(size), '\0');
  if (lseek(file.get(), 0, SEEK_SET) != 0 ||
      !ReadAll(file.get(), reply.data(), reply.size())) {
    return ErrnoStatus(errno, "a reply");
  }
  return reply;
}

// Short of memory, the kernel is to end this process and not the daemon.
void OfferToTheKernel() {
  const FileDescriptor file(
      open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC));
  if (file.ok()) WriteAll(file.get(), "1000", "oom_score_adj").IgnoreError();
}

}  // namespace

int IsolatedRuns(int argc, char** argv) {
  const std::vector<std::string> arguments = ChildArguments(argc, argv);
  if (arguments.size() != 1) return 2;
  OfferToTheKernel();
  const std::unique_ptr<ExecutableLoader> loader = MakeCpuLoader();
  // Opened, but never run here: a process that has computed has threads, which
  // those that it forks would lack.
  const absl::StatusOr<std::shared_ptr<Executable>> program =
      loader->OpenEager(arguments[0], /*weights=*/nullptr);
  std::string length(kPrefixBytes, '\0');
  while (ReadAll(STDIN_FILENO, length.data(), length.size())) {
    std::string message(DecodeLength(length), '\0');
    if (!ReadAll(STDIN_FILENO, message.data(), message.size())) return 1;
    const absl::StatusOr<std::string> ran =
        program.ok() ? RunInChild(*loader, **program, message)
                     : absl::StatusOr<std::string>(program.status());
    const std::string reply = ran.ok() ? *ran : EncodeReply(ran.status());
    if (!WriteAll(kReplyFd, EncodeLength(reply.size()), "replies").ok() ||
        !WriteAll(kReplyFd, reply, "replies").ok()) {
      return 1;
    }
  }
  return 0;
}

}  // namespace stoker
