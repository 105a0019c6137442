#include "rpc/response_encoder.h"

#include <charconv>
#include <limits>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/utf8.h"
#include "open_inference.pb.h"
#include "repository/model_spec.h"
#include "rpc/field_writer.h"
#include "rpc/status_mapping.h"

namespace stoker {
namespace {

using inference::ModelInferResponse;
using inference::ModelStreamInferResponse;
using OutputFields = ModelInferResponse::InferOutputTensor;

// Below this a copy costs less than a slice with a reference count of its own.
constexpr size_t kMinSharedBytes = 4096;

bool IsShared(const Tensor& tensor) {
  return tensor.byte_size >= kMinSharedBytes && tensor.owner != nullptr;
}

// An answer whose parts are counted, then written.
class ResponseEncoder {
 public:
  ResponseEncoder(const ModelSpec& spec, std::string_view id,
                  absl::Span<const int> outputs,
                  absl::Span<const Tensor> tensors, AnswerForm form)
      : spec_(spec),
        id_(id),
        outputs_(outputs),
        tensors_(tensors),
        form_(form) {
    char* const begin = version_text_;
    const char* const end =
        std::to_chars(begin, begin + sizeof(version_text_), spec.version).ptr;
    version_ = {begin, static_cast<size_t>(end - begin)};
  }

  // Of the ModelInferResponse.
  size_t Size() const {
    size_t size = TextSize(spec_.name) + TextSize(version_) + TextSize(id_) +
                  Parameters().size();
    for (const int index : outputs_) {
      size += DelimitedSize(OutputSize(index)) +
              DelimitedSize(tensors_[index].byte_size);
    }
    return size;
  }

  // `size` is Size().
  ByteChain Encode(size_t size) const {
    size_t written = size;
    for (const int index : outputs_) {
      if (IsShared(tensors_[index])) written -= tensors_[index].byte_size;
    }
    if (form_ == AnswerForm::kStream) written += PrefixSize(size);
    ByteBlock memory(written);
    FieldWriter writer(reinterpret_cast<uint8_t*>(memory.data()));
    if (form_ == AnswerForm::kStream) {
      writer.Prefix(ModelStreamInferResponse::kInferResponseFieldNumber, size);
    }
    WriteHead(writer);
    return WriteContents(memory, writer);
  }

 private:
  // The serialised field. In a stream Triton's clients look there for whether
  // more answers come to the request, and here none does.
  const std::string& Parameters() const {
    static const auto* const none = new std::string();
    static const auto* const final_response = [] {
      ModelInferResponse response;
      (*response.mutable_parameters())["triton_final_response"].set_bool_param(
          true);
      return new std::string(response.SerializeAsString());
    }();
    return form_ == AnswerForm::kStream ? *final_response : *none;
  }

  size_t OutputSize(int index) const {
    const Shape& shape = tensors_[index].shape;
    const size_t shape_size =
        shape.empty() ? 0 : DelimitedSize(VarintsSize(shape));
    return TextSize(spec_.outputs[index].name) +
           TextSize(DataTypeName(tensors_[index].dtype)) + shape_size;
  }

  // Everything but the raw contents.
  void WriteHead(FieldWriter& writer) const {
    writer.Text(ModelInferResponse::kModelNameFieldNumber, spec_.name);
    writer.Text(ModelInferResponse::kModelVersionFieldNumber, version_);
    writer.Text(ModelInferResponse::kIdFieldNumber, id_);
    writer.Content(Parameters().data(), Parameters().size());
    for (const int index : outputs_) {
      writer.Prefix(ModelInferResponse::kOutputsFieldNumber, OutputSize(index));
      writer.Text(OutputFields::kNameFieldNumber, spec_.outputs[index].name);
      writer.Text(OutputFields::kDatatypeFieldNumber,
                  DataTypeName(tensors_[index].dtype));
      writer.PackedVarints(OutputFields::kShapeFieldNumber,
                           tensors_[index].shape);
    }
  }

  // The message's slices: parts of `memory`, and between them the tensors that
  // are shared.
  ByteChain WriteContents(ByteBlock& memory, FieldWriter& writer) const {
    ByteChain chain;
    const auto* const start = reinterpret_cast<const uint8_t*>(memory.data());
    size_t begin = 0;  // in `memory`, of what no slice shows yet
    const auto flush = [&] {
      const auto end = static_cast<size_t>(writer.next() - start);
      chain.Append(memory.Share(begin, end));
      begin = end;
    };
    for (const int index : outputs_) {
      const Tensor& tensor = tensors_[index];
      writer.Prefix(ModelInferResponse::kRawOutputContentsFieldNumber,
                    tensor.byte_size);
      if (IsShared(tensor)) {
        flush();
        chain.Append({tensor.owner, tensor.data, tensor.byte_size});
      } else {
        writer.Content(tensor.data, tensor.byte_size);
      }
    }
    flush();
    return chain;
  }

  const ModelSpec& spec_;
  const std::string_view id_;
  const absl::Span<const int> outputs_;
  const absl::Span<const Tensor> tensors_;
  const AnswerForm form_;
  char version_text_[20];  // the longest int64
  std::string_view version_;
};

}  // namespace

absl::Status EncodeResponse(const ModelSpec& spec, std::string_view id,
                            absl::Span<const int> outputs,
                            absl::Span<const Tensor> tensors, AnswerForm form,
                            ByteChain& message) {
  const ResponseEncoder encoder(spec, id, outputs, tensors, form);
  const size_t size = encoder.Size();
  constexpr size_t kWrapperBytes = 16;
  constexpr size_t kMaxBytes =
      std::numeric_limits<int32_t>::max() - kWrapperBytes;
  if (size > kMaxBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("the answer of model '", spec.name, "' would take ", size,
                     " bytes, expected at most ", kMaxBytes,
                     "; request fewer outputs or rows"));
  }
  message = encoder.Encode(size);
  return absl::OkStatus();
}

ByteChain EncodeStreamError(const absl::Status& status, std::string_view id) {
  ModelStreamInferResponse response;
  response.set_error_message(ValidUtf8(ToCallStatus(status).message));
  response.mutable_infer_response()->set_id(id.data(), id.size());
  return ByteChain::Copy(response.SerializeAsString());
}

}  // namespace stoker
