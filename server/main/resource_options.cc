#include "main/resource_options.h"

#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/absl_view.h"
#include "repository/model_spec.h"
#include "tensor/device.h"

namespace stoker {
namespace {

// As metrics name it; empty: no such device.
std::string DeviceName(const std::string& text) {
  int index = 0;
  const bool number = absl::SimpleAtoi(text, &index) && index >= 0;
  const std::string name = number ? absl::StrCat("cuda:", index) : text;
  const absl::StatusOr<Device> device = ParseDevice(name);
  const bool one = device.ok() && (device->kind == Device::Kind::kCpu ||
                                   device->kind == Device::Kind::kGpu);
  return one ? name : "";
}

}  // namespace

absl::StatusOr<ResourceLimit> ParseResourceLimit(std::string_view text) {
  const std::vector<std::string> parts =
      absl::StrSplit(Absl(text), absl::MaxSplits(':', 2));
  ResourceLimit limit;
  limit.name = parts[0];
  bool fits = parts.size() > 1 && IsResourceName(limit.name) &&
              absl::SimpleAtoi(parts[1], &limit.count) && limit.count >= 1 &&
              limit.count <= kMostOfResource;
  if (parts.size() > 2) {
    limit.device = DeviceName(parts[2]);
    fits = fits && !limit.device.empty();
  }
  if (fits) return limit;
  return absl::InvalidArgumentError(absl::StrCat(
      "expected NAME:COUNT or NAME:COUNT:DEVICE, such as slots:4 or "
      "slots:4:cuda:0, with ",
      kResourceNames, ", a count from 1 to ", kMostOfResource,
      " and cpu or cuda:N, got \"", Absl(text), "\""));
}

void AddResourceOptions(CLI::App& app, ResourceLimits& limits) {
  app.add_option_function<std::string>(
         "--rate-limit",
         [&limits](const std::string& text) {
           limits.enforced = text != "off";
         },
         "off: no run waits for the resources that models name")
      ->check(CLI::IsMember({"execution_count", "off"}))
      ->default_str("execution_count");
  app.add_option_function<std::vector<std::string>>(
         "--rate-limit-resource",
         [&limits](const std::vector<std::string>& texts) {
           for (const std::string& text : texts) {
             limits.limits.push_back(*ParseResourceLimit(text));
           }
         },
         "NAME:COUNT or NAME:COUNT:DEVICE: how much there is of a resource "
         "that models name, on each device or on one; may be given again")
      ->check([](const std::string& text) {
        return std::string(ParseResourceLimit(text).status().message());
      });
}

}  // namespace stoker
