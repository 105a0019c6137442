// A server behind a policy: its caller "web" has the token "secret".
#pragma once

#include <grpcpp/generic/generic_stub.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "access/gate.h"
#include "base/sha256.h"
#include "health.grpc.pb.h"
#include "tests/fakes/fake_clock.h"
#include "tests/unit/rpc/serving_fixture.h"

namespace stoker {

class AccessTest : public ServingTest {
 protected:
  // `rules`: of the callers web and anonymous.
  void Write(const std::string& rules) {
    const std::string fresh = path_ + ".new";
    std::ofstream(fresh) << "callers: {web: {tokens: [{sha256: "
                         << Sha256Hex(token_) << expires_ << "}]" << more_
                         << "}}\nrules: [" << rules << "]\n";
    ASSERT_EQ(chmod(fresh.c_str(), 0644), 0);
    std::filesystem::rename(fresh, path_);
  }
  void ServeWith(const std::string& rules) {
    Write(rules);
    auto gate = Gate::Open(path_, metrics_, gate_clock_);
    ASSERT_TRUE(gate.ok()) << gate.status();
    gate_ = *std::move(gate);
    options_.gate = gate_.get();
    Serve();
  }
  // The gate outlives the server.
  void TearDown() override {
    ServingTest::TearDown();
    server_.reset();
  }

  static void Show(grpc::ClientContext& context, const std::string& token) {
    if (!token.empty()) {
      context.AddMetadata("authorization", "Bearer " + token);
    }
  }

  // Of an empty message to any method.
  grpc::Status Call(const std::string& path, const std::string& token) {
    grpc::GenericStub stub(channel_);
    grpc::ClientContext context;
    Show(context, token);
    grpc::CompletionQueue queue;
    const auto call = stub.PrepareUnaryCall(&context, path, {}, &queue);
    call->StartCall();
    grpc::ByteBuffer answer;
    grpc::Status status;
    call->Finish(&answer, &status, nullptr);
    void* tag = nullptr;
    bool ok = false;
    queue.Next(&tag, &ok);
    queue.Shutdown();
    while (queue.Next(&tag, &ok)) continue;
    return status;
  }

  template <typename Request, typename Response>
  grpc::StatusCode Ask(
      grpc::Status (inference::GRPCInferenceService::Stub::*method)(
          grpc::ClientContext*, const Request&, Response*),
      const Request& request, const std::string& token = "secret") {
    grpc::ClientContext context;
    Show(context, token);
    Response response;
    return ((*stub_).*method)(&context, request, &response).error_code();
  }
  grpc::StatusCode Metadata(const std::string& model) {
    inference::ModelMetadataRequest request;
    request.set_name(model);
    return Ask(&inference::GRPCInferenceService::Stub::ModelMetadata, request);
  }
  grpc::StatusCode Health(const std::string& service) {
    grpc::ClientContext context;
    Show(context, "secret");
    grpc::health::v1::HealthCheckRequest request;
    request.set_service(service);
    grpc::health::v1::HealthCheckResponse response;
    return grpc::health::v1::Health::NewStub(channel_)
        ->Check(&context, request, &response)
        .error_code();
  }

  std::string token_ = "secret";
  std::string expires_;  // of the token: ", expires: ..."
  std::string more_;     // of its caller: ", priority: 2"
  FakeClock gate_clock_;
  const TempFolder policy_folder_;
  const std::string path_ = policy_folder_ / "policy.yaml";
  std::unique_ptr<Gate> gate_;
};

}  // namespace stoker
