// Where a model runs, as model.yaml and --default-device name it. A plain
// value; which of these devices a host has is runner's business.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace stoker {

struct Device {
  enum class Kind {
    kCpu,
    kGpu,        // by index among those that the process sees
    kAnyGpu,     // the one with most free memory when a version is loaded
    kGpuByUuid,  // a whole one, or a MIG slice
  };
  Kind kind = Kind::kCpu;
  int index = 0;     // of kGpu
  std::string uuid;  // of kGpuByUuid: "GPU-..." or "MIG-..."

  bool is_gpu() const { return kind != Kind::kCpu; }
  // As it is written: "cpu", "cuda:1", "cuda:auto", "cuda:MIG-...".
  std::string Text() const;
  friend bool operator==(const Device&, const Device&) = default;
};

// What a mistake is told: "cpu, cuda:0, cuda:auto, ...".
inline constexpr std::string_view kDeviceForms =
    "cpu, cuda:N, cuda:auto, cuda:GPU-<uuid> or cuda:MIG-<uuid>";

// INVALID_ARGUMENT, with the forms there are, for any other text.
absl::StatusOr<Device> ParseDevice(std::string_view text);

}  // namespace stoker
