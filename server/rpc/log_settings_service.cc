#include "rpc/log_settings_service.h"

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/error_text.h"
#include "base/json_text.h"
#include "base/log.h"
#include "base/log_levels.h"
#include "base/status_macros.h"
#include "open_inference.pb.h"
#include "rpc/json_control.h"
#include "rpc/unary_method.h"

namespace stoker {
namespace {

using inference::LogSettingsRequest;
using inference::LogSettingsResponse;
using Value = LogSettingsRequest::SettingValue;

// How the lines are, and stay.
constexpr char kFormat[] = "ISO8601";

absl::Status WrongType(const std::string& name, const char* expected) {
  return absl::InvalidArgumentError(absl::StrCat(
      "log setting '", name, "': expected ", expected, ", got another type"));
}

absl::Status Take(const std::string& name, const Value& value,
                  log::Levels& levels) {
  const auto take_bool = [&](bool& to) {
    if (!value.has_bool_param()) return WrongType(name, "a boolean");
    to = value.bool_param();
    return absl::OkStatus();
  };
  if (name == "log_info") return take_bool(levels.info);
  if (name == "log_warning") return take_bool(levels.warning);
  if (name == "log_error") return take_bool(levels.error);
  if (name == "log_verbose_level") {
    if (!value.has_uint32_param()) return WrongType(name, "an integer from 0");
    levels.verbose = value.uint32_param();
    return absl::OkStatus();
  }
  if (name == "log_file") {
    return absl::UnimplementedError(
        "log file location can not be updated through network protocol");
  }
  if (name == "log_format") {
    if (!value.has_string_param()) return WrongType(name, "a string");
    if (value.string_param() == kFormat) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("log setting 'log_format': expected '", kFormat,
                     "', got '", Excerpt(value.string_param()), "'"));
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "expected the log settings log_info, log_warning, log_error and "
      "log_verbose_level, got '",
      Excerpt(name), "'"));
}

// Under the old settings or under the new, where either lets it through.
void Change(const log::Levels& levels) {
  const auto say = [&] {
    const auto is = [](bool on) { return on ? "on" : "off"; };
    log::Info("log settings: info {}, warning {}, error {}, verbose level {}",
              is(levels.info), is(levels.warning), is(levels.error),
              levels.verbose);
  };
  if (levels.info) {
    log::SetLevels(levels);
    say();
  } else {
    say();
    log::SetLevels(levels);
  }
}

absl::Status LogSettings(const LogSettingsRequest& request,
                         LogSettingsResponse& response) {
  log::Levels levels = log::CurrentLevels();
  const log::Levels before = levels;
  for (const auto& [name, value] : request.settings()) {
    RETURN_IF_ERROR(Take(name, value, levels));
  }
  if (levels != before) {
    Change(levels);
  }
  auto& settings = *response.mutable_settings();
  settings["log_file"].set_string_param("");
  settings["log_info"].set_bool_param(levels.info);
  settings["log_warning"].set_bool_param(levels.warning);
  settings["log_error"].set_bool_param(levels.error);
  settings["log_verbose_level"].set_uint32_param(levels.verbose);
  settings["log_format"].set_string_param(kFormat);
  return absl::OkStatus();
}

}  // namespace

void AddLogSettings(MethodTable& methods) {
  AddUnary<LogSettingsRequest, LogSettingsResponse>(
      methods, InferencePath("LogSettings"), LogSettings);
}

absl::StatusOr<std::string> LogSettingsRequestOf(std::string_view body) {
  ASSIGN_OR_RETURN(const nlohmann::json json, JsonObjectOf(body));
  LogSettingsRequest message;
  for (auto it = json.begin(); it != json.end(); ++it) {
    Value& value = (*message.mutable_settings())[it.key()];
    if (it->is_boolean()) {
      value.set_bool_param(it->get<bool>());
    } else if (it->is_string()) {
      value.set_string_param(it->get<std::string>());
    } else if (it->is_number_unsigned() &&
               it->get<uint64_t>() <= std::numeric_limits<uint32_t>::max()) {
      value.set_uint32_param(it->get<uint32_t>());
    } else {
      return absl::InvalidArgumentError(
          absl::StrCat("log setting '", Excerpt(it.key()),
                       "': expected a boolean, an integer from 0 or a string"));
    }
  }
  return message.SerializeAsString();
}

std::string LogSettingsJson(const std::string& answer) {
  LogSettingsResponse message;
  message.ParseFromString(answer);
  nlohmann::json json = nlohmann::json::object();
  for (const auto& [name, value] : message.settings()) {
    if (value.has_bool_param()) {
      json[name] = value.bool_param();
    } else if (value.has_uint32_param()) {
      json[name] = value.uint32_param();
    } else {
      json[name] = value.string_param();
    }
  }
  return JsonText(json);
}

}  // namespace stoker
