#include "rpc/json_control.h"

#include <nlohmann/json.hpp>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/error_text.h"
#include "base/json_field.h"
#include "base/json_text.h"
#include "base/status_macros.h"
#include "open_inference.pb.h"

namespace stoker {
namespace {

absl::Status FillParameter(const std::string& name, const nlohmann::json& value,
                           inference::ModelRepositoryParameter& out) {
  if (value.is_boolean()) {
    out.set_bool_param(value.get<bool>());
  } else if (value.is_number_integer()) {
    out.set_int64_param(value.get<int64_t>());
  } else if (value.is_string() && absl::StartsWith(name, "file:")) {
    if (!absl::Base64Unescape(value.get_ref<const std::string&>(),
                              out.mutable_bytes_param())) {
      return absl::InvalidArgumentError(absl::StrCat(
          "parameter '", Excerpt(name), "': expected a file in base64"));
    }
  } else if (value.is_string()) {
    out.set_string_param(value.get<std::string>());
  } else {
    return absl::InvalidArgumentError(
        absl::StrCat("parameter '", Excerpt(name),
                     "' has invalid type. It should be either 'int', 'bool', "
                     "or 'string'."));
  }
  return absl::OkStatus();
}

template <typename Message>
absl::StatusOr<std::string> ControlRequestOf(const std::string& model,
                                             std::string_view body) {
  ASSIGN_OR_RETURN(const nlohmann::json json, JsonObjectOf(body));
  Message message;
  message.set_model_name(model);
  const nlohmann::json& parameters = Field(json, "parameters");
  for (auto it = parameters.begin(); it != parameters.end(); ++it) {
    if (!parameters.is_object()) break;
    RETURN_IF_ERROR(FillParameter(it.key(), *it,
                                  (*message.mutable_parameters())[it.key()]));
  }
  return message.SerializeAsString();
}

}  // namespace

absl::StatusOr<nlohmann::json> JsonObjectOf(std::string_view body) {
  nlohmann::json json = ReadJson(body.empty() ? "{}" : body);
  if (json.is_object()) return json;
  return absl::InvalidArgumentError(
      "failed to parse the request JSON buffer: expected an object");
}

absl::StatusOr<std::string> LoadRequestOfJson(const std::string& model,
                                              std::string_view body) {
  return ControlRequestOf<inference::RepositoryModelLoadRequest>(model, body);
}

absl::StatusOr<std::string> UnloadRequestOfJson(const std::string& model,
                                                std::string_view body) {
  return ControlRequestOf<inference::RepositoryModelUnloadRequest>(model, body);
}

}  // namespace stoker
