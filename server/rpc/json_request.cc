#include "rpc/json_request.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/absl_view.h"
#include "base/error_text.h"
#include "base/status_macros.h"
#include "rpc/json_elements.h"
#include "rpc/json_values.h"

namespace stoker {

const size_t kJsonPadding = simdjson::SIMDJSON_PADDING;

namespace {

using Entry = JsonRequest::Entry;

// A text of this size is read with memory that the thread keeps.
constexpr size_t kKept = 64 << 10;

// Reads one text; where it stands is simdjson's affair.
class Reader {
 public:
  explicit Reader(JsonRequest& request) : request_(request) {}

  absl::Status Read(ondemand::object root);

 private:
  absl::Status Count();
  absl::Status Text(ondemand::value value, const char* what, std::string& out);
  absl::Status Entries(ondemand::value value, const char* what,
                       std::vector<Entry>& entries);
  absl::Status Input(ondemand::object object, Entry& entry);
  absl::Status Output(ondemand::object object, Entry& entry);
  absl::Status Name(ondemand::object& object, const char* what, Entry& entry);
  absl::Status ReadShape(ondemand::value value, Entry& entry);
  absl::Status Data(ondemand::value value, Entry& entry);
  // `own` is told of each parameter, and says whether it was one of HTTP's.
  template <typename Own>
  absl::Status Parameters(ondemand::value value, ParameterMap& parameters,
                          Own own);

