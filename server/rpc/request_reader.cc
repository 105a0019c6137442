#include "rpc/request_reader.h"

#include <google/protobuf/io/coded_stream.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "base/utf8.h"
#include "rpc/field_count.h"

namespace stoker {
namespace {

using google::protobuf::Arena;
using google::protobuf::io::CodedInputStream;
using inference::ModelInferRequest;

// A message may be nested this deep; each level of ours takes one.
const int kMaxDepth = CodedInputStream::GetDefaultRecursionLimit();

// Generated code takes no longer fields, so no longer message is usual.
constexpr int kMaxLength = std::numeric_limits<int32_t>::max() - 16;

// Inputs, outputs, tensors and dimensions together, of a message in the usual
// form. Each takes about a hundred bytes of the view, and two of the message.
constexpr int kMaxEntries = 1 << 14;

// What nobody knows is kept by generated code in memory of its own, up to
// thirty times the bytes on the wire. In a message of this size it may stay.
constexpr size_t kMaxUnknownBytes = 4096;

// Fields that are left to generated code. For each the slices are walked once.
constexpr size_t kMaxRests = 256;

// More texts than this are looked at where that keeps nobody waiting.
constexpr int kMaxTextBytes = 1 << 20;

constexpr uint32_t Varint(int field) {
  return static_cast<uint32_t>(field) << 3;
}
constexpr uint32_t Delimited(int field) { return Varint(field) | 2; }

bool IsUtf8(std::string_view text) {
  const bool ascii =
      std::all_of(text.begin(), text.end(), [](char c) { return c >= 0; });
  return ascii || ValidUtf8(text) == text;
}

}  // namespace

// Reads a message in the usual form; every method returns false for anything
// that is not, be it malformed or only unusual. Generated code judges then.
class RequestReader::Scanner {
 public:
  Scanner(CodedInputStream& in, RequestReader& reader)
      : in_(in), reader_(reader) {}

  bool Request(int end);

 private:
  using Input = RequestView::Input;
  using Output = RequestView::Output;

  bool InputTensor(int end, Input& input);
  bool OutputTensor(int end, Output& output);
  bool Raw(int end);
  bool PackedShape(int end, Shape& shape);
  bool ShapeElement(Shape& shape);
  bool Text(int end, std::string_view& text);
  bool LeaveToParse(int end, Rest::Of of, size_t index, int tag_position);

  // Reads the fields up to `end`, each with field(tag, where its tag began).
  template <class ReadField>
  bool Fields(int end, ReadField field) {
    while (in_.CurrentPosition() < end) {
      const int start = in_.CurrentPosition();
      uint32_t tag = 0;
      if (!Tag(tag) || !field(tag, start)) return false;
    }
    return in_.CurrentPosition() == end;
  }
  // Of one byte, as those of all known fields are.
  bool Tag(uint32_t& tag) {
    const int start = in_.CurrentPosition();
    tag = in_.ReadTagNoLastTag();
    return tag != 0 && in_.CurrentPosition() == start + 1;
  }
  // Of a field in a message that ends at `end`.
  bool Length(int end, int& length) {
    constexpr int kMaxVarintBytes = 5;
    const int start = in_.CurrentPosition();
    return in_.ReadVarintSizeAsInt(&length) &&
           in_.CurrentPosition() <= start + kMaxVarintBytes &&
           length <= end - in_.CurrentPosition();
  }
  bool SubmessageEnd(int end, int& inner_end) {
    int length = 0;
    if (!Length(end, length)) return false;
    inner_end = in_.CurrentPosition() + length;
    return true;
  }
  // Where the next `length` bytes lie if in one piece; else null.
  const void* NextPiece(int length) {
    const void* data = nullptr;
    int available = 0;
    if (length == 0) return "";
    in_.GetDirectBufferPointer(&data, &available);
    return available >= length ? data : nullptr;
  }
  bool CountEntry() { return ++entries_ <= kMaxEntries; }

