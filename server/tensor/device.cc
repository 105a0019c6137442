#include "tensor/device.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/absl_view.h"

namespace stoker {
namespace {

constexpr int kMostDevices = 64;

// "GPU-" or "MIG-" and a UUID's hexadecimal digits and dashes.
bool IsUuid(absl::string_view text) {
  if (!absl::ConsumePrefix(&text, "GPU-") &&
      !absl::ConsumePrefix(&text, "MIG-")) {
    return false;
  }
  constexpr size_t kLength = 36;
  return text.size() == kLength &&
         std::all_of(text.begin(), text.end(), [](char c) {
           return c == '-' || absl::ascii_isxdigit(c);
         });
}

}  // namespace

std::string Device::Text() const {
  switch (kind) {
    case Kind::kCpu:
      return "cpu";
    case Kind::kGpu:
      return absl::StrCat("cuda:", index);
    case Kind::kAnyGpu:
      return "cuda:auto";
    case Kind::kGpuByUuid:
      return absl::StrCat("cuda:", uuid);
  }
  return "?";
}

absl::StatusOr<Device> ParseDevice(std::string_view text) {
  absl::string_view rest = Absl(text);
  if (rest == "cpu") return Device{};
  int index = 0;
  if (absl::ConsumePrefix(&rest, "cuda:")) {
    if (rest == "auto") return Device{.kind = Device::Kind::kAnyGpu};
    if (IsUuid(rest)) {
      return Device{.kind = Device::Kind::kGpuByUuid,
                    .uuid = std::string(rest)};
    }
    const bool digits =
        !rest.empty() && std::all_of(rest.begin(), rest.end(), [](char c) {
          return absl::ascii_isdigit(c);
        });
    if (digits && absl::SimpleAtoi(rest, &index) && index < kMostDevices) {
      return Device{.kind = Device::Kind::kGpu, .index = index};
    }
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "expected ", Absl(kDeviceForms), ", got \"", Absl(text), "\""));
}

}  // namespace stoker
