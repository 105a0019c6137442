#include "rpc/request_parameters.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/error_text.h"
#include "base/status_macros.h"

namespace stoker {
namespace {

using inference::InferParameter;

// `tensor`: whose parameter it is; empty: the request's.
absl::Status WrongType(absl::string_view name, absl::string_view expected,
                       absl::string_view tensor = "") {
  return absl::InvalidArgumentError(absl::StrCat(
      "invalid value type for '", name, "' parameter",
      tensor.empty() ? "" : " for ", tensor, ", expected ", expected, "."));
}

// int64 and uint64 are both in use among clients for counts.
absl::StatusOr<uint64_t> Unsigned(absl::string_view name,
                                  const InferParameter& value,
                                  absl::string_view tensor = "") {
  switch (value.parameter_choice_case()) {
    case InferParameter::kUint64Param:
      return value.uint64_param();
    case InferParameter::kInt64Param:
      if (value.int64_param() < 0) {
        return absl::InvalidArgumentError(
            absl::StrCat("invalid value for '", name, "' parameter",
                         tensor.empty() ? "" : " for ", tensor,
                         ", expected 0 or more, got ", value.int64_param()));
      }
      return static_cast<uint64_t>(value.int64_param());
    default:
      return WrongType(name, "int64_param or uint64_param", tensor);
  }
}

// Every request stands alone: what sequence it belongs to makes no difference,
// as at Triton for models without state.
absl::Status CheckSequence(absl::string_view name,
                           const InferParameter& value) {
  const auto type = value.parameter_choice_case();
  if (name != "sequence_id") {
    if (type == InferParameter::kBoolParam) return absl::OkStatus();
    return WrongType(name, "bool_param");
  }
  if (type == InferParameter::kInt64Param ||
      type == InferParameter::kUint64Param ||
      type == InferParameter::kStringParam) {
    return absl::OkStatus();
  }
  return WrongType(name, "int64_param or string_param");
}

absl::StatusOr<absl::Duration> Timeout(const InferParameter& value) {
  ASSIGN_OR_RETURN(const uint64_t microseconds, Unsigned("timeout", value));
  if (microseconds == 0 ||
      microseconds >
          static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
    return absl::InfiniteDuration();
  }
  return absl::Microseconds(static_cast<int64_t>(microseconds));
}

absl::Status CheckReserved(const std::string& name,
                           const InferParameter& value) {
  if (name == "triton_enable_empty_final_response") {
    if (value.parameter_choice_case() == InferParameter::kBoolParam)
      return absl::OkStatus();
    return WrongType(name, "bool_param");
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "parameter keys starting with 'triton_' are reserved and should not be "
      "specified: '",
      Excerpt(name), "'"));
}

}  // namespace

absl::StatusOr<RequestParameters> ParseRequestParameters(
    const ParameterMap& parameters) {
  RequestParameters parsed;
  for (const auto& [name, value] : parameters) {
    if (absl::StartsWith(name, "triton_")) {
      RETURN_IF_ERROR(CheckReserved(name, value));
    } else if (name == "timeout") {
      ASSIGN_OR_RETURN(parsed.timeout, Timeout(value));
    } else if (name == "priority") {
      ASSIGN_OR_RETURN(parsed.priority, Unsigned(name, value));
    } else if (name == "sequence_id" || name == "sequence_start" ||
               name == "sequence_end") {
      RETURN_IF_ERROR(CheckSequence(name, value));
    }
  }
  return parsed;
}

// What the model has no level for is its default one, which may be too urgent
// for the caller.
uint64_t PriorityFor(uint64_t asked, uint64_t ceiling, uint64_t levels,
                     uint64_t default_level) {
  if (ceiling == 0) return asked;
  if (asked == 0) return std::min(ceiling, levels);
  const uint64_t level = asked > levels ? default_level : asked;
  return std::min(std::max(level, ceiling), levels);
}

absl::StatusOr<TensorParameters> ParseTensorParameters(
    absl::string_view tensor, const ParameterMap& parameters) {
  TensorParameters parsed;
  std::optional<std::string_view> region;
  std::optional<uint64_t> offset;
  std::optional<uint64_t> byte_size;
  for (const auto& [name, value] : parameters) {
    if (name == "shared_memory_region") {
      if (value.parameter_choice_case() != InferParameter::kStringParam) {
        return WrongType(name, "string_param", tensor);
      }
      region = value.string_param();
    } else if (name == "shared_memory_offset") {
      ASSIGN_OR_RETURN(offset, Unsigned(name, value, tensor));
    } else if (name == "shared_memory_byte_size") {
      ASSIGN_OR_RETURN(byte_size, Unsigned(name, value, tensor));
    } else if (name == "classification") {
      ASSIGN_OR_RETURN(parsed.classes, Unsigned(name, value, tensor));
    }
  }
  if (!region.has_value()) {
    if (!offset.has_value() && !byte_size.has_value()) return parsed;
    return absl::InvalidArgumentError(absl::StrCat(
        offset.has_value() ? "'shared_memory_offset'"
                           : "'shared_memory_byte_size'",
        " can not be specified without 'shared_memory_region' parameter for ",
        tensor));
  }
  if (!byte_size.has_value()) {
    return absl::InvalidArgumentError(
        absl::StrCat("must specify 'shared_memory_byte_size' along with "
                     "'shared_memory_region' parameter for ",
                     tensor));
  }
  if (parsed.classes > 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("'classification' can not be specified with "
                     "'shared_memory_region' parameter for ",
                     tensor));
  }
  parsed.shared_memory = {*region, offset.value_or(0), *byte_size};
  return parsed;
}

}  // namespace stoker
