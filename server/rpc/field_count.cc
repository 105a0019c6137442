#include "rpc/field_count.h"

#include <google/protobuf/wire_format_lite.h>

#include <cstdint>

#include "open_inference.pb.h"

namespace stoker {
namespace {

using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;
using inference::ModelInferRequest;

enum class Of { kRequest, kInput, kOutput, kOther };

// What a field's content is, if that has fields that count.
Of Content(Of message, int field) {
  switch (message) {
    case Of::kRequest:
      if (field == ModelInferRequest::kInputsFieldNumber) return Of::kInput;
      if (field == ModelInferRequest::kOutputsFieldNumber) return Of::kOutput;
      return Of::kOther;
    default:
      return Of::kOther;
  }
}

bool IsMessage(Of message, int field) {
  using Input = ModelInferRequest::InferInputTensor;
  switch (message) {
    case Of::kRequest:
      return field == ModelInferRequest::kInputsFieldNumber ||
             field == ModelInferRequest::kOutputsFieldNumber;
    case Of::kInput:
      return field == Input::kContentsFieldNumber;
    default:
      return false;
  }
}

class FieldCounter {
 public:
  FieldCounter(CodedInputStream& in, int most) : in_(in), left_(most) {}

  // False: there are too many. Stops where it understands nothing.
  bool Message(Of of) {
    for (uint32_t tag = in_.ReadTag(); tag != 0 && !lost_;
         tag = in_.ReadTag()) {
      const bool counts = WireFormatLite::GetTagWireType(tag) ==
                          WireFormatLite::WIRETYPE_LENGTH_DELIMITED;
      if (counts && --left_ < 0) return false;
      const int field = WireFormatLite::GetTagFieldNumber(tag);
      if (counts && IsMessage(of, field)) {
        if (!Inner(Content(of, field))) return false;
      } else if (!WireFormatLite::SkipField(&in_, tag)) {
        lost_ = true;
      }
    }
    return true;
  }

 private:
  bool Inner(Of of) {
    int length = 0;
    if (!in_.ReadVarintSizeAsInt(&length)) {
      lost_ = true;
      return true;
    }
    const CodedInputStream::Limit limit = in_.PushLimit(length);
    const bool few = Message(of);
    in_.PopLimit(limit);
    return few;
  }

  CodedInputStream& in_;
  int left_;
  bool lost_ = false;
};

}  // namespace

bool HasAtMostFields(CodedInputStream& in, int most) {
  return FieldCounter(in, most).Message(Of::kRequest);
}

}  // namespace stoker
