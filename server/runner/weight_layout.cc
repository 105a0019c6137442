#include "runner/weight_layout.h"

#include <algorithm>

namespace stoker {
namespace {

constexpr int64_t kDeviceAlignment = 256;
constexpr uintptr_t kHostAlignment = 64;

int64_t RoundUp(int64_t bytes) {
  return (bytes + kDeviceAlignment - 1) / kDeviceAlignment * kDeviceAlignment;
}

}  // namespace

WeightLayout LayOutWeights(const StoredTensors& tensors) {
  struct Part {
    const std::byte* begin;
    const std::byte* end;
    const std::string* name;
  };
  std::vector<Part> parts;
  for (const auto& [name, tensor] : tensors) {
    parts.push_back({tensor.data, tensor.data + ExtentBytes(tensor), &name});
  }
  std::sort(parts.begin(), parts.end(), [](const Part& a, const Part& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.end > b.end;
  });
  WeightLayout layout;
  for (const Part& part : parts) {
    const bool overlaps =
        !layout.regions.empty() &&
        part.begin < layout.regions.back().host + layout.regions.back().bytes;
    if (!overlaps) {
      const auto past = static_cast<int64_t>(
          reinterpret_cast<uintptr_t>(part.begin) % kHostAlignment);
      layout.regions.push_back({part.begin, 0, RoundUp(layout.bytes) + past});
    }
    WeightLayout::Region& region = layout.regions.back();
    region.bytes = std::max(region.bytes, part.end - region.host);
    layout.bytes = region.offset + region.bytes;
    layout.offsets[*part.name] = region.offset + (part.begin - region.host);
  }
  return layout;
}

}  // namespace stoker
