#include "rpc/message_json.h"

#include <google/protobuf/descriptor.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "rpc/json_answer.h"
#include "rpc/json_elements.h"

namespace stoker {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

template <typename T>
void AppendNumber(T number, std::string& out) {
  char text[kMaxElementText];
  out.append(text, WriteElement(number, text));
}

void AppendMessage(const Message& message, std::string& out);

// `index` of a repeated field; -1 of another.
void AppendValue(const Message& message, const FieldDescriptor* field,
                 int index, std::string& out) {
  const google::protobuf::Reflection& of = *message.GetReflection();
  const bool one = index < 0;
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return AppendNumber(one ? of.GetInt32(message, field)
                              : of.GetRepeatedInt32(message, field, index),
                          out);
    case FieldDescriptor::CPPTYPE_INT64:
      return AppendNumber(one ? of.GetInt64(message, field)
                              : of.GetRepeatedInt64(message, field, index),
                          out);
    case FieldDescriptor::CPPTYPE_UINT32:
      return AppendNumber(one ? of.GetUInt32(message, field)
                              : of.GetRepeatedUInt32(message, field, index),
                          out);
    case FieldDescriptor::CPPTYPE_UINT64:
      return AppendNumber(one ? of.GetUInt64(message, field)
                              : of.GetRepeatedUInt64(message, field, index),
                          out);
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return AppendNumber(one ? of.GetDouble(message, field)
                              : of.GetRepeatedDouble(message, field, index),
                          out);
    case FieldDescriptor::CPPTYPE_FLOAT:
      return AppendNumber(one ? of.GetFloat(message, field)
                              : of.GetRepeatedFloat(message, field, index),
                          out);
    case FieldDescriptor::CPPTYPE_BOOL:
      return AppendNumber(one ? of.GetBool(message, field)
                              : of.GetRepeatedBool(message, field, index),
                          out);
    case FieldDescriptor::CPPTYPE_ENUM:
      return AppendJsonText((one ? of.GetEnum(message, field)
                                 : of.GetRepeatedEnum(message, field, index))
                                ->name(),
                            out);
    case FieldDescriptor::CPPTYPE_STRING:
      return AppendJsonText(one ? of.GetString(message, field)
                                : of.GetRepeatedString(message, field, index),
                            out);
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return AppendMessage(one ? of.GetMessage(message, field)
                               : of.GetRepeatedMessage(message, field, index),
                           out);
  }
}

void AppendRepeated(const Message& message, const FieldDescriptor* field,
                    std::string& out) {
  const int size = message.GetReflection()->FieldSize(message, field);
  out.push_back('[');
  for (int i = 0; i < size; ++i) {
    if (i > 0) out.push_back(',');
    AppendValue(message, field, i, out);
  }
  out.push_back(']');
}

// Keys are texts, whatever they are in the map.
void AppendMap(const Message& message, const FieldDescriptor* field,
               std::string& out) {
  const google::protobuf::Reflection& of = *message.GetReflection();
  out.push_back('{');
  for (int i = 0; i < of.FieldSize(message, field); ++i) {
    const Message& entry = of.GetRepeatedMessage(message, field, i);
    if (i > 0) out.push_back(',');
    std::string key;
    AppendValue(entry, entry.GetDescriptor()->map_key(), -1, key);
    const bool is_text = !key.empty() && key.front() == '"';
    out.append(is_text ? key : absl::StrCat("\"", key, "\""));
    out.push_back(':');
    AppendValue(entry, entry.GetDescriptor()->map_value(), -1, out);
  }
  out.push_back('}');
}

void AppendMessage(const Message& message, std::string& out) {
  const google::protobuf::Descriptor& type = *message.GetDescriptor();
  const google::protobuf::Reflection& of = *message.GetReflection();
  bool first = true;
  out.push_back('{');
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor* field = type.field(i);
    // What may be absent, and is, means something else than its default.
    if (field->has_presence() && !of.HasField(message, field)) continue;
    if (!first) out.push_back(',');
    first = false;
    AppendJsonText(field->name(), out);
    out.push_back(':');
    if (field->is_map()) {
      AppendMap(message, field, out);
    } else if (field->is_repeated()) {
      AppendRepeated(message, field, out);
    } else {
      AppendValue(message, field, -1, out);
    }
  }
  out.push_back('}');
}

}  // namespace

std::string MessageJson(const Message& message) {
  std::string out;
  AppendMessage(message, out);
  return out;
}

std::string FieldJson(const Message& message, const std::string& field) {
  std::string out;
  AppendRepeated(message, message.GetDescriptor()->FindFieldByName(field), out);
  return out;
}

}  // namespace stoker
