// grpc.testing.TestService on the server's own transport, which gRPC's own
// clients test with the cases that they test each other's servers with.
//
//   interop_server [CERTIFICATE KEY]
//
// With the files of a certificate it speaks TLS. Prints the port of loopback
// that it listens on, in a line of its own; runs until its standard input ends.
#include <cstdio>
#include <deque>
#include <memory>
#include <string>
#include <utility>

#include "base/clock.h"
#include "metrics/metrics.h"
#include "testing.pb.h"
#include "wire/call.h"
#include "wire/tls_context.h"
#include "wire/wire_server.h"

namespace stoker {
namespace {

using grpc::testing::EchoStatus;
using grpc::testing::Payload;
using grpc::testing::ResponseParameters;
using grpc::testing::SimpleRequest;
using grpc::testing::SimpleResponse;
using grpc::testing::StreamingInputCallRequest;
using grpc::testing::StreamingInputCallResponse;
using grpc::testing::StreamingOutputCallRequest;
using grpc::testing::StreamingOutputCallResponse;

constexpr char kService[] = "/grpc.testing.TestService/";
constexpr int kMaxSize = 64 << 20;

template <typename Message>
ByteChain Serialised(const Message& message) {
  return ByteChain::Copy(message.SerializeAsString());
}

Payload Zeros(int size) {
  Payload payload;
  payload.set_body(std::string(static_cast<size_t>(size), '\0'));
  return payload;
}

CallStatus ToStatus(const EchoStatus& wanted) {
  return {static_cast<absl::StatusCode>(wanted.code()), wanted.message(), ""};
}

CallStatus Bad() {
  return {absl::StatusCode::kInvalidArgument,
          "expected a message of grpc.testing", ""};
}

class TestCall : public CallHandler {
 public:
  explicit TestCall(Call& call) : call_(call) {}

  void OnStart() override { call_.Read(); }
  void OnEndOfMessages() override { call_.Finish(Bad()); }
  void OnCancel() override {
    call_.Finish({absl::StatusCode::kCancelled, "", ""});
  }

 protected:
  Call& call_;
};

class EmptyCall final : public TestCall {
 public:
  using TestCall::TestCall;
  void OnMessage(const ByteChain& /*message*/) override { call_.Answer({}); }
};

class UnaryCall final : public TestCall {
 public:
  using TestCall::TestCall;
  void OnMessage(const ByteChain& message) override {
    SimpleRequest request;
    if (!request.ParseFromString(message.Joined()) ||
        request.response_size() < 0 || request.response_size() > kMaxSize) {
      return call_.Finish(Bad());
    }
    if (request.response_status().code() != 0) {
      return call_.Finish(ToStatus(request.response_status()));
    }
    SimpleResponse response;
    *response.mutable_payload() = Zeros(request.response_size());
    call_.Answer(Serialised(response));
  }
};

class StreamingInputCall final : public TestCall {
 public:
  using TestCall::TestCall;
  void OnMessage(const ByteChain& message) override {
    StreamingInputCallRequest request;
    if (!request.ParseFromString(message.Joined())) return call_.Finish(Bad());
    bytes_ += static_cast<int>(request.payload().body().size());
    call_.Read();
  }
  void OnEndOfMessages() override {
    StreamingInputCallResponse response;
    response.set_aggregated_payload_size(bytes_);
    call_.Answer(Serialised(response));
  }

 private:
  int bytes_ = 0;
};

// StreamingOutputCall too: its client sends one message, and no more.
class FullDuplexCall final : public TestCall {
 public:
  using TestCall::TestCall;
  void OnMessage(const ByteChain& message) override {
    StreamingOutputCallRequest request;
    if (!request.ParseFromString(message.Joined())) return call_.Finish(Bad());
    if (request.response_status().code() != 0) {
      return call_.Finish(ToStatus(request.response_status()));
    }
    for (const ResponseParameters& each : request.response_parameters()) {
      if (each.size() < 0 || each.size() > kMaxSize) {
        return call_.Finish(Bad());
      }
      sizes_.push_back(each.size());
    }
    GoOn();
  }
  void OnEndOfMessages() override { call_.Finish({}); }
  void OnWritten(bool ok) override {
    ok ? GoOn() : call_.Finish({absl::StatusCode::kCancelled, "", ""});
  }

 private:
  void GoOn() {
    if (sizes_.empty()) return call_.Read();
    StreamingOutputCallResponse response;
    *response.mutable_payload() = Zeros(sizes_.front());
    sizes_.pop_front();
    call_.Write(Serialised(response));
  }

  std::deque<int> sizes_;
};

std::unique_ptr<CallHandler> Handler(Call& call) {
  if (!call.method().starts_with(kService)) return nullptr;
  const std::string name = call.method().substr(sizeof(kService) - 1);
  if (name == "EmptyCall") return std::make_unique<EmptyCall>(call);
  if (name == "UnaryCall") return std::make_unique<UnaryCall>(call);
  if (name == "StreamingInputCall") {
    return std::make_unique<StreamingInputCall>(call);
  }
  if (name == "StreamingOutputCall" || name == "FullDuplexCall") {
    return std::make_unique<FullDuplexCall>(call);
  }
  return nullptr;
}

int Main(int argc, char** argv) {
  MetricRegistry metrics;
  std::unique_ptr<TlsContext> tls;
  WireOptions options;
  options.address = "127.0.0.1:0";
  options.loops = 2;
  if (argc == 3) {
    auto opened = TlsContext::Open({.certificate = argv[1], .key = argv[2]},
                                   metrics, Clock::Real());
    if (!opened.ok()) {
      std::fprintf(stderr, "%s\n", opened.status().ToString().c_str());
      return 1;
    }
    tls = *std::move(opened);
    options.tls = tls.get();
  }
  const auto server =
      WireServer::Start(options, Handler, metrics, Clock::Real());
  if (!server.ok()) {
    std::fprintf(stderr, "%s\n", server.status().ToString().c_str());
    return 1;
  }
  std::printf("%d\n", (*server)->port());
  std::fflush(stdout);
  while (std::getchar() != EOF) {
  }
  (*server)->Shutdown(MonotonicTime::InfinitePast());
  return 0;
}

}  // namespace
}  // namespace stoker

int main(int argc, char** argv) { return stoker::Main(argc, argv); }
