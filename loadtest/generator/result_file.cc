#include "loadtest/generator/result_file.h"

#include <sys/utsname.h>

#include <cerrno>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/errno_status.h"
#include "loadtest/generator/client_use.h"

namespace stoker::loadtest {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kFormat = 1;

// "model name" of the first processor.
std::string ProcessorName() {
  std::ifstream file("/proc/cpuinfo");
  std::string line;
  while (std::getline(file, line)) {
    const size_t colon = line.find(": ");
    if (line.rfind("model name", 0) == 0 && colon != line.npos)
      return line.substr(colon + 2);
  }
  return "unknown";
}

Json MachineJson() {
  utsname name{};
  uname(&name);
  return {{"processor", ProcessorName()},
          {"cores", AvailableCores()},
          {"kernel", absl::StrCat(name.sysname, " ", name.release)}};
}

Json ModelJson(const inference::ModelMetadataResponse& model) {
  const auto tensors = [](const auto& list) {
    Json json = Json::array();
    for (const auto& tensor : list) {
      json.push_back({{"name", tensor.name()},
                      {"datatype", tensor.datatype()},
                      {"shape", std::vector<int64_t>(tensor.shape().begin(),
                                                     tensor.shape().end())}});
    }
    return json;
  };
  return {{"name", model.name()},
          {"platform", model.platform()},
          {"inputs", tensors(model.inputs())},
          {"outputs", tensors(model.outputs())}};
}

Json ScenarioJson(const Scenario& scenario, const RunResult& result) {
  return {{"name", scenario.name},
          {"method", scenario.stream ? "ModelStreamInfer" : "ModelInfer"},
          {"connections", scenario.connections},
          {"client_threads", result.threads},
          {"seed", scenario.seed},
          {"distinct_requests", result.messages},
          {"mean_request_bytes",
           result.message_bytes / std::max<size_t>(result.messages, 1)},
          {"timeout_ms", absl::ToDoubleMilliseconds(scenario.timeout)},
          {"answers_checked", scenario.check_answers},
          {"slo",
           {{"latency_ms", absl::ToDoubleMilliseconds(scenario.slo.latency)},
            {"percentile", scenario.slo.percentile},
            {"max_errors", scenario.slo.max_errors}}}};
}

}  // namespace

Json ResultJson(const Scenario& scenario, const std::string& address,
                const RunResult& result,
                const std::map<std::string, std::string>& labels) {
  Json json = {
      {"format", kFormat},
      {"tool", absl::StrCat("stoker-loadtest ", STOKER_VERSION)},
      {"finished", absl::FormatTime(absl::RFC3339_sec, Clock::Real().WallNow(),
                                    absl::UTCTimeZone())},
      {"labels", labels},
      {"client_machine", MachineJson()},
      {"address", address},
      {"server",
       {{"name", result.server.name()}, {"version", result.server.version()}}},
      {"model", ModelJson(result.model)},
      {"scenario", ScenarioJson(scenario, result)}};
  json["steps"] = Json::array();
  for (const StepResult& step : result.steps)
    json["steps"].push_back(StepJson(step, scenario.slo));
  return json;
}

absl::Status WriteText(const std::string& path, const std::string& text) {
  errno = 0;
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << text;
  file.close();
  if (file.good()) return absl::OkStatus();
  return ErrnoStatus(errno == 0 ? EIO : errno, absl::StrCat("write ", path));
}

}  // namespace stoker::loadtest
