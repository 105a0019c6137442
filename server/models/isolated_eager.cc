#include "models/isolated_eager.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/communicate.h"
#include "base/process_pipes.h"
#include "base/status_macros.h"
#include "base/subprocess.h"
#include "tensor/run_message.h"

namespace stoker {
namespace {

// What a process may answer at most; what it says its answer takes is believed
// up to here.
constexpr uint64_t kMaxReplyBytes = uint64_t{4} << 30;
constexpr size_t kLogBytes = 4096;

}  // namespace

class IsolatedEager::Process {
 public:
  explicit Process(std::unique_ptr<Subprocess> child)
      : child_(std::move(child)),
        pipes_(
            *child_, [this](std::string_view bytes) { reply_.append(bytes); },
            [this](std::string_view bytes) {
              AppendKeepingEnd(log_, bytes, kLogBytes);
            }) {}

  // False when it has ended, as it does with the thread that started it.
  bool is_alive() {
    while (pipes_.reply_open() && pipes_.Serve(absl::ZeroDuration())) {
    }
    return pipes_.reply_open();
  }

  // The reply. Without one, what became of the run: ABORTED when it was the
  // run's fault, UNAVAILABLE when the process, which runs nothing itself, was
  // ended by somebody else.
  absl::StatusOr<std::string> Ask(std::string_view request,
                                  absl::Duration limit, Clock& clock) {
    const MonotonicTime deadline = clock.Now() + limit;
    reply_.clear();
    pipes_.Give(EncodeLength(request.size()));
    pipes_.Give(request);
    while (!IsWhole()) {
      const absl::Duration left = deadline - clock.Now();
      if (!pipes_.reply_open()) return Ended();
      if (left <= absl::ZeroDuration() || IsTooLong()) {
        child_->Kill();
        child_->Wait();
        return absl::AbortedError(
            IsTooLong() ? "it answered too much"
                        : absl::StrCat("it took longer than ",
                                       absl::FormatDuration(limit)));
      }
      pipes_.Serve(left);
    }
    return reply_.substr(kPrefixBytes);
  }

 private:
  bool IsWhole() const {
    return reply_.size() >= kPrefixBytes &&
           reply_.size() - kPrefixBytes >= DecodeLength(reply_);
  }
  bool IsTooLong() const {
    return reply_.size() >= kPrefixBytes &&
           DecodeLength(reply_) > kMaxReplyBytes;
  }
  absl::Status Ended() {
    const std::string how = child_->Wait();
    const std::string last = LastLine(log_);
    return absl::UnavailableError(
        absl::StrCat(how, last.empty() ? "" : ": ", last));
  }

  const std::unique_ptr<Subprocess> child_;
  std::string reply_, log_;
  ProcessPipes pipes_;
};

IsolatedEager::IsolatedEager(Options options, std::string program, Clock& clock,
                             Counter lost)
    : options_(std::move(options)),
      program_(std::move(program)),
      clock_(clock),
      lost_(lost) {}

IsolatedEager::~IsolatedEager() = default;

absl::StatusOr<IsolatedEager::Process*> IsolatedEager::OwnProcess() {
  Process* known = nullptr;
  {
    const absl::MutexLock lock(&mu_);
    known = processes_[std::this_thread::get_id()].get();
  }
  if (known != nullptr && known->is_alive()) return known;
  Subprocess::Options child_options{.argv = options_.argv};
  child_options.argv.push_back(program_);
  auto child = Subprocess::Start(child_options);
  if (!child.ok()) {
    return absl::UnavailableError(absl::StrCat(
        "no process to run the program in: ", child.status().message()));
  }
  auto process = std::make_unique<Process>(*std::move(child));
  Process* const started = process.get();
  const absl::MutexLock lock(&mu_);
  processes_[std::this_thread::get_id()] = std::move(process);
  return started;
}

absl::StatusOr<std::string> IsolatedEager::Ask(const std::string& request) {
  ASSIGN_OR_RETURN(Process* const process, OwnProcess());
  return process->Ask(request, options_.time_limit, clock_);
}

absl::StatusOr<RunResult> IsolatedEager::Run(ExecutionContext& context,
                                             absl::Span<const Tensor> inputs) {
  context.BeginRun();
  ASSIGN_OR_RETURN(const std::string request,
                   EncodeRequest(context.threads(), inputs));
  absl::StatusOr<std::string> reply = Ask(request);
  // Once more: the process may have been gone before it heard of this run.
  if (absl::IsUnavailable(reply.status())) reply = Ask(request);
  absl::StatusOr<std::vector<Tensor>> outputs =
      reply.ok() ? DecodeReply(*reply) : reply.status();
  if (outputs.ok()) return RunResult{.outputs = *std::move(outputs)};
  if (!absl::IsAborted(outputs.status())) return outputs.status();
  lost_.Add();
  const std::string message =
      absl::StrCat("the run ended the process that it had to itself: ",
                   outputs.status().message());
  return absl::StrContains(message, "(Killed)")
             ? absl::ResourceExhaustedError(message)
             : absl::InternalError(message);
}

}  // namespace stoker
