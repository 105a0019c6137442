#include "rpc/stream_infer.h"

#include <gmock/gmock.h>

#include <thread>

#include "tests/unit/rpc/serving_fixture.h"

namespace stoker {
namespace {

using ::testing::HasSubstr;

using StreamInferTest = ServingTest;
using inference::ModelInferRequest;
using inference::ModelStreamInferResponse;

ModelInferRequest WrongDataType(ModelInferRequest request) {
  request.mutable_inputs(0)->set_datatype("INT64");
  return request;
}

TEST_F(StreamInferTest, OneAnswerPerMessageInOrder) {
  Serve();
  grpc::ClientContext context;
  auto stream = stub_->ModelStreamInfer(&context);
  // More than run side by side, so that reading stops and goes on.
  constexpr int kRequests = 3 * StreamInfer::kMaxInFlight;
  std::thread writer([&] {
    for (int i = 0; i < kRequests; ++i) {
      // Refusals are answered at once, and must wait for their turn all the
      // same.
      EXPECT_TRUE(
          stream->Write(i % 5 == 4 ? WrongDataType(Request(i)) : Request(i)));
    }
    stream->WritesDone();
  });
  ModelStreamInferResponse response;
  for (int i = 0; i < kRequests; ++i) {
    ASSERT_TRUE(stream->Read(&response));
    EXPECT_EQ(response.infer_response().id(), "id-" + std::to_string(i));
    if (i % 5 == 4) {
      EXPECT_THAT(response.error_message(), HasSubstr("data-type is 'INT64'"));
      EXPECT_EQ(response.infer_response().outputs_size(), 0);
    } else {
      EXPECT_EQ(response.error_message(), "");
      EXPECT_EQ(response.infer_response().raw_output_contents_size(), 3);
    }
  }
  EXPECT_FALSE(stream->Read(&response));
  writer.join();
  const grpc::Status status = stream->Finish();
  EXPECT_TRUE(status.ok()) << status.error_message();
}

TEST_F(StreamInferTest, EmptyStream) {
  Serve();
  grpc::ClientContext context;
  auto stream = stub_->ModelStreamInfer(&context);
  stream->WritesDone();
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(StreamInferTest, AnErrorEndsTheStreamWhereTheClientAsksForIt) {
  Serve();
  grpc::ClientContext context;
  context.AddMetadata("triton_grpc_error", "true");
  auto stream = stub_->ModelStreamInfer(&context);
  ASSERT_TRUE(stream->Write(Request(1)));
  ASSERT_TRUE(stream->Write(WrongDataType(Request(2))));
  stream->Write(Request(3));
  ModelStreamInferResponse response;
  ASSERT_TRUE(stream->Read(&response));
  EXPECT_EQ(response.infer_response().id(), "id-1");
  EXPECT_FALSE(stream->Read(&response));
  const grpc::Status status = stream->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("data-type is 'INT64'"));
}

TEST_F(StreamInferTest, CancelEndsWhatWaits) {
  Serve();
  const int runs = loader_.eager().runs();
  loader_.Hold();
  {
    grpc::ClientContext context;
    auto stream = stub_->ModelStreamInfer(&context);
    for (int i = 0; i < 10; ++i) ASSERT_TRUE(stream->Write(Request(i)));
    loader_.BlockUntilHeld(1);
    context.TryCancel();
    EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::CANCELLED);
    // The server's side ends too, or its stop would wait for it.
    loader_.Release();
  }
  server_->Shutdown(MonotonicTime::InfiniteFuture());
  EXPECT_LE(loader_.eager().runs(), runs + 10);
}

TEST_F(StreamInferTest, IdleStreamsDoNotHoldUpTheStop) {
  Serve();
  grpc::ClientContext context;
  auto stream = stub_->ModelStreamInfer(&context);
  ASSERT_TRUE(stream->Write(Request(1)));
  ModelStreamInferResponse response;
  ASSERT_TRUE(stream->Read(&response));
  server_->Shutdown(MonotonicTime::InfiniteFuture());
  EXPECT_FALSE(stream->Read(&response));
  const grpc::Status status = stream->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(status.error_message(), "Server exiting");
}

TEST_F(StreamInferTest, AStopAnswersWhatRuns) {
  Serve();
  loader_.Hold();
  grpc::ClientContext context;
  auto stream = stub_->ModelStreamInfer(&context);
  ASSERT_TRUE(stream->Write(Request(1)));
  loader_.BlockUntilHeld(1);
  std::thread stop([&] { server_->Shutdown(MonotonicTime::InfiniteFuture()); });
  loader_.Release();
  ModelStreamInferResponse response;
  ASSERT_TRUE(stream->Read(&response));
  EXPECT_EQ(response.infer_response().id(), "id-1");
  EXPECT_FALSE(stream->Read(&response));
  stop.join();
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
}

}  // namespace
}  // namespace stoker
