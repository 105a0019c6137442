#include "models/first_run.h"

#include <unistd.h>

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/communicate.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "planning/note_names.h"
#include "tensor/tensor_file.h"

namespace stoker {
namespace {

// The child reaches what this process has verified through its descriptors.
std::string AsSeenByAChild(const std::string& path) {
  return absl::StrReplaceAll(
      path, {{"/proc/self/", absl::StrCat("/proc/", getpid(), "/")}});
}

}  // namespace

FirstRun::FirstRun(Options options, FactStore& facts)
    : options_(std::move(options)), facts_(facts) {}

bool FirstRun::IsKnown(const ArtifactId& artifact) const {
  return survived_.contains(artifact) ||
         facts_
             .ReadNote(artifact.key,
                       FirstRunNoteName(artifact, options_.machine))
             .has_value();
}

void FirstRun::Note(const ArtifactId& artifact) {
  survived_.insert(artifact);
  // Without the note the next start tries again.
  facts_
      .WriteNote(artifact.key, FirstRunNoteName(artifact, options_.machine), "")
      .IgnoreError();
}

bool FirstRun::TakeTurn(const std::stop_token& stop) {
  // Has who waits look at `stop` again.
  const std::stop_callback wake(stop,
                                [this] { const absl::MutexLock lock(&mu_); });
  const absl::MutexLock lock(&mu_);
  const auto free = [this, &stop] {
    mu_.AssertReaderHeld();
    return !busy_ || stop.stop_requested();
  };
  mu_.Await(absl::Condition(&free));
  if (stop.stop_requested()) return false;
  busy_ = true;
  return true;
}

void FirstRun::EndTurn() {
  const absl::MutexLock lock(&mu_);
  busy_ = false;
}

std::vector<absl::Status> FirstRun::Check(const std::string& program,
                                          int threads,
                                          absl::Span<const CacheEntry> entries,
                                          const std::stop_token& stop) {
  if (!TakeTurn(stop)) {
    return std::vector<absl::Status>(entries.size(),
                                     absl::CancelledError("stopping"));
  }
  std::vector<absl::Status> results(entries.size(), absl::OkStatus());
  RunChildren(program, threads, entries, stop, results);
  EndTurn();
  return results;
}

absl::Status FirstRun::CheckEager(const Program& program, int threads,
                                  absl::Span<const Tensor> inputs,
                                  const std::stop_token& stop) {
  if (!TakeTurn(stop)) return absl::CancelledError("stopping");
  const ArtifactId eager{ArtifactKey({{"eager", program.digest}}),
                         program.weights_digest};
  absl::Status status;
  if (!IsKnown(eager)) {
    status = RunEagerChild(program, threads, inputs, stop);
    if (status.ok()) Note(eager);
  }
  EndTurn();
  return status;
}

absl::Status FirstRun::RunEagerChild(const Program& program, int threads,
                                     absl::Span<const Tensor> inputs,
                                     const std::stop_token& stop) {
  ASSIGN_OR_RETURN(const std::string request,
                   TensorFileBytes(Numbered(inputs)));
  Subprocess::Options child_options{.argv = options_.argv};
  child_options.argv.push_back(program.path);
  child_options.argv.push_back(absl::StrCat(threads));
  auto child = Subprocess::Start(child_options);
  if (!child.ok()) {
    log::Warn("a program is not tried in a child process first: {}",
              std::string(child.status().message()));
    return absl::OkStatus();
  }
  const std::stop_callback kill(stop, [&child] { (*child)->Kill(); });
  const Conversation heard =
      Communicate(**child, request, options_.eager_time_limit);
  if (stop.stop_requested()) return absl::CancelledError("stopping");
  if (absl::StrContains(heard.reply, '\n')) return absl::OkStatus();
  const std::string how =
      absl::StrCat("its first eager run, in a child process: ", heard.end);
  return absl::StrContains(heard.end, "(Killed)")
             ? absl::ResourceExhaustedError(how)
             : absl::InternalError(how);
}

void FirstRun::RunChildren(const std::string& program, int threads,
                           absl::Span<const CacheEntry> entries,
                           const std::stop_token& stop,
                           std::vector<absl::Status>& results) {
  std::vector<size_t> left;
  for (size_t i = 0; i < entries.size(); ++i) {
    if (!IsKnown(entries[i].id())) left.push_back(i);
  }
  while (!left.empty()) {
    Subprocess::Options child_options{.argv = options_.argv};
    child_options.argv.push_back(program);
    child_options.argv.push_back(absl::StrCat(threads));
    for (const size_t i : left) {
      child_options.argv.push_back(AsSeenByAChild(entries[i].verified->path()));
    }
    auto child = Subprocess::Start(child_options);
    if (!child.ok()) {
      log::Warn("artifacts are not tried in a child process first: {}",
                std::string(child.status().message()));
      return;
    }
    const std::stop_callback kill(stop, [&child] { (*child)->Kill(); });
    const Conversation heard = Communicate(**child, "", options_.time_limit);
    const size_t survived =
        std::min(static_cast<size_t>(
                     std::count(heard.reply.begin(), heard.reply.end(), '\n')),
                 left.size());
    for (size_t i = 0; i < survived; ++i) Note(entries[left[i]].id());
    left.erase(left.begin(),
               left.begin() + static_cast<std::ptrdiff_t>(survived));
    if (stop.stop_requested()) {
      for (const size_t i : left) {
        results[i] = absl::CancelledError("stopping");
      }
      return;
    }
    if (left.empty()) break;
    results[left[0]] = absl::InternalError(
        absl::StrCat("its first run, in a child process: ", heard.end));
    left.erase(left.begin());
  }
}

}  // namespace stoker
