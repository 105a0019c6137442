// Connections to one server of the Open Inference Protocol, and the few calls
// that a load test makes before it starts.
//
// Thread-safe.
#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "loadtest/generator/shared_inputs.h"
#include "open_inference.grpc.pb.h"

namespace stoker::loadtest {

class Client {
 public:
  // Opens `connections` TCP connections, each with a channel of its own.
  // "tls:host:port" speaks TLS: $GRPC_DEFAULT_SSL_ROOTS_FILE_PATH names the
  // authorities. UNAVAILABLE, with the address, when one is not up within
  // `timeout`.
  static absl::StatusOr<std::unique_ptr<Client>> Connect(
      const std::string& address, int connections, absl::Duration timeout);

  const std::string& address() const { return address_; }
  const std::vector<std::shared_ptr<grpc::Channel>>& channels() const {
    return channels_;
  }

  // The server's code and text when it refuses.
  absl::StatusOr<inference::ModelMetadataResponse> ModelMetadata(
      const std::string& model, const std::string& version) const;
  // Empty for a server that does not offer it.
  inference::ServerMetadataResponse ServerMetadata() const;

  // Has the server register the inputs, in place of what an earlier load test
  // left. The server's code and text when it refuses.
  absl::Status Register(const SharedInputs& inputs) const;
  void Unregister() const;

  // Sends one serialised ModelInferRequest, by a stream where `stream` is set,
  // and checks the answer. INTERNAL when an output's bytes do not hold its
  // shape.
  absl::Status TryOnce(const grpc::ByteBuffer& message, bool stream) const;

 private:
  Client(std::string address,
         std::vector<std::shared_ptr<grpc::Channel>> channels)
      : address_(std::move(address)), channels_(std::move(channels)) {}

  const std::string address_;
  const std::vector<std::shared_ptr<grpc::Channel>> channels_;
};

// OK when every raw output holds exactly as many bytes as its shape and
// datatype say (BYTES: anything); INTERNAL otherwise.
absl::Status CheckAnswer(const inference::ModelInferResponse& answer);

}  // namespace stoker::loadtest
