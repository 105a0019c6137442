#include "compile_broker/compile_worker.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/absl_view.h"
#include "base/log.h"
#include "compile_broker/worker_environment.h"

namespace stoker {
namespace {

constexpr size_t kLastWordsBytes = 2 << 10;

}  // namespace

CompileWorker::CompileWorker(const CompileWorkerOptions& options,
                             std::string scratch_folder, Clock& clock,
                             CompileMetrics& metrics, SupervisorInbox& inbox)
    : options_(options),
      scratch_folder_(std::move(scratch_folder)),
      clock_(clock),
      metrics_(metrics),
      inbox_(inbox) {}

bool CompileWorker::InBackoff() const {
  return none() && clock_.Now() < next_start_;
}

absl::Status CompileWorker::Start() {
  Subprocess::Options process;
  process.argv = options_.argv;
  for (const std::string& argument :
       {std::string("--reply-fd"), absl::StrCat(process.reply_fd),
        std::string("--scratch"), scratch_folder_}) {
    process.argv.push_back(argument);
  }
  process.working_folder = options_.working_folder;
  process.inherit = WorkerVariables();
  const int run = ++run_;
  CompileWorkerProcess::Callbacks callbacks;
  callbacks.on_reply = [this, run](std::string line) {
    inbox_.Post({.worker = run, .ended = false, .text = std::move(line)});
  };
  callbacks.on_end = [this, run](std::string how) {
    inbox_.Post({.worker = run, .ended = true, .text = std::move(how)});
  };
  auto started = CompileWorkerProcess::Start(process, std::move(callbacks));
  if (absl::IsNotFound(started.status())) return started.status();
  if (!started.ok()) {
    NoteLoss();
    NoteFailedStart(absl::UnavailableError(absl::StrCat(
        "can't start the compile worker: ", started.status().message())));
    return start_failure_;
  }
  metrics_.WorkerStarted();
  process_ = *std::move(started);
  state_ = State::kStarting;
  start_deadline_ = clock_.Now() + options_.start_timeout;
  log::Info("compile worker {}: starting", process_->pid());
  return absl::OkStatus();
}

void CompileWorker::OnReady(const WorkerReply& reply) {
  if (!starting()) return;
  state_ = State::kReady;
  failed_starts_ = 0;
  log::Info("compile worker {}: ready with torch {} after {:.1f} s",
            process_->pid(), reply.torch, reply.seconds);
}

bool CompileWorker::IsOfThisRun(const WorkerEvent& event) const {
  return process_ != nullptr && event.worker == run_;
}

void CompileWorker::NoteIdleness(bool has_nothing_to_do) {
  if (!ready() || !has_nothing_to_do) {
    idle_since_ = MonotonicTime::InfiniteFuture();
  } else if (idle_since_ == MonotonicTime::InfiniteFuture()) {
    idle_since_ = clock_.Now();
  }
}

bool CompileWorker::StartIsOverdue() const {
  return starting() && clock_.Now() >= start_deadline_;
}

void CompileWorker::LetGoIfIdle() {
  if (!ready() || clock_.Now() < idle_since_ + options_.idle_timeout) return;
  log::Info("compile worker {}: let go after {} without a job", process_->pid(),
            absl::FormatDuration(options_.idle_timeout));
  Drop();
}

MonotonicTime CompileWorker::NextDeadline() const {
  if (starting()) return start_deadline_;
  if (ready()) return idle_since_ + options_.idle_timeout;
  return MonotonicTime::InfiniteFuture();
}

absl::Status CompileWorker::Lose(std::string_view what) {
  const bool was_starting = starting();
  absl::Status lost = absl::UnavailableError(WithLastWords(what));
  Drop();
  NoteLoss();
  if (was_starting) NoteFailedStart(lost);
  return lost;
}

void CompileWorker::Drop() {
  process_.reset();
  state_ = State::kNone;
}

void CompileWorker::NoteLoss() {
  ++losses_;
  absl::Duration backoff = kMinBackoff;
  for (int i = 1; i < losses_ && backoff < kMaxBackoff; ++i) backoff *= 2;
  next_start_ = clock_.Now() + std::min(backoff, kMaxBackoff);
}

void CompileWorker::NoteFailedStart(const absl::Status& failure) {
  ++failed_starts_;
  start_failure_ = failure;
  log::Warn("{} (start {} in a row that failed)",
            std::string(failure.message()), failed_starts_);
}

std::string CompileWorker::WithLastWords(std::string_view text) const {
  const std::string words = process_->LastWords(kLastWordsBytes);
  return words.empty() ? absl::StrCat(Absl(text), " (its log is empty)")
                       : absl::StrCat(Absl(text), "; its last words:\n", words);
}

}  // namespace stoker
