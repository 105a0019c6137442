// Messages of protobuf as JSON in Triton's way: names as in the .proto file,
// fields without a value too, integers of 64 bits as numbers.
//
// Thread-safe: a pure function.
#pragma once

#include <google/protobuf/message.h>

#include <string>

namespace stoker {

std::string MessageJson(const google::protobuf::Message& message);
// The same of a repeated field's messages, as an array.
std::string FieldJson(const google::protobuf::Message& message,
                      const std::string& field);

}  // namespace stoker
