// Calls that are open when the policy changes, by gRPC's own client.
#include <gmock/gmock.h>

#include <functional>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "reflection.grpc.pb.h"
#include "tests/unit/rpc/access_fixture.h"

namespace stoker {
namespace {

using ::testing::HasSubstr;

// What is open ends when the policy of the moment forbids it; what that lets go
// on hears of nothing.
class OpenCallsTest : public AccessTest {
 protected:
  using Stream = grpc::ClientReaderWriter<inference::ModelInferRequest,
                                          inference::ModelStreamInferResponse>;
  using Watch = grpc::ClientReader<grpc::health::v1::HealthCheckResponse>;
  using Reflection = grpc::ClientReaderWriter<
      grpc::reflection::v1alpha::ServerReflectionRequest,
      grpc::reflection::v1alpha::ServerReflectionResponse>;

  // Each answers once, so that it is open.
  void OpenAll() {
    Show(streaming_, "secret");
    stream_ = stub_->ModelStreamInfer(&streaming_);
    AskStream();
    Show(watching_, "secret");
    grpc::health::v1::HealthCheckRequest request;
    request.set_service("author");
    watch_ =
        grpc::health::v1::Health::NewStub(channel_)->Watch(&watching_, request);
    grpc::health::v1::HealthCheckResponse status;
    ASSERT_TRUE(watch_->Read(&status));
    Show(reflecting_, "secret");
    reflection_ = grpc::reflection::v1alpha::ServerReflection::NewStub(channel_)
                      ->ServerReflectionInfo(&reflecting_);
    AskReflection();
  }
  void AskStream() {
    inference::ModelStreamInferResponse response;
    ASSERT_TRUE(stream_->Write(Request(7)));
    ASSERT_TRUE(stream_->Read(&response));
    EXPECT_EQ(response.error_message(), "");
  }
  void AskReflection() {
    grpc::reflection::v1alpha::ServerReflectionRequest request;
    request.set_list_services("");
    grpc::reflection::v1alpha::ServerReflectionResponse response;
    ASSERT_TRUE(reflection_->Write(request));
    ASSERT_TRUE(reflection_->Read(&response));
  }
  // Returns when the server has ended it.
  template <typename Response>
  static grpc::Status EndOf(grpc::internal::ReaderInterface<Response>& reader,
                            std::function<grpc::Status()> finish) {
    Response response;
    EXPECT_FALSE(reader.Read(&response));
    return finish();
  }
  grpc::Status EndOfStream() {
    return EndOf<inference::ModelStreamInferResponse>(
        *stream_, [this] { return stream_->Finish(); });
  }
  grpc::Status EndOfWatch() {
    return EndOf<grpc::health::v1::HealthCheckResponse>(
        *watch_, [this] { return watch_->Finish(); });
  }
  grpc::Status EndOfReflection() {
    return EndOf<grpc::reflection::v1alpha::ServerReflectionResponse>(
        *reflection_, [this] { return reflection_->Finish(); });
  }

  grpc::ClientContext streaming_, watching_, reflecting_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<Watch> watch_;
  std::unique_ptr<Reflection> reflection_;
};

TEST_F(OpenCallsTest, EachEndsWhenItsGroupIsTakenAway) {
  ServeWith("{callers: [web], groups: [infer, health, metadata]}");
  OpenAll();
  Write("{callers: [web], groups: [infer, metadata]}");
  gate_->Look();
  const grpc::Status watch = EndOfWatch();
  EXPECT_EQ(watch.error_code(), grpc::PERMISSION_DENIED);
  EXPECT_EQ(watch.error_message(),
            "caller 'web' may not call Watch (group health) on model "
            "'author'");
  AskStream();
  AskReflection();
  Write("{callers: [web], groups: [metadata]}");
  gate_->Look();
  const grpc::Status stream = EndOfStream();
  EXPECT_EQ(stream.error_code(), grpc::PERMISSION_DENIED);
  EXPECT_THAT(stream.error_message(),
              HasSubstr("may not call ModelStreamInfer (group infer)"));
  AskReflection();
  Write("{callers: [web], groups: [control]}");
  gate_->Look();
  EXPECT_EQ(EndOfReflection().error_code(), grpc::PERMISSION_DENIED);
  EXPECT_EQ(MetricValue(metrics_, "stoker_access_refused_total",
                        {{"reason", "permission"}}),
            3);
}

TEST_F(OpenCallsTest, TheyEndWhenTheTokenIsNobodysAnyMore) {
  ServeWith("{callers: [web], groups: [infer, health, metadata]}");
  OpenAll();
  token_ = "another";
  Write("{callers: [web], groups: [infer, health, metadata]}");
  gate_->Look();
  EXPECT_EQ(EndOfWatch().error_code(), grpc::UNAUTHENTICATED);
  EXPECT_EQ(EndOfStream().error_code(), grpc::UNAUTHENTICATED);
  EXPECT_EQ(EndOfReflection().error_code(), grpc::UNAUTHENTICATED);
}

TEST_F(OpenCallsTest, TheyEndWhenTheTokenExpires) {
  expires_ = absl::StrCat(
      ", expires: ", absl::FormatTime(absl::RFC3339_sec,
                                      gate_clock_.WallNow() + absl::Hours(1),
                                      absl::UTCTimeZone()));
  ServeWith("{callers: [web], groups: [infer, health, metadata]}");
  OpenAll();
  gate_clock_.StepWall(absl::Hours(1));
  for (const grpc::Status& status :
       {EndOfWatch(), EndOfStream(), EndOfReflection()}) {
    EXPECT_EQ(status.error_code(), grpc::UNAUTHENTICATED);
    EXPECT_THAT(status.error_message(), HasSubstr("'web' that has expired"));
  }
}

// A request that runs is not waited for: its client learns it at once.
TEST_F(OpenCallsTest, AStreamEndsWhileARequestRuns) {
  ServeWith("{callers: [web], groups: [infer]}");
  loader_.Hold();
  Show(streaming_, "secret");
  stream_ = stub_->ModelStreamInfer(&streaming_);
  ASSERT_TRUE(stream_->Write(Request(7)));
  loader_.BlockUntilHeld(1);
  Write("{callers: [web], groups: [health]}");
  gate_->Look();
  EXPECT_EQ(EndOfStream().error_code(), grpc::PERMISSION_DENIED);
}

}  // namespace
}  // namespace stoker
