#include "compile_broker/compile_supervisor.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/absl_view.h"
#include "base/log.h"

namespace stoker {

namespace {

// What Submit promises for trouble with the cache folder: FAILED_PRECONDITION
// means "refused" there.
absl::Status CacheTrouble(const CompileJob& job, std::string_view doing,
                          const absl::Status& status) {
  const std::string text =
      absl::StrCat("compile of ", job.request.model, " [", job.request.bucket,
                   "]: ", Absl(doing), ": ", status.message());
  if (absl::IsResourceExhausted(status)) {
    return absl::ResourceExhaustedError(text);
  }
  // A cache on a read-only disk: this host serves what others compile.
  if (absl::IsPermissionDenied(status)) return absl::UnavailableError(text);
  return absl::InternalError(text);
}

}  // namespace

CompileSupervisor::CompileSupervisor(const CompileWorkerOptions& options,
                                     EntryStore& entries, Clock& clock,
                                     MetricRegistry& metrics,
                                     SupervisorInbox& inbox)
    : options_(options),
      entries_(entries),
      clock_(clock),
      inbox_(inbox),
      metrics_(metrics),
      worker_(options_, entries.scratch_folder(), clock, metrics_, inbox) {}

void CompileSupervisor::Run() {
  while (true) {
    News news = inbox_.Wait(clock_, NextDeadline());
    if (news.stopping) return Shutdown(std::move(news));
    for (Submission& submission : news.submissions) {
      Accept(std::move(submission));
    }
    for (const WorkerEvent& event : news.events) Handle(event);
    DropUnwanted();
    CheckDeadlines();
    if (news.expecting) PrepareWorker();
    Dispatch();
    worker_.NoteIdleness(queue_.Count(CompileJob::State::kElsewhere) ==
                         queue_.Count());
    metrics_.SetQueue(
        queue_.Count() - queue_.Count(CompileJob::State::kRunning),
        queue_.Count(CompileJob::State::kRunning), failures_.parked());
  }
}

void CompileSupervisor::Shutdown(News news) {
  const absl::Status stopped =
      absl::CancelledError("the server stops compiling");
  worker_.Drop();
  while (CompileJob* job = queue_.First()) Answer(*job, stopped);
  // An answer may lead to another submission.
  do {
    for (const Submission& submission : news.submissions) {
      submission.done(stopped);
    }
    news = inbox_.Wait(clock_, MonotonicTime::InfinitePast());
  } while (!news.submissions.empty());
  metrics_.SetQueue(0, 0, failures_.parked());
}

// ---- what comes in ----

void CompileSupervisor::Accept(Submission submission) {
  const ArtifactKey& key = submission.request.key;
  if (options_.argv.empty()) {
    submission.done(absl::UnavailableError(
        "there is no compiler on this host: no compile worker is configured"));
  } else if (!submission.request.passes_path.empty() &&
             !options_.allow_passes) {
    submission.done(absl::UnavailableError(absl::StrCat(
        "nothing is compiled with ", submission.request.passes_path,
        ", which is code of the model's author: stokerd was "
        "started without --allow-passes")));
  } else if (std::optional<absl::Status> parked = failures_.Parked(key)) {
    submission.done(*parked);
  } else if (CompileJob* job = queue_.FindKey(key)) {
    job->Join(std::move(submission));
  } else {
    queue_.Add(std::make_unique<CompileJob>(std::move(submission), inbox_));
  }
}

void CompileSupervisor::Handle(const WorkerEvent& event) {
  if (!worker_.IsOfThisRun(event)) return;
  if (event.ended) return OnWorkerLost(event.text);
  const absl::StatusOr<WorkerReply> reply = ParseReply(event.text);
  if (reply.ok()) return OnReply(*reply);
  OnWorkerLost(std::string(reply.status().message()));
}

void CompileSupervisor::OnReply(const WorkerReply& reply) {
  if (reply.event == WorkerReply::Event::kReady) return worker_.OnReady(reply);
  CompileJob* const job = queue_.FindRunning(reply.id);
  if (job == nullptr) return;  // answered already
  switch (reply.event) {
    case WorkerReply::Event::kPhase:
      return job->SetPhase(reply.phase);
    case WorkerReply::Event::kDone:
      return OnDone(*job, reply);
    case WorkerReply::Event::kFailed:
      return OnFailed(*job, reply);
    case WorkerReply::Event::kReady:
    case WorkerReply::Event::kUnknown:
      return;
  }
}

// What runs is brought to its end: it is worth keeping, whoever asks next.
void CompileSupervisor::DropUnwanted() {
  for (const auto state :
       {CompileJob::State::kQueued, CompileJob::State::kElsewhere,
        CompileJob::State::kLocked}) {
    queue_.ForEach(state, [&](CompileJob& job) {
      if (job.DropLeavers()) return;
      log::Info("{} is not compiled: nobody wants it any more", job.Name());
      GiveUpClaim(job);
      queue_.Remove(job);
    });
  }
}

void CompileSupervisor::OnDone(CompileJob& job, const WorkerReply& reply) {
  worker_.OnAnswer();
  if (absl::Status attested = CheckAttested(job.request, reply);
      !attested.ok()) {
    metrics_.Ended("failed", clock_.Now() - job.sent);
    return Answer(job, attested);
  }
  job.SetPhase("commit");
  const ArtifactKey& key = job.request.key;
  absl::StatusOr<CacheEntry> entry = entries_.Commit(key, job.staging_folder);
  const absl::Duration took = clock_.Now() - job.sent;
  if (!entry.ok()) {
    metrics_.Ended("failed", took);
    const absl::Status trouble =
        CacheTrouble(job, "the artifact was not accepted", entry.status());
    // Only a wrong artifact is the compiler's fault.
    if (absl::IsFailedPrecondition(entry.status())) return Fail(job, trouble);
    return Answer(job, trouble);
  }
  metrics_.Ended("ok", took);
  metrics_.Phases(reply.phases);
  failures_.Forget(key);
  log::Info("compiled {} in {:.1f} s, {} bytes", job.Name(),
            absl::ToDoubleSeconds(took), entry->bytes);
  Answer(job, entry);
}

void CompileSupervisor::OnFailed(CompileJob& job, const WorkerReply& reply) {
  worker_.OnAnswer();
  metrics_.Ended(OutcomeOfKind(reply.kind), clock_.Now() - job.sent);
  const absl::Status failure =
      FailureStatus(job.request, reply.kind, reply.message);
  const bool disk_full =
      absl::IsResourceExhausted(failure) && reply.kind != "memory";
  if (disk_full || reply.kind == "cancelled") return Answer(job, failure);
  Fail(job, failure);
}

// ---- what time brings ----

void CompileSupervisor::CheckDeadlines() {
  const MonotonicTime now = clock_.Now();
  if (worker_.StartIsOverdue()) {
    OnWorkerLost(absl::StrCat("not ready after ",
                              absl::FormatDuration(options_.start_timeout)));
  }
  worker_.LetGoIfIdle();
  if (!worker_.ready()) return;
  bool stuck = false;
  queue_.ForEach(CompileJob::State::kRunning,
                 [&](CompileJob& job) { stuck |= now >= job.deadline; });
  if (stuck) OnStuckWorker();
}

void CompileSupervisor::OnStuckWorker() {
  const MonotonicTime now = clock_.Now();
  log::Warn("compile worker {}: a job has had no answer for {}, killing it",
            worker_.pid(),
            absl::FormatDuration(options_.job_timeout + kTimeoutGrace));
  const absl::Status lost = worker_.Lose("the compile worker is stuck");
  queue_.ForEach(CompileJob::State::kRunning, [&](CompileJob& job) {
    // The others only lost their worker.
    if (now < job.deadline) return Requeue(job);
    metrics_.Ended("timeout", now - job.sent);
    Fail(job, FailureStatus(job.request, "timeout", Std(lost.message())));
  });
}

MonotonicTime CompileSupervisor::NextDeadline() const {
  MonotonicTime next = worker_.NextDeadline();
  queue_.ForEach([&](const CompileJob& job) {
    if (job.state == CompileJob::State::kElsewhere) {
      next = std::min(next, job.next_look);
    } else if (job.state == CompileJob::State::kRunning) {
      next = std::min(next, job.deadline);
    } else if (worker_.none()) {
      next = std::min(next, worker_.next_start());
    }
  });
  return next;
}

// ---- queue ----

void CompileSupervisor::Dispatch() {
  const MonotonicTime now = clock_.Now();
  queue_.ForEach(CompileJob::State::kElsewhere, [&](CompileJob& job) {
    if (now >= job.next_look) Acquire(job);
  });
  queue_.ForEach(CompileJob::State::kQueued, [&](CompileJob& job) {
    if (IsFull()) return;
    if (!worker_.InBackoff()) return Acquire(job);
    if (worker_.failed_starts() >= kMaxFailedStarts) {
      Answer(job, worker_.start_failure());
    }
  });
  if (worker_.none() && !worker_.InBackoff() &&
      queue_.Count(CompileJob::State::kLocked) > 0) {
    StartWorker();
  }
  if (worker_.ready()) {
    queue_.ForEach(CompileJob::State::kLocked,
                   [&](CompileJob& job) { Send(job); });
  }
}

void CompileSupervisor::Acquire(CompileJob& job) {
  const ArtifactKey& key = job.request.key;
  absl::StatusOr<std::unique_ptr<FileLock>> lock = entries_.TryLock(key);
  const bool was_elsewhere = job.state == CompileJob::State::kElsewhere;
  if (was_elsewhere && (!lock.ok() || *lock != nullptr)) {
    metrics_.LockWaited(clock_.Now() - job.found_locked);
  }
  if (!lock.ok()) {
    return Answer(job, CacheTrouble(job, "lock the key", lock.status()));
  }
  if (*lock == nullptr) {
    if (!was_elsewhere) {
      log::Info("{} is being compiled by another process", job.Name());
      job.found_locked = clock_.Now();
    }
    job.state = CompileJob::State::kElsewhere;
    job.next_look = clock_.Now() + kLookInterval;
    return job.SetPhase("wait");
  }
  // Whoever had the lock before may have left an entry.
  if (std::optional<CacheEntry> entry = entries_.Lookup(key)) {
    return Answer(job, *std::move(entry));
  }
  if (IsFull() || worker_.InBackoff()) {
    job.state = CompileJob::State::kQueued;
    return;
  }
  job.lock = *std::move(lock);
  job.state = CompileJob::State::kLocked;
  job.SetPhase("start");
}

void CompileSupervisor::Send(CompileJob& job) {
  absl::StatusOr<std::string> folder =
      entries_.NewStagingFolder(job.request.key);
  if (!folder.ok()) {
    return Answer(job,
                  CacheTrouble(job, "make a staging folder", folder.status()));
  }
  job.id = next_id_++;
  job.staging_folder = *std::move(folder);
  job.state = CompileJob::State::kRunning;
  job.sent = clock_.Now();
  job.deadline = job.sent + options_.job_timeout + kTimeoutGrace;
  log::Info("compiling {}", job.Name());
  worker_.Send(CompileLine(job.id, job.request, job.staging_folder,
                           entries_.scratch_folder(), options_));
}

bool CompileSupervisor::IsFull() const {
  return queue_.Count(CompileJob::State::kLocked) +
             queue_.Count(CompileJob::State::kRunning) >=
         std::max(1, options_.parallel_jobs);
}

void CompileSupervisor::GiveUpClaim(CompileJob& job) {
  if (!job.staging_folder.empty()) {
    entries_.Abandon(std::exchange(job.staging_folder, ""));
  }
  job.lock.reset();
}

void CompileSupervisor::Requeue(CompileJob& job) {
  GiveUpClaim(job);
  job.state = CompileJob::State::kQueued;
  job.SetPhase("wait");
}

void CompileSupervisor::Answer(CompileJob& job,
                               const absl::StatusOr<CacheEntry>& result) {
  GiveUpClaim(job);
  const std::unique_ptr<CompileJob> taken = queue_.Remove(job);
  if (!result.ok() && !absl::IsCancelled(result.status())) {
    log::Warn("{} was not compiled: {}", taken->Name(),
              result.status().ToString());
  }
  taken->Answer(result);
}

void CompileSupervisor::Fail(CompileJob& job, const absl::Status& failure) {
  failures_.Record(job.request.key, failure);
  Answer(job, failure);
}

// ---- worker ----

void CompileSupervisor::StartWorker() {
  const absl::Status started = worker_.Start();
  if (started.ok()) return;
  if (!absl::IsNotFound(started)) return OnFailedStart();
  const absl::Status missing = absl::UnavailableError(
      absl::StrCat("there is no compiler on this host: ", started.message()));
  for (auto state : {CompileJob::State::kLocked, CompileJob::State::kQueued}) {
    queue_.ForEach(state, [&](CompileJob& job) { Answer(job, missing); });
  }
}

void CompileSupervisor::OnWorkerLost(std::string_view how) {
  const bool started = worker_.ready();
  const absl::Status lost =
      worker_.Lose(absl::StrCat(started ? "the compile worker was lost: "
                                        : "the compile worker did not start: ",
                                Absl(how)));
  if (!started) return OnFailedStart();
  const std::string words(lost.message());
  log::Warn("{}", words);
  const MonotonicTime now = clock_.Now();
  queue_.ForEach(CompileJob::State::kRunning, [&](CompileJob& job) {
    metrics_.Ended("crashed", now - job.sent);
    RetryOrFail(job, FailureStatus(job.request, "crashed", words));
  });
}

// Before there is a job: nobody has to hear that it doesn't start.
void CompileSupervisor::PrepareWorker() {
  if (options_.argv.empty() || !worker_.none() || worker_.InBackoff()) return;
  StartWorker();
}

// The locks go back, so that another daemon may try.
void CompileSupervisor::OnFailedStart() {
  queue_.ForEach(CompileJob::State::kLocked,
                 [&](CompileJob& job) { Requeue(job); });
}

// Which of the jobs brought the worker down is not known, and it may have been
// none: each gets one more try.
void CompileSupervisor::RetryOrFail(CompileJob& job,
                                    const absl::Status& failure) {
  if (failures_.Record(job.request.key, failure)) {
    Answer(job, failure);
  } else {
    Requeue(job);
  }
}

}  // namespace stoker
