#include "rpc/load_request.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>

#include <cstdint>
#include <limits>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/error_text.h"
#include "open_inference.pb.h"
#include "rpc/message_bytes.h"

namespace stoker {
namespace {

using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;
using inference::ModelRepositoryParameter;
using inference::RepositoryModelLoadRequest;

constexpr int kMaxParameters = 100;
constexpr uint32_t kMapKey = 1;
constexpr uint32_t kMapValue = 2;

constexpr uint32_t Tag(int field) {
  return WireFormatLite::MakeTag(field,
                                 WireFormatLite::WIRETYPE_LENGTH_DELIMITED);
}

// One parameter's value, as far as it is a text or bytes.
struct ParameterValue {
  enum class Type { kNone, kText, kBytes, kOther };
  Type type = Type::kNone;
  std::string bytes;
};

// False, from any of these: it is no such message.
class LoadReader {
 public:
  explicit LoadReader(CodedInputStream& in) : in_(in) {}

  bool Read(bool parameters) {
    for (;;) {
      const uint32_t tag = in_.ReadTag();
      bool read = true;
      switch (tag) {
        case 0:
          return in_.ConsumedEntireMessage();
        case Tag(RepositoryModelLoadRequest::kRepositoryNameFieldNumber):
          read = WireFormatLite::ReadBytes(&in_, &request_.repository);
          break;
        case Tag(RepositoryModelLoadRequest::kModelNameFieldNumber):
          read = WireFormatLite::ReadBytes(&in_, &request_.model);
          break;
        case Tag(RepositoryModelLoadRequest::kParametersFieldNumber):
          if (++count_ > kMaxParameters) {
            Refuse(absl::StrCat("expected at most ", kMaxParameters,
                                " parameters, got more"));
            return true;
          }
          read = parameters ? Inner(&LoadReader::Parameter)
                            : WireFormatLite::SkipField(&in_, tag);
          break;
        default:
          read = WireFormatLite::SkipField(&in_, tag);
      }
      if (!read) return false;
    }
  }

  const absl::Status& status() const { return status_; }
  LoadRequest Take() { return std::move(request_); }

 private:
  bool Inner(bool (LoadReader::*read)()) {
    int length = 0;
    if (!in_.ReadVarintSizeAsInt(&length)) return false;
    const CodedInputStream::Limit limit = in_.PushLimit(length);
    const bool whole = (this->*read)() && in_.BytesUntilLimit() == 0;
    in_.PopLimit(limit);
    return whole;
  }

  bool Parameter() {
    std::string key;
    value_ = ParameterValue();
    for (uint32_t tag = in_.ReadTag(); tag != 0; tag = in_.ReadTag()) {
      bool read = true;
      if (tag == Tag(kMapKey)) {
        read = WireFormatLite::ReadBytes(&in_, &key);
      } else if (tag == Tag(kMapValue)) {
        read = Inner(&LoadReader::ReadValue);
      } else {
        read = WireFormatLite::SkipField(&in_, tag);
      }
      if (!read) return false;
    }
    Keep(key);
    return true;
  }

  bool ReadValue() {
    for (uint32_t tag = in_.ReadTag(); tag != 0; tag = in_.ReadTag()) {
      const bool is_text =
          tag == Tag(ModelRepositoryParameter::kStringParamFieldNumber);
      if (is_text ||
          tag == Tag(ModelRepositoryParameter::kBytesParamFieldNumber)) {
        if (!WireFormatLite::ReadBytes(&in_, &value_.bytes)) return false;
        value_.type = is_text ? ParameterValue::Type::kText
                              : ParameterValue::Type::kBytes;
      } else {
        if (!WireFormatLite::SkipField(&in_, tag)) return false;
        value_.type = ParameterValue::Type::kOther;
      }
    }
    return true;
  }

  void Keep(const std::string& key) {
    absl::string_view file = key;
    if (key == "config") {
      if (value_.type != ParameterValue::Type::kText) {
        return Refuse(
            "invalid value type for 'config' parameter, expected "
            "string_param.");
      }
      request_.override.config = std::move(value_.bytes);
    } else if (absl::ConsumePrefix(&file, "file:")) {
      if (value_.type != ParameterValue::Type::kBytes) {
        return Refuse(absl::StrCat("invalid value type for '", Excerpt(key),
                                   "' parameter, expected bytes_param."));
      }
      request_.override.files.insert_or_assign(std::string(file),
                                               std::move(value_.bytes));
    }
  }

  void Refuse(const std::string& why) {
    if (status_.ok()) status_ = absl::InvalidArgumentError(why);
  }

  CodedInputStream& in_;
  LoadRequest request_;
  absl::Status status_;
  ParameterValue value_;
  int count_ = 0;
};

}  // namespace

absl::StatusOr<LoadRequest> ReadLoadRequest(const ByteChain& message) {
  const MessageBytes bytes(message);
  MessageStream stream(bytes, 0, bytes.size());
  CodedInputStream in(&stream);
  LoadReader reader(in);
  if (!reader.Read(/*parameters=*/true)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "expected a serialised inference.RepositoryModelLoadRequest, got ",
        bytes.size(), " bytes that are none"));
  }
  if (!reader.status().ok()) return reader.status();
  return reader.Take();
}

std::optional<std::string> ModelOfLoadRequest(const ByteChain& message) {
  const MessageBytes bytes(message);
  MessageStream stream(bytes, 0, bytes.size());
  CodedInputStream in(&stream);
  LoadReader reader(in);
  if (!reader.Read(/*parameters=*/false) || !reader.status().ok()) {
    return std::nullopt;
  }
  return reader.Take().model;
}

}  // namespace stoker