  CodedInputStream& in_;
  RequestReader& reader_;
  int entries_ = 0;
  int text_left_ = kMaxTextBytes;
};

bool RequestReader::Scanner::Request(int end) {
  using Field = ModelInferRequest;
  RequestView& view = reader_.view_;
  return Fields(end, [&](uint32_t tag, int start) {
    int inner_end = 0;
    switch (tag) {
      case Delimited(Field::kModelNameFieldNumber):
        return Text(end, view.model_name);
      case Delimited(Field::kModelVersionFieldNumber):
        return Text(end, view.model_version);
      case Delimited(Field::kIdFieldNumber):
        return Text(end, view.id);
      case Delimited(Field::kParametersFieldNumber):
        return LeaveToParse(end, Rest::Of::kRequest, 0, start);
      case Delimited(Field::kInputsFieldNumber):
        return CountEntry() && SubmessageEnd(end, inner_end) &&
               InputTensor(inner_end, view.inputs.emplace_back());
      case Delimited(Field::kOutputsFieldNumber):
        return CountEntry() && SubmessageEnd(end, inner_end) &&
               OutputTensor(inner_end, view.outputs.emplace_back());
      case Delimited(Field::kRawInputContentsFieldNumber):
        return CountEntry() && Raw(end);
      default:
        return false;
    }
  });
}

bool RequestReader::Scanner::InputTensor(int end, Input& input) {
  using Field = ModelInferRequest::InferInputTensor;
  const size_t index = reader_.view_.inputs.size() - 1;
  return Fields(end, [&](uint32_t tag, int start) {
    switch (tag) {
      case Delimited(Field::kNameFieldNumber):
        return Text(end, input.name);
      case Delimited(Field::kDatatypeFieldNumber):
        return Text(end, input.datatype);
      case Delimited(Field::kShapeFieldNumber):
        return PackedShape(end, input.shape);
      case Varint(Field::kShapeFieldNumber):
        return ShapeElement(input.shape);
      case Delimited(Field::kParametersFieldNumber):
      case Delimited(Field::kContentsFieldNumber):
        return LeaveToParse(end, Rest::Of::kInput, index, start);
      default:
        return false;
    }
  });
}

bool RequestReader::Scanner::OutputTensor(int end, Output& output) {
  using Field = ModelInferRequest::InferRequestedOutputTensor;
  const size_t index = reader_.view_.outputs.size() - 1;
  return Fields(end, [&](uint32_t tag, int start) {
    switch (tag) {
      case Delimited(Field::kNameFieldNumber):
        return Text(end, output.name);
      case Delimited(Field::kParametersFieldNumber):
        return LeaveToParse(end, Rest::Of::kOutput, index, start);
      default:
        return false;
    }
  });
}

bool RequestReader::Scanner::Raw(int end) {
  int length = 0;
  if (!Length(end, length)) return false;
  RawContents& raw = reader_.view_.raw_input_contents.emplace_back();
  raw.size = static_cast<size_t>(length);
  raw.data = static_cast<const std::byte*>(NextPiece(length));
  if (raw.data == nullptr) {
    raw.scattered = &reader_.bytes_;
    raw.offset = static_cast<size_t>(in_.CurrentPosition());
  }
  return in_.Skip(length);
}

bool RequestReader::Scanner::PackedShape(int end, Shape& shape) {
  int shape_end = 0;
  if (!SubmessageEnd(end, shape_end)) return false;
  while (in_.CurrentPosition() < shape_end) {
    if (!ShapeElement(shape)) return false;
  }
  return in_.CurrentPosition() == shape_end;
}

bool RequestReader::Scanner::ShapeElement(Shape& shape) {
  // One of ten bytes is negative, or not written as generated code would.
  constexpr int kMaxVarintBytes = 9;
  const int start = in_.CurrentPosition();
  uint64_t value = 0;
  if (!CountEntry() || !in_.ReadVarint64(&value) ||
      in_.CurrentPosition() > start + kMaxVarintBytes) {
    return false;
  }
  shape.push_back(static_cast<int64_t>(value));
  return true;
}

bool RequestReader::Scanner::Text(int end, std::string_view& text) {
  int length = 0;
  if (!Length(end, length) || length > text_left_) return false;
  text_left_ -= length;
  if (const void* data = NextPiece(length)) {
    text = {static_cast<const char*>(data), static_cast<size_t>(length)};
    return in_.Skip(length) && IsUtf8(text);
  }
  std::string& joined = reader_.joined_.emplace_front();
  if (!in_.ReadString(&joined, length)) return false;
  text = joined;
  return IsUtf8(text);
}

bool RequestReader::Scanner::LeaveToParse(int end, Rest::Of of, size_t index,
                                          int tag_position) {
  int length = 0;
  if (reader_.rests_.size() == kMaxRests || !Length(end, length) ||
      !in_.Skip(length)) {
    return false;
  }
  const int size = in_.CurrentPosition() - tag_position;
  reader_.rests_.push_back({of, index, static_cast<size_t>(tag_position),
                            static_cast<size_t>(size)});
  reader_.bytes_to_parse_ += static_cast<size_t>(size);
  return true;
}

void RequestReader::Scan() {
  const size_t size = bytes_.size();
  if (size <= static_cast<size_t>(kMaxLength)) {
    const int end = static_cast<int>(size);
    if (const std::byte* data = bytes_.Contiguous(0, size)) {
      CodedInputStream in(reinterpret_cast<const uint8_t*>(data), end);
      usual_ = Scanner(in, *this).Request(end);
    } else {
      MessageStream stream(bytes_, 0, size);
      CodedInputStream in(&stream);
      usual_ = Scanner(in, *this).Request(end);
    }
  }
  if (!usual_) {
    view_ = RequestView();
    rests_.clear();
    joined_.clear();
    bytes_to_parse_ = std::max<size_t>(size, 1);
  }
  if (bytes_to_parse_ < static_cast<size_t>(kMaxFields)) return;
  MessageStream stream(bytes_, 0, size);
  CodedInputStream in(&stream);
  too_many_fields_ = !HasAtMostFields(in, kMaxFields);
}

bool RequestReader::Parse() {
  arena_.emplace();
  return usual_ ? ParseRests() : ParseAll();
}

bool RequestReader::Merge(const Rest& rest, int depth,
                          google::protobuf::Message& message) const {
  MessageStream stream(bytes_, rest.offset, rest.size);
  CodedInputStream in(&stream);
  in.SetRecursionLimit(depth);
  if (!message.MergeFromCodedStream(&in) || !in.ConsumedEntireMessage()) {
    return false;
  }
  if (rest.size > kMaxUnknownBytes) message.DiscardUnknownFields();
  return true;
}

bool RequestReader::ParseRests() {
  using InputTensor = ModelInferRequest::InferInputTensor;
  using OutputTensor = ModelInferRequest::InferRequestedOutputTensor;
  Arena* const arena = &*arena_;
  ModelInferRequest* request = nullptr;
  std::pair<InputTensor*, size_t> input = {nullptr, 0};
  std::pair<OutputTensor*, size_t> output = {nullptr, 0};
  for (const Rest& rest : rests_) {
    switch (rest.of) {
      case Rest::Of::kRequest: {
        if (request == nullptr) {
          request = Arena::CreateMessage<ModelInferRequest>(arena);
        }
        if (!Merge(rest, kMaxDepth, *request)) return false;
        view_.parameters = &request->parameters();
        break;
      }
      case Rest::Of::kInput: {
        if (input.first == nullptr || input.second != rest.index) {
          input = {Arena::CreateMessage<InputTensor>(arena), rest.index};
        }
        if (!Merge(rest, kMaxDepth - 1, *input.first)) return false;
        RequestView::Input& view = view_.inputs[rest.index];
        view.parameters = &input.first->parameters();
        if (input.first->has_contents()) {
          view.contents = &input.first->contents();
        }
        break;
      }
      case Rest::Of::kOutput: {
        if (output.first == nullptr || output.second != rest.index) {
          output = {Arena::CreateMessage<OutputTensor>(arena), rest.index};
        }
        if (!Merge(rest, kMaxDepth - 1, *output.first)) return false;
        view_.outputs[rest.index].parameters = &output.first->parameters();
        break;
      }
    }
  }
  return true;
}

bool RequestReader::ParseAll() {
  const size_t size = bytes_.size();
  if (size > static_cast<size_t>(std::numeric_limits<int32_t>::max())) {
    return false;
  }
  auto* request = Arena::CreateMessage<ModelInferRequest>(&*arena_);
  // The bound keeps protobuf from reserving memory for a length that only the
  // message itself claims.
  MessageStream stream(bytes_, 0, size);
  if (!request->ParseFromBoundedZeroCopyStream(&stream,
                                               static_cast<int>(size))) {
    return false;
  }
  if (size > kMaxUnknownBytes) request->DiscardUnknownFields();
  view_.model_name = request->model_name();
  view_.model_version = request->model_version();
  view_.id = request->id();
  view_.parameters = &request->parameters();
  for (const auto& input : request->inputs()) {
    view_.inputs.push_back(
        {input.name(), input.datatype(),
         Shape(input.shape().begin(), input.shape().end()), &input.parameters(),
         input.has_contents() ? &input.contents() : nullptr});
  }
  for (const auto& output : request->outputs()) {
    view_.outputs.push_back({output.name(), &output.parameters()});
  }
  for (const std::string& raw : request->raw_input_contents()) {
    view_.raw_input_contents.push_back(
        {.size = raw.size(),
         .data = reinterpret_cast<const std::byte*>(raw.data())});
  }
  return true;
}

}  // namespace stoker
