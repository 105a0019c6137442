#include "models/device_places.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "metrics/catalog.h"

namespace stoker {
namespace {

// One batch computes while another's inputs and answers are copied; a third
// would only make both later.
constexpr int kRunsPerGpu = 2;

}  // namespace

DevicePlaces::DevicePlaces(int cores, ExecutableLoader& cpu, FindGpus find_gpus,
                           ResourceLimits limits, Clock& clock,
                           MetricRegistry& metrics)
    : clock_(clock),
      metrics_(metrics),
      find_gpus_(std::move(find_gpus)),
      cpu_(cpu),
      cpu_turns_(cores, clock, kPatience),
      pools_(std::move(limits), clock, metrics) {
  Show(cpu_turns_, "cpu");
}

absl::StatusOr<Placement> DevicePlaces::Find(const ModelSpec& spec) {
  ASSIGN_OR_RETURN(Placement placement, FindDevices(spec));
  for (DevicePlace& place : placement.places) {
    ASSIGN_OR_RETURN(place.resources, pools_.Find(spec, place.name));
  }
  return placement;
}

absl::StatusOr<Placement> DevicePlaces::FindDevices(const ModelSpec& spec) {
  if (!spec.on_gpu()) {
    return Placement{.places = {{"cpu", &cpu_, &cpu_turns_}}};
  }
  const std::string asked = absl::StrJoin(
      spec.devices, ", ",
      [](std::string* out, const Device& device) { *out += device.Text(); });
  absl::StatusOr<Gpus*> gpus =
      find_gpus_ ? find_gpus_()
                 : absl::FailedPreconditionError("this server uses no GPU");
  absl::StatusOr<Placement> found =
      gpus.ok() ? FindOnGpus(spec, **gpus) : gpus.status();
  if (found.ok()) return found;
  return absl::Status(found.status().code(),
                      absl::StrCat("device ", asked, " was asked for: ",
                                   found.status().message()));
}

absl::StatusOr<Placement> DevicePlaces::FindOnGpus(const ModelSpec& spec,
                                                   Gpus& gpus) {
  std::vector<int64_t> free_bytes;
  for (const GpuFacts& gpu : gpus.facts()) {
    // Asking may start the GPU: only where it decides.
    const bool any = spec.devices.front().kind == Device::Kind::kAnyGpu;
    free_bytes.push_back(any ? gpus.FreeBytes(gpu.index) : 0);
  }
  Placement placement;
  for (const Device& device : spec.devices) {
    ASSIGN_OR_RETURN(const int index,
                     FindGpu(device, gpus.facts(), free_bytes));
    const GpuFacts& facts = gpus.facts()[static_cast<size_t>(index)];
    const std::string name = absl::StrCat("cuda:", index);
    if (placement.gpu.has_value() && *placement.gpu != facts.target) {
      return absl::FailedPreconditionError(absl::StrCat(
          name, " (", facts.name, ") differs from ",
          placement.places.front().name,
          "; a list has to be of equal GPUs, which run the same code"));
    }
    const bool twice =
        std::any_of(placement.places.begin(), placement.places.end(),
                    [&](const DevicePlace& p) { return p.name == name; });
    if (twice) {
      return absl::FailedPreconditionError(
          absl::StrCat(name, " is in the list twice"));
    }
    placement.gpu = facts.target;
    ASSIGN_OR_RETURN(ExecutableLoader* const loader, gpus.Loader(index));
    placement.places.push_back({name, loader, &TurnsOf(index)});
    log::Info("{}: on {}, {}, {}", spec.Label(), name, facts.name,
              facts.target.Text());
  }
  return placement;
}

DeviceTurns& DevicePlaces::TurnsOf(int gpu) {
  std::unique_ptr<DeviceTurns>& turns = gpu_turns_[gpu];
  if (turns == nullptr) {
    turns = std::make_unique<DeviceTurns>(kRunsPerGpu, clock_);
    Show(*turns, absl::StrCat("cuda:", gpu));
  }
  return *turns;
}

void DevicePlaces::Show(DeviceTurns& turns, const std::string& device) {
  const Labels labels = {{"resource", device}};
  turns.Show(metrics_.Gauge(metric::kResourceUnits, labels),
             metrics_.Gauge(metric::kResourceUnitsTaken, labels));
}

}  // namespace stoker
