// The half of the codec that writes. Messages are put together from slices
// rather than by protobuf alone, because a serialised `bytes` field is its tag,
// its length and the bytes as they are: a tensor of any size can be sent from
// where it lies. For a 600 KiB answer that halves the cost.
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>

#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/utf8.h"
#include "models/model_manager.h"
#include "rpc/error_text.h"
#include "rpc/status_mapping.h"
#include "rpc/tensor_codec.h"

namespace stoker {
namespace {

using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedOutputStream;
using inference::ModelInferResponse;
using inference::ModelStreamInferResponse;

// Below this a copy costs less than a slice with a reference count of its own.
constexpr size_t kMinSharedBytes = 4096;

// Tag and length of a length-delimited field.
std::string FieldPrefix(int field, size_t length) {
  uint8_t bytes[16];
  uint8_t* end = CodedOutputStream::WriteTagToArray(
      WireFormatLite::MakeTag(field, WireFormatLite::WIRETYPE_LENGTH_DELIMITED),
      bytes);
  end = CodedOutputStream::WriteVarint64ToArray(length, end);
  return std::string(reinterpret_cast<char*>(bytes), end - bytes);
}

void DropOwner(void* owner) {
  delete static_cast<std::shared_ptr<const void>*>(owner);
}

grpc::Slice SharedSlice(const Tensor& tensor) {
  return grpc::Slice(const_cast<std::byte*>(tensor.data), tensor.byte_size,
                     DropOwner, new std::shared_ptr<const void>(tensor.owner));
}

// Collects small pieces into one slice, and keeps large ones apart.
class SliceWriter {
 public:
  void Copy(std::string_view bytes) { pending_.append(bytes); }

  void Add(const Tensor& tensor) {
    if (tensor.byte_size < kMinSharedBytes || tensor.owner == nullptr) {
      Copy({reinterpret_cast<const char*>(tensor.data), tensor.byte_size});
      return;
    }
    Flush();
    slices_.push_back(SharedSlice(tensor));
  }

  grpc::ByteBuffer Finish() {
    Flush();
    return grpc::ByteBuffer(slices_.data(), slices_.size());
  }

 private:
  void Flush() {
    if (pending_.empty()) return;
    slices_.emplace_back(pending_);
    pending_.clear();
  }

  std::string pending_;
  std::vector<grpc::Slice> slices_;
};

// Everything but the raw contents.
std::string Head(const ModelSpec& spec, std::string_view id,
                 absl::Span<const int> outputs,
                 absl::Span<const Tensor> tensors) {
  ModelInferResponse response;
  response.set_model_name(spec.name);
  response.set_model_version(absl::StrCat(spec.version));
  response.set_id(id.data(), id.size());
  for (const int index : outputs) {
    const Tensor& tensor = tensors[index];
    ModelInferResponse::InferOutputTensor& output = *response.add_outputs();
    output.set_name(spec.outputs[index].name);
    const std::string_view dtype = DataTypeName(tensor.dtype);
    output.set_datatype(dtype.data(), dtype.size());
    output.mutable_shape()->Add(tensor.shape.begin(), tensor.shape.end());
  }
  return response.SerializeAsString();
}

}  // namespace

absl::StatusOr<grpc::ByteBuffer> EncodeResponse(
    const ModelSpec& spec, std::string_view id, absl::Span<const int> outputs,
    absl::Span<const Tensor> tensors, AnswerForm form) {
  const std::string head = Head(spec, id, outputs, tensors);
  std::vector<std::string> prefixes;
  size_t total = head.size();
  for (const int index : outputs) {
    const size_t bytes = tensors[index].byte_size;
    prefixes.push_back(
        FieldPrefix(ModelInferResponse::kRawOutputContentsFieldNumber, bytes));
    total += prefixes.back().size() + bytes;
  }
  constexpr size_t kWrapperBytes = 16;
  constexpr size_t kMaxBytes =
      std::numeric_limits<int32_t>::max() - kWrapperBytes;
  if (total > kMaxBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("the answer of model '", spec.name, "' would take ", total,
                     " bytes, expected at most ", kMaxBytes,
                     "; request fewer outputs or rows"));
  }

  SliceWriter writer;
  if (form == AnswerForm::kStream) {
    writer.Copy(FieldPrefix(ModelStreamInferResponse::kInferResponseFieldNumber,
                            total));
  }
  writer.Copy(head);
  for (size_t i = 0; i < outputs.size(); ++i) {
    writer.Copy(prefixes[i]);
    writer.Add(tensors[outputs[i]]);
  }
  return writer.Finish();
}

grpc::ByteBuffer EncodeStreamError(const absl::Status& status,
                                   std::string_view id) {
  ModelStreamInferResponse response;
  response.set_error_message(ValidUtf8(ToGrpcStatus(status).error_message()));
  response.mutable_infer_response()->set_id(id.data(), id.size());
  const grpc::Slice slice(response.SerializeAsString());
  return grpc::ByteBuffer(&slice, 1);
}

}  // namespace stoker
