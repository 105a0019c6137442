// What callers may ask for, by gRPC's own client.
#include <gmock/gmock.h>

#include <string>
#include <thread>

#include "rpc_status.pb.h"
#include "tests/unit/rpc/access_fixture.h"

namespace stoker {
namespace {

using ::testing::HasSubstr;

constexpr char kAll[] =
    "{callers: [web], groups: [infer, metadata, health, control]}";

class CallerLimitsTest : public AccessTest {
 protected:
  grpc::Status Infer() {
    grpc::ClientContext context;
    Show(context, "secret");
    inference::ModelInferResponse response;
    return stub_->ModelInfer(&context, Request(1), &response);
  }
  static double SecondsToWait(const grpc::Status& status) {
    google::rpc::Status details;
    google::rpc::RetryInfo info;
    EXPECT_TRUE(details.ParseFromString(status.error_details()));
    EXPECT_EQ(details.details_size(), 1);
    EXPECT_TRUE(details.details_size() == 1 &&
                info.ParseFromString(details.details(0).value()));
    return static_cast<double>(info.retry_delay().seconds()) +
           info.retry_delay().nanos() * 1e-9;
  }
  double Refused(const char* reason) {
    return MetricValue(metrics_, "stoker_access_refused_total",
                       {{"caller", "web"}, {"reason", reason}});
  }
};

TEST_F(CallerLimitsTest, ARateOfRequests) {
  more_ = ", requests_per_second: 0.5, burst: 2";
  ServeWith(kAll);
  EXPECT_TRUE(Infer().ok());
  EXPECT_EQ(Metadata("author"), grpc::OK);
  const grpc::Status status = Infer();
  EXPECT_EQ(status.error_code(), grpc::RESOURCE_EXHAUSTED);
  EXPECT_THAT(status.error_message(),
              HasSubstr("caller 'web' may ask for 0.5"));
  EXPECT_DOUBLE_EQ(SecondsToWait(status), 2);
  EXPECT_EQ(Metadata("author"), grpc::RESOURCE_EXHAUSTED);
  EXPECT_EQ(Health("author"), grpc::OK);
  EXPECT_EQ(Refused("rate"), 2);
  gate_clock_.Advance(absl::Seconds(2));
  EXPECT_TRUE(Infer().ok());
  EXPECT_FALSE(Infer().ok());
}

// The stream goes on, and who sent the request is told which it was.
TEST_F(CallerLimitsTest, EachRequestOfAStreamCounts) {
  more_ = ", requests_per_second: 1, burst: 2";
  ServeWith(kAll);
  grpc::ClientContext context;
  Show(context, "secret");
  auto stream = stub_->ModelStreamInfer(&context);
  inference::ModelStreamInferResponse response;
  for (int i = 1; i <= 4; ++i) {
    if (i == 4) gate_clock_.Advance(absl::Seconds(1));
    ASSERT_TRUE(stream->Write(Request(i)));
    ASSERT_TRUE(stream->Read(&response));
    EXPECT_EQ(response.infer_response().id(), absl::StrCat("id-", i));
    EXPECT_EQ(response.error_message().empty(), i != 3)
        << response.error_message();
  }
  stream->WritesDone();
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(CallerLimitsTest, SoManyRequestsUnderWay) {
  more_ = ", concurrent: 1";
  ServeWith(kAll);
  {
    BusyModel busy(loader_, [this] { EXPECT_TRUE(Infer().ok()); });
    const grpc::Status status = Infer();
    EXPECT_EQ(status.error_code(), grpc::RESOURCE_EXHAUSTED);
    EXPECT_THAT(status.error_message(),
                HasSubstr("may have 1 requests under way"));
    EXPECT_GT(SecondsToWait(status), 0);
    // A stream's request is one of them, the stream itself is not.
    grpc::ClientContext context;
    Show(context, "secret");
    auto stream = stub_->ModelStreamInfer(&context);
    inference::ModelStreamInferResponse response;
    ASSERT_TRUE(stream->Write(Request(2)));
    ASSERT_TRUE(stream->Read(&response));
    EXPECT_THAT(response.error_message(), HasSubstr("under way"));
    stream->WritesDone();
    EXPECT_TRUE(stream->Finish().ok());
    EXPECT_EQ(Refused("concurrent"), 2);
  }
  // The answer was sent before the call is gone.
  while (!Infer().ok()) std::this_thread::yield();
}

// Many requests that are refused at once hold nothing.
TEST_F(CallerLimitsTest, WhoIsRefusedHoldsNoMemory) {
  more_ = ", requests_per_second: 0.001, burst: 1";
  ServeWith(kAll);
  EXPECT_TRUE(Infer().ok());
  for (int i = 0; i < 50; ++i) {
    EXPECT_EQ(Infer().error_code(), grpc::RESOURCE_EXHAUSTED);
  }
  EXPECT_EQ(MetricValue(metrics_, "stoker_request_memory_bytes"), 0);
  EXPECT_EQ(MetricValue(metrics_, "stoker_requests_total",
                        {{"outcome", "resource_exhausted"}}),
            50);
}

}  // namespace
}  // namespace stoker
