#include "loadtest/benchmarks/echo_answer.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/wire_format_lite.h>
#include <grpc/slice.h>
#include <grpcpp/support/proto_buffer_reader.h>

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace stoker::loadtest {
namespace {

using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;
using google::protobuf::io::CodedOutputStream;

grpc::Status Refuse(const std::string& expected) {
  return {grpc::StatusCode::INVALID_ARGUMENT, "expected " + expected};
}

// Everything of an answer but its bytes.
void Describe(const EchoModel& model, int64_t rows, const std::string& id,
              inference::ModelInferResponse* response) {
  response->set_model_name(model.name);
  response->set_model_version("1");
  response->set_id(id);
  auto* output = response->add_outputs();
  output->set_name(model.output.name);
  output->set_datatype(std::string(DataTypeName(model.output.dtype)));
  output->add_shape(rows);
  for (size_t axis = 1; axis < model.output.shape.size(); ++axis)
    output->add_shape(model.output.shape[axis]);
}

// What lies where in a serialised request.
struct RequestParts {
  std::string id;
  int64_t rows = -1;
  size_t offset = 0, size = 0;  // of the tensor's bytes
};

// False when it is no such request.
bool ReadParts(const grpc::ByteBuffer& request, RequestParts* parts) {
  grpc::ByteBuffer copy = request;
  grpc::ProtoBufferReader reader(&copy);
  CodedInputStream input(&reader);
  using Request = inference::ModelInferRequest;
  while (const uint32_t tag = input.ReadTag()) {
    const int field = WireFormatLite::GetTagFieldNumber(tag);
    const bool bytes = WireFormatLite::GetTagWireType(tag) ==
                       WireFormatLite::WIRETYPE_LENGTH_DELIMITED;
    uint32_t length = 0;
    if (!bytes || !input.ReadVarint32(&length)) return false;
    if (field == Request::kRawInputContentsFieldNumber) {
      parts->offset = static_cast<size_t>(input.CurrentPosition());
      parts->size = length;
      // Nothing that matters comes behind it.
      return input.Skip(static_cast<int>(length));
    }
    std::string text;
    if (!input.ReadString(&text, static_cast<int>(length))) return false;
    if (field == Request::kIdFieldNumber) parts->id = std::move(text);
    if (field != Request::kInputsFieldNumber) continue;
    inference::ModelInferRequest::InferInputTensor tensor;
    if (!tensor.ParseFromString(text) || tensor.shape().empty()) return false;
    parts->rows = tensor.shape(0);
  }
  return false;
}

// Appends the slices of [offset, offset + size) of `buffer`, by reference.
void AppendRange(const grpc::ByteBuffer& buffer, size_t offset, size_t size,
                 std::vector<grpc::Slice>* slices) {
  std::vector<grpc::Slice> whole;
  if (!buffer.Dump(&whole).ok()) return;
  for (const grpc::Slice& slice : whole) {
    const size_t skipped = std::min(offset, slice.size());
    const size_t taken = std::min(size, slice.size() - skipped);
    if (taken > 0) {
      const grpc_slice counted = slice.c_slice();
      slices->emplace_back(grpc_slice_sub(counted, skipped, skipped + taken),
                           grpc::Slice::STEAL_REF);
      grpc_slice_unref(counted);
    }
    offset -= skipped;
    size -= taken;
  }
}

}  // namespace

size_t EchoTensor::row_bytes() const {
  size_t bytes = DataTypeSize(dtype);
  for (size_t axis = 1; axis < shape.size(); ++axis)
    bytes *= static_cast<size_t>(shape[axis]);
  return bytes;
}

absl::StatusOr<EchoTensor> ParseEchoTensor(const std::string& text) {
  const std::vector<std::string> parts = absl::StrSplit(text, ':');
  EchoTensor tensor;
  const auto dtype = parts.size() == 3 ? ParseDataType(parts[1]) : std::nullopt;
  bool right = dtype.has_value() && *dtype != DataType::kBytes;
  if (right) {
    tensor.name = parts[0];
    tensor.dtype = *dtype;
    for (const absl::string_view axis : absl::StrSplit(parts[2], ',')) {
      int64_t size = 0;
      const bool first = tensor.shape.empty();
      right = right && absl::SimpleAtoi(axis, &size) &&
              (first ? size == -1 : size > 0);
      tensor.shape.push_back(size);
    }
  }
  if (right) return tensor;
  return absl::InvalidArgumentError(
      absl::StrCat("expected NAME:DATATYPE:-1,SIZE,..., got '", text, "'"));
}

inference::ModelMetadataResponse EchoModel::Metadata() const {
  inference::ModelMetadataResponse metadata;
  metadata.set_name(name);
  metadata.add_versions("1");
  metadata.set_platform("echo");
  const auto describe = [](const EchoTensor& from, auto* to) {
    to->set_name(from.name);
    to->set_datatype(std::string(DataTypeName(from.dtype)));
    for (const int64_t size : from.shape) to->add_shape(size);
  };
  describe(input, metadata.add_inputs());
  describe(output, metadata.add_outputs());
  return metadata;
}

grpc::Status EchoModel::Answer(const inference::ModelInferRequest& request,
                               inference::ModelInferResponse* response) const {
  if (request.inputs_size() != 1 || request.raw_input_contents_size() != 1 ||
      request.inputs(0).shape().empty()) {
    return Refuse("one raw input");
  }
  const int64_t rows = request.inputs(0).shape(0);
  const std::string& bytes = request.raw_input_contents(0);
  if (rows < 0 || bytes.size() != static_cast<size_t>(rows) * input.row_bytes())
    return Refuse("as many bytes as the shape says");
  Describe(*this, rows, request.id(), response);
  response->add_raw_output_contents(
      bytes.data(), static_cast<size_t>(rows) * output.row_bytes());
  return grpc::Status::OK;
}

grpc::Status EchoModel::Answer(const grpc::ByteBuffer& request,
                               grpc::ByteBuffer* response) const {
  RequestParts parts;
  if (!ReadParts(request, &parts) || parts.rows < 0 ||
      parts.size != static_cast<size_t>(parts.rows) * input.row_bytes()) {
    return Refuse("one raw input with as many bytes as its shape says");
  }
  inference::ModelInferResponse header;
  Describe(*this, parts.rows, parts.id, &header);
  const size_t size = static_cast<size_t>(parts.rows) * output.row_bytes();
  std::string head = header.SerializeAsString();
  {
    google::protobuf::io::StringOutputStream stream(&head);
    CodedOutputStream coded(&stream);
    coded.WriteTag(WireFormatLite::MakeTag(
        inference::ModelInferResponse::kRawOutputContentsFieldNumber,
        WireFormatLite::WIRETYPE_LENGTH_DELIMITED));
    coded.WriteVarint32(static_cast<uint32_t>(size));
  }
  std::vector<grpc::Slice> slices;
  slices.emplace_back(head);
  AppendRange(request, parts.offset, size, &slices);
  grpc::ByteBuffer answer(slices.data(), slices.size());
  response->Swap(&answer);
  return grpc::Status::OK;
}

}  // namespace stoker::loadtest
