#include "rpc/trace_settings_service.h"

#include <cmath>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/error_text.h"
#include "base/json_field.h"
#include "base/json_text.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "open_inference.pb.h"
#include "rpc/json_control.h"
#include "rpc/unary_method.h"

namespace stoker {
namespace {

using inference::TraceSettingRequest;
using inference::TraceSettingResponse;
using Values = google::protobuf::RepeatedPtrField<std::string>;

constexpr char kOff[] = "OFF";
constexpr char kOn[] = "TIMESTAMPS";
// What these are, and stay.
constexpr char kMode[] = "opentelemetry";
constexpr char kCount[] = "-1";
constexpr char kLogFrequency[] = "0";

absl::Status Wrong(const std::string& name, absl::string_view expected,
                   const Values& values) {
  return absl::InvalidArgumentError(
      absl::StrCat("trace setting '", name, "': expected ", expected, ", got ",
                   Excerpt(absl::StrJoin(values, ", "))));
}

absl::Status TakeLevel(const Values& values, TraceSettings& settings) {
  if (values.size() != 1 || (values[0] != kOff && values[0] != kOn)) {
    return Wrong("trace_level",
                 "OFF or TIMESTAMPS (values of tensors are never traced)",
                 values);
  }
  settings.on = values[0] == kOn;
  return absl::OkStatus();
}

absl::Status TakeRate(const Values& values, TraceSettings& settings) {
  int32_t rate = 0;
  if (values.size() != 1 || !absl::SimpleAtoi(values[0], &rate) || rate < 0) {
    return Wrong("trace_rate",
                 "of how many requests one is traced, or 0 for those that "
                 "their clients trace",
                 values);
  }
  settings.sample = rate == 0 ? 0 : 1.0 / rate;
  return absl::OkStatus();
}

absl::Status Take(const std::string& name, const Values& values,
                  const TraceSettings& start, TraceSettings& settings) {
  const bool clears = values.empty();
  const auto fixed = [&](const char* is) {
    if (clears || (values.size() == 1 && values[0] == is)) {
      return absl::OkStatus();
    }
    return Wrong(name, is, values);
  };
  if (name == "trace_level") {
    if (!clears) return TakeLevel(values, settings);
    settings.on = start.on;
    return absl::OkStatus();
  }
  if (name == "trace_rate") {
    if (!clears) return TakeRate(values, settings);
    settings.sample = start.sample;
    return absl::OkStatus();
  }
  if (name == "trace_count") return fixed(kCount);
  if (name == "log_frequency") return fixed(kLogFrequency);
  if (name == "trace_mode") return fixed(kMode);
  if (name == "trace_file") {
    if (clears) return absl::OkStatus();
    return absl::UnimplementedError(
        "trace file location can not be updated through network protocol");
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "expected the trace settings trace_level and trace_rate, got '",
      Excerpt(name), "'"));
}

absl::Status Change(const TraceSettingRequest& request, Telemetry* telemetry) {
  if (request.settings().empty()) return absl::OkStatus();
  if (!request.model_name().empty()) {
    return absl::UnimplementedError(
        "trace settings of one model are not supported by this server: "
        "expected "
        "none in model_name, as they hold for all");
  }
  if (telemetry == nullptr || !telemetry->traces()) {
    return absl::UnavailableError(
        "expected the server to have a collector of traces "
        "(--trace-endpoint), it has none");
  }
  TraceSettings settings = telemetry->trace_settings();
  for (const auto& [name, value] : request.settings()) {
    RETURN_IF_ERROR(Take(name, value.value(),
                         telemetry->initial_trace_settings(), settings));
  }
  telemetry->SetTraces(settings);
  log::Info("trace settings: {}, {} of the requests without a trace",
            settings.on ? "on" : "off", settings.sample);
  return absl::OkStatus();
}

void Show(const TraceSettings& settings, TraceSettingResponse& response) {
  auto& shown = *response.mutable_settings();
  const int64_t rate =
      settings.sample > 0 ? std::llround(1 / settings.sample) : 0;
  shown["trace_level"].add_value(settings.on ? kOn : kOff);
  shown["trace_rate"].add_value(absl::StrCat(rate));
  shown["trace_count"].add_value(kCount);
  shown["log_frequency"].add_value(kLogFrequency);
  shown["trace_file"].add_value("");
  shown["trace_mode"].add_value(kMode);
}

}  // namespace

void AddTraceSettings(MethodTable& methods, Telemetry* telemetry) {
  AddUnary<TraceSettingRequest, TraceSettingResponse>(
      methods, InferencePath("TraceSetting"),
      [telemetry](const TraceSettingRequest& request,
                  TraceSettingResponse& response) -> absl::Status {
        RETURN_IF_ERROR(Change(request, telemetry));
        Show(telemetry == nullptr ? TraceSettings()
                                  : telemetry->trace_settings(),
             response);
        return absl::OkStatus();
      });
}

absl::StatusOr<std::string> TraceSettingRequestOf(const std::string& model,
                                                  std::string_view body) {
  ASSIGN_OR_RETURN(const nlohmann::json json, JsonObjectOf(body));
  TraceSettingRequest message;
  message.set_model_name(model);
  for (auto it = json.begin(); it != json.end(); ++it) {
    auto& setting = (*message.mutable_settings())[it.key()];
    const nlohmann::json& value = *it;
    if (value.is_null()) continue;
    const bool is_list = value.is_array();
    for (const nlohmann::json& one :
         is_list ? value : nlohmann::json::array({value})) {
      if (one.is_string()) {
        setting.add_value(one.get<std::string>());
      } else if (one.is_number_integer()) {
        setting.add_value(absl::StrCat(one.get<int64_t>()));
      } else {
        return absl::InvalidArgumentError(absl::StrCat(
            "trace setting '", Excerpt(it.key()),
            "': expected a string, an integer, a list of them, or null"));
      }
    }
  }
  return message.SerializeAsString();
}

std::string TraceSettingJson(const std::string& answer) {
  TraceSettingResponse message;
  message.ParseFromString(answer);
  nlohmann::json json = nlohmann::json::object();
  for (const auto& [name, setting] : message.settings()) {
    // Triton's form.
    if (name == "trace_level") {
      json[name] = std::vector<std::string>(setting.value().begin(),
                                            setting.value().end());
    } else {
      json[name] = absl::StrJoin(setting.value(), ", ");
    }
  }
  return JsonText(json);
}

}  // namespace stoker
