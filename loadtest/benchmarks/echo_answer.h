// What the echo server answers: the output is the first bytes of the input.
//
// Thread-safe.
#pragma once

#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "open_inference.pb.h"
#include "tensor/tensor.h"

namespace stoker::loadtest {

// "x:FP32:-1,16"
struct EchoTensor {
  std::string name;
  DataType dtype = DataType::kFp32;
  Shape shape;  // the first axis is the batch, -1; the others are fixed

  size_t row_bytes() const;
};

absl::StatusOr<EchoTensor> ParseEchoTensor(const std::string& text);

// One input and one output, which is no longer than the input.
struct EchoModel {
  std::string name;
  EchoTensor input, output;

  inference::ModelMetadataResponse Metadata() const;

  // The two ways to answer. INVALID_ARGUMENT for a request that is not of one
  // raw input with as many bytes as its first size says.
  grpc::Status Answer(const inference::ModelInferRequest& request,
                      inference::ModelInferResponse* response) const;
  // Reads the few fields in front of the tensor's bytes and sends these as the
  // slices that they came in: no byte of the tensor is copied.
  grpc::Status Answer(const grpc::ByteBuffer& request,
                      grpc::ByteBuffer* response) const;
};

}  // namespace stoker::loadtest
