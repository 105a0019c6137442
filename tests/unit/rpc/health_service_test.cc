#include "rpc/health_service.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>

#include "absl/synchronization/mutex.h"
#include "health.grpc.pb.h"
#include "wire/wire_server.h"

namespace stoker {
namespace {

using grpc::health::v1::Health;
using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;

class HealthServiceTest : public ::testing::Test {
 protected:
  HealthServiceTest()
      : service_([this](const std::string& name) { return Lookup(name); }) {
    MethodTable methods;
    service_.AddMethods(methods);
    WireOptions options;
    options.address = "127.0.0.1:0";
    auto server = WireServer::Start(
        options, [methods](Call& call) { return methods.NewHandler(call); },
        metrics_, Clock::Real());
    EXPECT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    stub_ = Health::NewStub(
        grpc::CreateChannel("127.0.0.1:" + std::to_string(server_->port()),
                            grpc::InsecureChannelCredentials()));
  }

  std::optional<bool> Lookup(const std::string& name) {
    absl::MutexLock lock(&mu_);
    const auto entry = states_.find(name);
    if (entry == states_.end()) return std::nullopt;
    return entry->second;
  }

  void Set(const std::string& name, bool serves) {
    {
      absl::MutexLock lock(&mu_);
      states_[name] = serves;
    }
    service_.Update();
  }

  grpc::Status Check(const std::string& name, HealthCheckResponse* response) {
    grpc::ClientContext context;
    HealthCheckRequest request;
    request.set_service(name);
    return stub_->Check(&context, request, response);
  }

  absl::Mutex mu_;
  std::map<std::string, bool> states_ ABSL_GUARDED_BY(mu_);
  HealthService service_;
  MetricRegistry metrics_;
  std::unique_ptr<WireServer> server_;
  std::unique_ptr<Health::Stub> stub_;
};

TEST_F(HealthServiceTest, Check) {
  Set("", false);
  Set("model", true);
  HealthCheckResponse response;
  ASSERT_TRUE(Check("", &response).ok());
  EXPECT_EQ(response.status(), HealthCheckResponse::NOT_SERVING);
  ASSERT_TRUE(Check("model", &response).ok());
  EXPECT_EQ(response.status(), HealthCheckResponse::SERVING);
  const grpc::Status unknown = Check("nobody", &response);
  EXPECT_EQ(unknown.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_THAT(unknown.error_message(), ::testing::HasSubstr("'nobody'"));
}

TEST_F(HealthServiceTest, WatchTellsTheStatusAndItsChanges) {
  grpc::ClientContext context;
  HealthCheckRequest request;
  request.set_service("model");
  auto reader = stub_->Watch(&context, request);
  HealthCheckResponse response;
  ASSERT_TRUE(reader->Read(&response));
  EXPECT_EQ(response.status(), HealthCheckResponse::SERVICE_UNKNOWN);
  Set("model", false);
  ASSERT_TRUE(reader->Read(&response));
  EXPECT_EQ(response.status(), HealthCheckResponse::NOT_SERVING);
  service_.Update();  // no change: nothing is written
  Set("model", true);
  ASSERT_TRUE(reader->Read(&response));
  EXPECT_EQ(response.status(), HealthCheckResponse::SERVING);

  server_->Shutdown(MonotonicTime::InfiniteFuture());
  EXPECT_FALSE(reader->Read(&response));
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
}

TEST_F(HealthServiceTest, WatchersSeeTheLastStatusBeforeTheStop) {
  Set("", true);
  grpc::ClientContext context;
  auto reader = stub_->Watch(&context, HealthCheckRequest());
  HealthCheckResponse response;
  ASSERT_TRUE(reader->Read(&response));
  {
    absl::MutexLock lock(&mu_);
    states_[""] = false;
  }
  server_->Shutdown(MonotonicTime::InfiniteFuture());
  ASSERT_TRUE(reader->Read(&response));
  EXPECT_EQ(response.status(), HealthCheckResponse::NOT_SERVING);
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
}

TEST_F(HealthServiceTest, ClientsMayLeave) {
  Set("", true);
  for (int i = 0; i < 20; ++i) {
    grpc::ClientContext context;
    auto reader = stub_->Watch(&context, HealthCheckRequest());
    HealthCheckResponse response;
    ASSERT_TRUE(reader->Read(&response));
    context.TryCancel();
    Set("", i % 2 == 0);
    EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::CANCELLED);
  }
}

}  // namespace
}  // namespace stoker
