// Models and requests for the codec's tests.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "models/model_manager.h"
#include "open_inference.pb.h"
#include "rpc/request_reader.h"

namespace stoker {

// ids INT64 [batch,tokens], mask INT64 [batch,tokens], scale FP32
// [batch,2*tokens,3]
// -> embedding FP32 [batch,4], length INT64 [batch]; at most 8 rows.
inline ModelSpec TextModel() {
  const DimExpr batch = DimExpr::Dimension(0);
  const DimExpr tokens = DimExpr::Dimension(1);
  ModelSpec spec;
  spec.name = "text";
  spec.version = 3;
  spec.dimensions = {{"batch", "s0", 1, 64, true},
                     {"tokens", "s1", 1, 512, true}};
  spec.inputs = {
      {"ids", DataType::kInt64, {batch, tokens}, 0, {}},
      {"mask", DataType::kInt64, {batch, tokens}, 0, {}},
      {"scale",
       DataType::kFp32,
       {batch,
        DimExpr::Binary(DimExpr::Kind::kMul, DimExpr::Constant(2), tokens),
        DimExpr::Constant(3)},
       0,
       {}}};
  spec.outputs = {{"embedding", DataType::kFp32, {batch, DimExpr::Constant(4)}},
                  {"length", DataType::kInt64, {batch}}};
  spec.batch_dimension = 0;
  spec.max_batch_size = 8;
  spec.buckets = {{{1, 16}}, {{8, 16}}};
  return spec;
}

// x of `dtype` and size [2,n] -> y: no batch dimension, n is free.
inline ModelSpec PlainModel(DataType dtype) {
  ModelSpec spec;
  spec.name = "plain";
  spec.dimensions = {{"n", "s0", 0, INT64_MAX, false}};
  spec.inputs = {
      {"x", dtype, {DimExpr::Constant(2), DimExpr::Dimension(0)}, 0, {}}};
  spec.outputs = {{"y", dtype, {DimExpr::Constant(2), DimExpr::Dimension(0)}}};
  return spec;
}

inline inference::ModelInferRequest::InferInputTensor* AddInput(
    inference::ModelInferRequest& request, const std::string& name,
    const std::string& datatype, const std::vector<int64_t>& shape) {
  auto* input = request.add_inputs();
  input->set_name(name);
  input->set_datatype(datatype);
  input->mutable_shape()->Add(shape.begin(), shape.end());
  return input;
}

// A message in slices that show the pieces, which outlive it.
inline ByteChain InSlices(const std::vector<std::string>& pieces) {
  ByteChain chain;
  for (const std::string& piece : pieces) {
    chain.Append({nullptr, reinterpret_cast<const std::byte*>(piece.data()),
                  piece.size()});
  }
  return chain;
}

// What a server makes of the bytes; null when they are no ModelInferRequest.
inline std::shared_ptr<RequestReader> Received(const ByteChain& bytes) {
  auto reader = std::make_shared<RequestReader>(bytes);
  reader->Scan();
  if (reader->bytes_to_parse() > 0 && !reader->Parse()) return nullptr;
  return reader;
}
inline std::shared_ptr<RequestReader> Received(const std::string& bytes) {
  return Received(ByteChain::Copy(bytes));
}
inline std::shared_ptr<RequestReader> Received(
    const inference::ModelInferRequest& request) {
  return Received(request.SerializeAsString());
}

inline absl::Status AdmitAll(size_t /*bytes*/) { return absl::OkStatus(); }

template <typename T>
std::string Bytes(const std::vector<T>& values) {
  std::string bytes(values.size() * sizeof(T), '\0');
  if (!values.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

template <typename T>
std::vector<T> Values(const Tensor& tensor) {
  std::vector<T> values(tensor.byte_size / sizeof(T));
  if (!values.empty())
    std::memcpy(values.data(), tensor.data, tensor.byte_size);
  return values;
}

// A right request for TextModel(), raw: ids counts up, mask is all ones.
inline inference::ModelInferRequest TextRequest(int64_t batch, int64_t tokens) {
  inference::ModelInferRequest request;
  request.set_model_name("text");
  request.set_id("r1");
  AddInput(request, "ids", "INT64", {batch, tokens});
  AddInput(request, "mask", "INT64", {batch, tokens});
  AddInput(request, "scale", "FP32", {batch, 2 * tokens, 3});
  std::vector<int64_t> ids(batch * tokens);
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int64_t>(i);
  request.add_raw_input_contents(Bytes(ids));
  request.add_raw_input_contents(
      Bytes(std::vector<int64_t>(batch * tokens, 1)));
  request.add_raw_input_contents(
      Bytes(std::vector<float>(batch * tokens * 6, 0.5f)));
  return request;
}

}  // namespace stoker
