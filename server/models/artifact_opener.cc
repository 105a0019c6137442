#include "models/artifact_opener.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_replace.h"
#include "base/status_macros.h"
#include "metrics/catalog.h"
#include "models/first_run.h"
#include "models/padded_run.h"

namespace stoker {

std::vector<absl::Status> ArtifactOpener::TryInChild(
    absl::Span<const CacheEntry> entries) const {
  FirstRun* const first_run = version_.deps.first_run;
  // On a GPU a child would take a second, and as much memory again, to try code
  // whose architecture has been looked at.
  if (first_run == nullptr || version_.spec.on_gpu()) {
    return std::vector<absl::Status>(entries.size(), absl::OkStatus());
  }
  return first_run->Check(version_.spec.HeldPath(), version_.compute_threads,
                          entries, version_.stop);
}

absl::StatusOr<ArtifactOpener::Opened> ArtifactOpener::Open(
    const WarmupStep& step, const CacheEntry& entry,
    const absl::Status& tried) const {
  RETURN_IF_ERROR(tried);
  Opened opened;
  ASSIGN_OR_RETURN(opened.executables, OpenOnEachThread(entry));
  ASSIGN_OR_RETURN(
      const DimensionSizes sizes,
      SizesToRun(version_.spec, step.sizes, *opened.executables.front()));
  const absl::Status ran = version_.made_up.Try(
      sizes, /*seed=*/0, [&](absl::Span<const Tensor> inputs) -> absl::Status {
        ASSIGN_OR_RETURN(opened.first_run, RunOnce(opened.executables, inputs));
        return absl::OkStatus();
      });
  // What it refuses it has run on.
  if (!ran.ok() && !absl::IsInvalidArgument(ran)) return ran;
  return opened;
}

absl::StatusOr<absl::Duration> ArtifactOpener::RunOnce(
    absl::Span<const std::shared_ptr<Executable>> executables,
    absl::Span<const Tensor> inputs) const {
  Clock& clock = *version_.deps.clock;
  absl::Duration shortest = absl::InfiniteDuration();
  for (size_t thread = 0; thread < executables.size(); ++thread) {
    RETURN_IF_ERROR(version_.device_threads.Run(
        static_cast<int>(thread), [&](ExecutionContext& context) {
          const MonotonicTime start = clock.Now();
          absl::Status ran = executables[thread]->Run(context, inputs).status();
          shortest = std::min(shortest, clock.Now() - start);
          return ran;
        }));
  }
  return shortest;
}

absl::StatusOr<std::vector<std::shared_ptr<Executable>>>
ArtifactOpener::OpenOnEachThread(const CacheEntry& entry) const {
  Clock& clock = *version_.deps.clock;
  std::vector<std::shared_ptr<Executable>> executables;
  const std::string& folder = entry.verified->path();
  for (int thread = 0; thread < version_.device_threads.count(); ++thread) {
    const MonotonicTime start = clock.Now();
    const ExecutableTiers::OnDevice& device = version_.tiers.device(thread);
    auto opened = device.place.loader->OpenAot(folder, device.weights);
    if (!opened.ok()) {
      return absl::Status(opened.status().code(),
                          absl::StrReplaceAll(opened.status().message(),
                                              {{folder, entry.folder}}));
    }
    version_.deps.metrics->Histogram(metric::kArtifactOpenSeconds)
        .Observe(absl::ToDoubleSeconds(clock.Now() - start));
    executables.push_back(*std::move(opened));
  }
  return executables;
}

}  // namespace stoker
