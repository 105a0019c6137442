#include "rpc/rpc_server.h"

#include <gmock/gmock.h>
#include <grpcpp/generic/generic_stub.h>

#include <thread>

#include "health.grpc.pb.h"
#include "tests/unit/rpc/serving_fixture.h"

namespace stoker {
namespace {

using grpc::health::v1::Health;
using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;
using ::testing::HasSubstr;

class RpcServerTest : public ServingTest {
 protected:
  // The status's name, or the code of the error.
  std::string Check(const std::string& service) {
    grpc::ClientContext context;
    HealthCheckRequest request;
    request.set_service(service);
    HealthCheckResponse response;
    const grpc::Status status =
        Health::NewStub(channel_)->Check(&context, request, &response);
    if (!status.ok()) return "error " + std::to_string(status.error_code());
    return HealthCheckResponse::ServingStatus_Name(response.status());
  }
};

TEST_F(RpcServerTest, HealthFollowsTheModels) {
  Start();
  EXPECT_EQ(Check("liveness"), "SERVING");
  for (const char* name :
       {"", "readiness", "startup", "inference.GRPCInferenceService"}) {
    EXPECT_EQ(Check(name), "NOT_SERVING") << name;
  }
  EXPECT_EQ(Check("author"), "error 5");
}

TEST_F(RpcServerTest, HealthOfAServerThatServes) {
  Serve();
  for (const char* name : {"", "liveness", "readiness", "startup",
                           "inference.GRPCInferenceService", "author"}) {
    EXPECT_EQ(Check(name), "SERVING") << name;
  }
  EXPECT_EQ(Check("nobody"), "error 5");

  manager_->Drain(MonotonicTime::InfiniteFuture());
  for (const char* name :
       {"", "readiness", "inference.GRPCInferenceService", "author"}) {
    EXPECT_EQ(Check(name), "NOT_SERVING") << name;
  }
  EXPECT_EQ(Check("liveness"), "SERVING");
  EXPECT_EQ(Check("startup"), "SERVING");
}

// Many loops end while each is to look for stalled calls all the time.
TEST_F(RpcServerTest, StopsWhileItLooksForStalls) {
  Start();
  RpcServerOptions options;
  options.address = "127.0.0.1:0";
  options.loops = 64;
  options.limits.stall_limit = absl::Microseconds(800);
  for (int i = 0; i < 5; ++i) {
    auto server = RpcServer::Start(options, *manager_, Clock::Real(), metrics_);
    ASSERT_TRUE(server.ok()) << server.status();
    (*server)->Shutdown(MonotonicTime::InfinitePast());
  }
}

TEST_F(RpcServerTest, WatchersSeeTheServerBecomeReady) {
  Start();
  grpc::ClientContext context;
  const auto stub = Health::NewStub(channel_);
  auto reader = stub->Watch(&context, HealthCheckRequest());
  HealthCheckResponse response;
  ASSERT_TRUE(reader->Read(&response));
  EXPECT_EQ(response.status(), HealthCheckResponse::NOT_SERVING);
  manager_->OnReadinessChange([this] { server_->UpdateHealth(); });
  manager_->Start();
  ASSERT_TRUE(reader->Read(&response));
  EXPECT_EQ(response.status(), HealthCheckResponse::SERVING);
  manager_->Drain(MonotonicTime::InfiniteFuture());
  ASSERT_TRUE(reader->Read(&response));
  EXPECT_EQ(response.status(), HealthCheckResponse::NOT_SERVING);
  server_->Shutdown(MonotonicTime::InfiniteFuture());
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
}

TEST_F(RpcServerTest, ReflectionListsTheServices) {
  Start();
  grpc::GenericStub stub(channel_);
  grpc::ClientContext context;
  grpc::CompletionQueue queue;
  const auto next = [&] {
    void* tag = nullptr;
    bool ok = false;
    return queue.Next(&tag, &ok) && ok;
  };
  auto call = stub.PrepareCall(
      &context,
      "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", &queue);
  call->StartCall(nullptr);
  ASSERT_TRUE(next());
  // ServerReflectionRequest{list_services: "*"}, then {file_containing_symbol:
  // ...}.
  for (const std::string& request :
       {std::string("\x3A\x01*"),
        std::string("\x22\x1E") + "inference.GRPCInferenceService"}) {
    const grpc::Slice slice(request);
    call->Write(grpc::ByteBuffer(&slice, 1), nullptr);
    ASSERT_TRUE(next());
    grpc::ByteBuffer response;
    call->Read(&response, nullptr);
    ASSERT_TRUE(next());
    grpc::Slice bytes;
    ASSERT_TRUE(response.DumpToSingleSlice(&bytes).ok());
    const std::string text(reinterpret_cast<const char*>(bytes.begin()),
                           bytes.size());
    if (request[0] == '\x3A') {
      EXPECT_THAT(text, HasSubstr("inference.GRPCInferenceService"));
      EXPECT_THAT(text, HasSubstr("grpc.health.v1.Health"));
    } else {
      EXPECT_THAT(text, HasSubstr("raw_input_contents"));
    }
  }
  grpc::Status status;
  call->WritesDone(nullptr);
  ASSERT_TRUE(next());
  call->Finish(&status, nullptr);
  ASSERT_TRUE(next());
  EXPECT_TRUE(status.ok());
}

TEST_F(RpcServerTest, AddressesThatCannotBeBound) {
  Start();
  const auto start = [&](const std::string& address) {
    RpcServerOptions options;
    options.address = address;
    return RpcServer::Start(options, *manager_, Clock::Real(), metrics_)
        .status();
  };
  const std::string taken = "127.0.0.1:" + std::to_string(server_->port());
  EXPECT_EQ(start(taken).code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(start(taken).message()), HasSubstr(taken));
  EXPECT_EQ(start("203.0.113.1:0").code(), absl::StatusCode::kUnavailable);
  for (const char* wrong : {"127.0.0.1:99999", "127.0.0.1", "nonsense", ":8001",
                            "localhost:http", ""}) {
    EXPECT_EQ(start(wrong).code(), absl::StatusCode::kInvalidArgument) << wrong;
  }
}

TEST_F(RpcServerTest, StopLetsRunningRequestsFinish) {
  Serve();
  loader_.Hold();
  grpc::Status status;
  std::thread client([&] { status = Infer(Request(1)); });
  loader_.BlockUntilHeld(1);
  std::thread stop([&] { server_->Shutdown(MonotonicTime::InfiniteFuture()); });
  loader_.Release();
  client.join();
  stop.join();
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(Infer(Request(2)).error_code(), grpc::StatusCode::UNAVAILABLE);
  server_->Shutdown(
      MonotonicTime::InfiniteFuture());  // a second time changes nothing
}

TEST_F(RpcServerTest, StopCancelsWhatIsLateAtTheDeadline) {
  Serve();
  loader_.Hold();
  grpc::Status running, waiting;
  std::thread first([&] { running = Infer(Request(1)); });
  loader_.BlockUntilHeld(1);
  std::thread second([&] { waiting = Infer(Request(2)); });
  std::thread stop([&] { server_->Shutdown(MonotonicTime::InfinitePast()); });
  second.join();
  EXPECT_FALSE(waiting.ok());
  first.join();
  EXPECT_FALSE(running.ok());
  loader_.Release();  // a run can't be interrupted, and the stop waits for it
  stop.join();
}

}  // namespace
}  // namespace stoker