  JsonRequest& request_;
  size_t entries_ = 0;
};

// Whether the object has that field. Not OK: nothing more may be read of the
// text: simdjson has let go of it.
absl::StatusOr<bool> FindField(ondemand::object& object, std::string_view name,
                               ondemand::value& value) {
  const simdjson::error_code error =
      object.find_field_unordered(name).get(value);
  if (error == simdjson::SUCCESS) return true;
  if (error == simdjson::NO_SUCH_FIELD) return false;
  return Malformed(error);
}

absl::Status Reader::Count() {
  if (++entries_ <= kMaxJsonEntries) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("expected at most ", kMaxJsonEntries,
                   " inputs, outputs and parameters, got more"));
}

absl::Status Reader::Text(ondemand::value value, const char* what,
                          std::string& out) {
  std::string_view text;
  if (value.get_string().get(text) != simdjson::SUCCESS) {
    return BadJson("Unable to parse '", what, "': expected a string");
  }
  out = text;
  return absl::OkStatus();
}

absl::Status Reader::Read(ondemand::object root) {
  for (auto found : root) {
    ondemand::field field;
    STOKER_RETURN_IF_MALFORMED(std::move(found).get(field));
    std::string_view key;
    STOKER_RETURN_IF_MALFORMED(field.unescaped_key().get(key));
    if (key == "id") {
      RETURN_IF_ERROR(Text(field.value(), "id", request_.id));
    } else if (key == "parameters") {
      RETURN_IF_ERROR(
          Parameters(field.value(), request_.parameters,
                     [this](std::string_view name,
                            const inference::InferParameter& value) {
                       if (name != "binary_data_output") return false;
                       request_.binary_outputs = value.bool_param();
                       return value.parameter_choice_case() ==
                              inference::InferParameter::kBoolParam;
                     }));
    } else if (key == "inputs") {
      RETURN_IF_ERROR(Entries(field.value(), "inputs", request_.inputs));
    } else if (key == "outputs") {
      RETURN_IF_ERROR(Entries(field.value(), "outputs", request_.outputs));
    }
  }
  return absl::OkStatus();
}

absl::Status Reader::Entries(ondemand::value value, const char* what,
                             std::vector<Entry>& entries) {
  ondemand::array array;
  if (value.get_array().get(array) != simdjson::SUCCESS) {
    return BadJson("Unable to parse '", what, "': expected an array");
  }
  const bool is_input = &entries == &request_.inputs;
  if (!entries.empty()) return BadJson("got '", what, "' twice");
  for (auto found : array) {
    ondemand::object object;
    if (std::move(found).get_object().get(object) != simdjson::SUCCESS) {
      return BadJson("Unable to parse '", what, "': expected objects in it");
    }
    RETURN_IF_ERROR(Count());
    Entry& entry = entries.emplace_back();
    RETURN_IF_ERROR(is_input ? Input(object, entry) : Output(object, entry));
  }
  return absl::OkStatus();
}

absl::Status Reader::Name(ondemand::object& object, const char* what,
                          Entry& entry) {
  ondemand::value value;
  ASSIGN_OR_RETURN(const bool has_name, FindField(object, "name", value));
  if (!has_name) {
    return BadJson("Unable to parse '", what, "': expected a 'name' in each");
  }
  return Text(value, "name", entry.name);
}

absl::Status Reader::Input(ondemand::object object, Entry& entry) {
  RETURN_IF_ERROR(Name(object, "inputs", entry));
  ondemand::value value;
  ASSIGN_OR_RETURN(const bool has_shape, FindField(object, "shape", value));
  if (!has_shape) {
    return BadJson("Unable to parse 'shape' of input '", Excerpt(entry.name),
                   "': there is none");
  }
  RETURN_IF_ERROR(ReadShape(value, entry));
  ASSIGN_OR_RETURN(const bool has_datatype,
                   FindField(object, "datatype", value));
  if (!has_datatype) {
    return BadJson("Unable to parse 'datatype' of input '", Excerpt(entry.name),
                   "': there is none");
  }
  RETURN_IF_ERROR(Text(value, "datatype", entry.datatype));
  ASSIGN_OR_RETURN(const bool has_parameters,
                   FindField(object, "parameters", value));
  if (has_parameters) {
    RETURN_IF_ERROR(Parameters(
        value, entry.parameters,
        [&entry](std::string_view name,
                 const inference::InferParameter& given) {
          entry.shared_memory |= name == "shared_memory_region";
          if (name != "binary_data_size" ||
              given.parameter_choice_case() !=
                  inference::InferParameter::kInt64Param ||
              given.int64_param() < 0) {
            return false;
          }
          entry.binary_size = static_cast<uint64_t>(given.int64_param());
          return true;
        }));
    const auto bad = entry.parameters.find("binary_data_size");
    if (bad != entry.parameters.end()) {
      return BadJson("Unable to parse 'binary_data_size' of input '",
                     Excerpt(entry.name), "': expected an integer from 0");
    }
  }
  ASSIGN_OR_RETURN(const bool has_data, FindField(object, "data", value));
  return has_data ? Data(value, entry) : absl::OkStatus();
}

absl::Status Reader::Output(ondemand::object object, Entry& entry) {
  RETURN_IF_ERROR(Name(object, "outputs", entry));
  ondemand::value value;
  ASSIGN_OR_RETURN(const bool has_parameters,
                   FindField(object, "parameters", value));
  if (!has_parameters) return absl::OkStatus();
  return Parameters(
      value, entry.parameters,
      [&entry](std::string_view name, const inference::InferParameter& given) {
        entry.shared_memory |= name == "shared_memory_region";
        if (name != "binary_data") return false;
        entry.binary = given.bool_param();
        return given.parameter_choice_case() ==
               inference::InferParameter::kBoolParam;
      });
}

absl::Status Reader::ReadShape(ondemand::value value, Entry& entry) {
  ondemand::array array;
  const auto wrong = [&entry] {
    return BadJson("Unable to parse 'shape' of input '", Excerpt(entry.name),
                   "': expected an array of integers");
  };
  if (value.get_array().get(array) != simdjson::SUCCESS) return wrong();
  for (auto found : array) {
    ondemand::value size;
    if (std::move(found).get(size) != simdjson::SUCCESS) return wrong();
    int64_t number = 0;
    if (!ReadElement(TextOf(size), number)) return wrong();
    RETURN_IF_ERROR(Count());
    entry.shape.push_back(number);
  }
  return absl::OkStatus();
}

template <typename Own>
absl::Status Reader::Parameters(ondemand::value value, ParameterMap& parameters,
                                Own own) {
  ondemand::object object;
  if (value.get_object().get(object) != simdjson::SUCCESS) {
    return BadJson("Unable to parse 'parameters': expected an object");
  }
  for (auto found : object) {
    ondemand::field field;
    STOKER_RETURN_IF_MALFORMED(std::move(found).get(field));
    std::string_view name;
    STOKER_RETURN_IF_MALFORMED(field.unescaped_key().get(name));
    RETURN_IF_ERROR(Count());
    inference::InferParameter parameter;
    ondemand::value given = field.value();
    const std::string_view text = TextOf(given);
    int64_t number = 0;
    uint64_t large = 0;
    double real = 0;
    if (!text.empty() && text.front() == '"') {
      RETURN_IF_ERROR(
          Text(given, "parameters", *parameter.mutable_string_param()));
    } else if (text == "true" || text == "false") {
      parameter.set_bool_param(text == "true");
    } else if (ReadElement(text, number)) {
      parameter.set_int64_param(number);
    } else if (ReadElement(text, large)) {
      parameter.set_uint64_param(large);
    } else if (ReadElement(text, real)) {
      parameter.set_double_param(real);
    } else {
      return BadJson("parameter '", Excerpt(name),
                     "' has invalid type. It should be either 'int', 'bool', "
                     "or 'string'.");
    }
    if (own(name, parameter)) continue;
    parameters[std::string(name)] = std::move(parameter);
  }
  return absl::OkStatus();
}

absl::Status Reader::Data(ondemand::value value, Entry& entry) {
  const std::optional<DataType> dtype = ParseDataType(entry.datatype);
  const std::optional<int64_t> wanted = ElementCount(entry.shape);
  // What is wrong there is said by who knows the model.
  if (!dtype.has_value() || !wanted.has_value()) {
    entry.data.emplace(0);
    return absl::OkStatus();
  }
  std::string_view text;
  ondemand::array array;
  if (value.get_array().get(array) != simdjson::SUCCESS ||
      array.raw_json().get(text) != simdjson::SUCCESS ||
      array.reset().error()) {
    return BadJson("Unable to parse 'data' of input '", Excerpt(entry.name),
                   "': expected an array");
  }
  if (*dtype == DataType::kBytes) {
    std::string bytes;
    RETURN_IF_ERROR(ReadTexts(entry, array, 1, bytes));
    entry.data_size = bytes.size();
    bytes.copy(reinterpret_cast<char*>(entry.data.emplace(bytes.size()).data()),
               bytes.size());
    return absl::OkStatus();
  }
  // No more memory than what is there can fill.
  const size_t room = std::min(static_cast<uint64_t>(*wanted),
                               static_cast<uint64_t>(text.size() / 2 + 1));
  entry.data.emplace(room * DataTypeSize(*dtype));
  absl::Status status;
  const bool known = WithJsonType(*dtype, [&](auto type) {
    Elements<decltype(type)> elements(entry, entry.data->data(), room);
    status = elements.Read(array, 1);
    entry.data_size = elements.count() * sizeof(type);
  });
  if (known) return status;
  return BadJson("sending ", entry.datatype,
                 " data via JSON is not supported. Please use the binary data "
                 "format for input '",
                 Excerpt(entry.name), "'");
}

absl::Status ParseText(ondemand::parser& parser, std::string_view text,
                       JsonRequest& request) {
  ondemand::document document;
  STOKER_RETURN_IF_MALFORMED(
      parser
          .iterate(simdjson::padded_string_view(text.data(), text.size(),
                                                text.size() + kJsonPadding))
          .get(document));
  ondemand::object root;
  if (document.get_object().get(root) != simdjson::SUCCESS) {
    return BadJson(
        "failed to parse the request JSON buffer: expected an object");
  }
  RETURN_IF_ERROR(Reader(request).Read(root));
  const char* behind = nullptr;
  if (document.current_location().get(behind) == simdjson::OUT_OF_BOUNDS) {
    return absl::OkStatus();
  }
  return BadJson(
      "failed to parse the request JSON buffer: got something behind its end");
}

}  // namespace

size_t JsonReadLimit(size_t size) {
  constexpr size_t kPerByte = 16;
  constexpr size_t kPerEntry = 512;
  constexpr size_t kAlways = 1024;
  return kAlways + kPerByte * size +
         kPerEntry * std::min(kMaxJsonEntries, size / 2);
}

size_t MemoryOf(const JsonRequest& request) {
  constexpr size_t kPerEntry = 256;
  size_t size = 0;
  for (const auto* entries : {&request.inputs, &request.outputs}) {
    for (const Entry& entry : *entries) {
      size += kPerEntry * (1 + entry.parameters.size()) + entry.name.size() +
              (entry.data.has_value() ? entry.data->size() : 0);
    }
  }
  return size;
}

absl::Status ReadJsonRequest(std::string_view text, JsonRequest& request) {
  if (text.empty()) {
    return BadJson("failed to parse the request JSON buffer: it is empty");
  }
  if (text.size() > kKept) {
    ondemand::parser parser;
    return ParseText(parser, text, request);
  }
  thread_local const auto parser = std::make_unique<ondemand::parser>();
  return ParseText(*parser, text, request);
}

}  // namespace stoker
