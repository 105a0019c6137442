#include "rpc/inference_service.h"

#include <gmock/gmock.h>
#include <grpcpp/generic/generic_stub.h>

#include <thread>

#include "tests/unit/rpc/serving_fixture.h"

namespace stoker {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using ::testing::StartsWith;

using InferenceServiceTest = ServingTest;

std::vector<float> Floats(const std::string& bytes) {
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(float));
  return values;
}

TEST_F(InferenceServiceTest, InfersAndEchoes) {
  Serve();
  inference::ModelInferRequest request = Request(7, 3);
  request.add_outputs()->set_name("Parts_0");
  request.add_outputs()->set_name("Scores");
  inference::ModelInferResponse response;
  const grpc::Status status = Infer(request, &response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(response.id(), "id-7");
  EXPECT_EQ(response.model_name(), "author");
  EXPECT_EQ(response.model_version(), "3");
  ASSERT_EQ(response.outputs_size(), 2);
  EXPECT_EQ(response.outputs(0).name(), "Parts_0");
  EXPECT_THAT(response.outputs(0).shape(), ElementsAre(1, 6));
  EXPECT_THAT(response.outputs(1).shape(), ElementsAre(1, 12));
  EXPECT_THAT(Floats(response.raw_output_contents(0)),
              AllOf(SizeIs(6), Each(7)));
  EXPECT_THAT(Floats(response.raw_output_contents(1)),
              AllOf(SizeIs(12), Each(7)));
}

TEST_F(InferenceServiceTest, CompressedRequestsAndManySlices) {
  Serve();
  inference::ModelInferRequest request = Request(5, 64);
  // Far larger than one read of the transport.
  (*request.mutable_parameters())["ballast"].set_string_param(
      std::string(1 << 20, 'b'));
  for (const grpc_compression_algorithm algorithm :
       {GRPC_COMPRESS_NONE, GRPC_COMPRESS_GZIP, GRPC_COMPRESS_DEFLATE}) {
    grpc::ClientContext context;
    context.set_compression_algorithm(algorithm);
    inference::ModelInferResponse response;
    const grpc::Status status = stub_->ModelInfer(&context, request, &response);
    ASSERT_TRUE(status.ok()) << status.error_message();
    EXPECT_THAT(Floats(response.raw_output_contents(0)),
                AllOf(SizeIs(12), Each(5)));
  }
}

TEST_F(InferenceServiceTest, ModelsAndVersionsThatAreNotThere) {
  Serve();
  const auto infer = [&](const std::string& model, const std::string& version) {
    inference::ModelInferRequest request = Request(1);
    request.set_model_name(model);
    request.set_model_version(version);
    return Infer(request);
  };
  EXPECT_TRUE(infer("author", "3").ok());
  EXPECT_EQ(infer("nobody", "").error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_THAT(infer("nobody", "").error_message(),
              StartsWith("Request for unknown model: 'nobody' is not found"));
  EXPECT_EQ(infer("author", "4").error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(infer("author", "three").error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(infer("", "").error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(MetricValue(metrics_, "stoker_requests_total",
                        {{"model", ""}, {"outcome", "not_found"}}),
            4);
}

TEST_F(InferenceServiceTest, BeforeTheModelIsLoaded) {
  Start();
  EXPECT_EQ(Infer(Request(1)).error_code(), grpc::StatusCode::NOT_FOUND);
  grpc::ClientContext live_context;
  inference::ServerLiveResponse live;
  ASSERT_TRUE(stub_->ServerLive(&live_context, {}, &live).ok());
  EXPECT_TRUE(live.live());
  grpc::ClientContext ready_context;
  inference::ServerReadyResponse ready;
  ASSERT_TRUE(stub_->ServerReady(&ready_context, {}, &ready).ok());
  EXPECT_FALSE(ready.ready());
}

TEST_F(InferenceServiceTest, RefusalsAreCounted) {
  Serve();
  inference::ModelInferRequest request = Request(1);
  request.mutable_inputs(0)->set_datatype("FP32");
  const grpc::Status status = Infer(request);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(),
              HasSubstr("data-type is 'FP32', but model 'author'"));
  // Outside the program's bounds, 2 to 64: only the model knows.
  EXPECT_EQ(Infer(Request(1, 65)).error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(Statistics().inference_stats().fail().count(), 2u);
  EXPECT_EQ(Statistics().inference_stats().success().count(), 0u);
}

TEST_F(InferenceServiceTest, FailuresOfTheModelReachTheClient) {
  Serve();
  loader_.eager().FailNext(1, absl::ResourceExhaustedError("out of memory"));
  const grpc::Status status = Infer(Request(1));
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(status.error_message(), HasSubstr("out of memory"));
  EXPECT_TRUE(Infer(Request(1)).ok());
}

// A message that is no request, through a stub that sends bytes.
grpc::Status SendBytes(const std::shared_ptr<grpc::Channel>& channel,
                       const std::string& bytes) {
  grpc::GenericStub stub(channel);
  grpc::ClientContext context;
  const grpc::Slice slice(bytes);
  const grpc::ByteBuffer request(&slice, 1);
  grpc::ByteBuffer response;
  grpc::CompletionQueue queue;
  grpc::Status status;
  auto call = stub.PrepareUnaryCall(
      &context, "/inference.GRPCInferenceService/ModelInfer", request, &queue);
  call->StartCall();
  call->Finish(&response, &status, nullptr);
  void* tag = nullptr;
  bool ok = false;
  queue.Next(&tag, &ok);
  return status;
}

TEST_F(InferenceServiceTest, MessagesThatAreNoRequest) {
  Serve();
  // A length of 2 GiB - 1 that nothing follows; an open group; half a message.
  for (const std::string& bytes :
       {std::string("\x3A\xFF\xFF\xFF\xFF\x07"), std::string("\x0B"),
        Request(1).SerializeAsString().substr(0, 40)}) {
    const grpc::Status status = SendBytes(channel_, bytes);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    EXPECT_THAT(status.error_message(),
                HasSubstr("expected a serialised inference.ModelInferRequest"));
  }
  EXPECT_EQ(SendBytes(channel_, "").error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_TRUE(Infer(Request(1)).ok());
}

TEST_F(InferenceServiceTest, FullQueueIsUnavailable) {
  Serve(1);
  BusyModel busy(loader_, [&] { EXPECT_TRUE(Infer(Request(1)).ok()); });
  // Which of two comes first is open, but one waits and the other is refused.
  grpc::Status first, second;
  std::thread other([&] {
    first = Infer(Request(2));
    if (!first.ok()) loader_.Release();
  });
  second = Infer(Request(3));
  if (!second.ok()) loader_.Release();
  other.join();
  EXPECT_NE(first.ok(), second.ok());
  const grpc::Status& refused = first.ok() ? second : first;
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_THAT(refused.error_message(), HasSubstr("Exceeds maximum queue size"));
}

TEST_F(InferenceServiceTest, TimeoutInTheQueue) {
  Serve();
  BusyModel busy(loader_, [&] { EXPECT_TRUE(Infer(Request(1)).ok()); });
  inference::ModelInferRequest request = Request(2);
  (*request.mutable_parameters())["timeout"].set_int64_param(1000);
  const grpc::Status status = Infer(request);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_THAT(status.error_message(), HasSubstr("Request timeout expired"));
}

TEST_F(InferenceServiceTest, CancelledRequestsLeaveTheQueue) {
  Serve();
  const int runs = loader_.eager().runs();
  BusyModel busy(loader_, [&] { EXPECT_TRUE(Infer(Request(1)).ok()); });
  grpc::ClientContext context;
  grpc::Status status;
  std::thread client([&] {
    inference::ModelInferResponse response;
    status = stub_->ModelInfer(&context, Request(2), &response);
  });
  const auto waiting = [&] {
    return MetricValue(metrics_, "stoker_queue_length");
  };
  while (waiting() == 0) std::this_thread::yield();
  context.TryCancel();
  client.join();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::CANCELLED);
  // The device is still busy: nothing but the cancellation can have emptied the
  // queue.
  while (waiting() != 0) std::this_thread::yield();
  busy.Release();
  EXPECT_TRUE(Infer(Request(3)).ok());
  EXPECT_EQ(loader_.eager().runs(), runs + 2);
}

TEST_F(InferenceServiceTest, ExpiredRequestsLeaveTheQueue) {
  Serve();
  BusyModel busy(loader_, [&] { EXPECT_TRUE(Infer(Request(1)).ok()); });
  // On a slow machine a deadline may pass before the server has the request.
  auto patience = std::chrono::milliseconds(20);
  while (Statistics().inference_stats().fail().count() == 0) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + patience);
    inference::ModelInferResponse response;
    const grpc::Status status =
        stub_->ModelInfer(&context, Request(2), &response);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED)
        << status.error_message();
    patience *= 2;
  }
}

TEST_F(InferenceServiceTest, StatisticsCountRequests) {
  Serve();
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(Infer(Request(i)).ok());
  const inference::ModelStatistics stats = Statistics();
  EXPECT_EQ(stats.name(), "author");
  EXPECT_EQ(stats.version(), "3");
  EXPECT_EQ(stats.inference_count(), 5u);
  EXPECT_EQ(stats.execution_count(), 5u);
  EXPECT_EQ(stats.inference_stats().success().count(), 5u);
  EXPECT_EQ(stats.inference_stats().queue().count(), 5u);
  EXPECT_GE(stats.inference_stats().success().ns(),
            stats.inference_stats().compute_infer().ns());
}

TEST_F(InferenceServiceTest, StatisticsOfUnknownModels) {
  Serve();
  const auto ask = [&](const std::string& name, const std::string& version) {
    grpc::ClientContext context;
    inference::ModelStatisticsRequest request;
    inference::ModelStatisticsResponse response;
    request.set_name(name);
    request.set_version(version);
    grpc::Status status = stub_->ModelStatistics(&context, request, &response);
    EXPECT_EQ(status.ok(), response.model_stats_size() > 0);
    return status;
  };
  EXPECT_TRUE(ask("", "").ok());
  EXPECT_TRUE(ask("author", "3").ok());
  EXPECT_EQ(ask("nobody", "").error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(ask("nobody", "").error_message(),
            "requested model 'nobody' is not available");
  EXPECT_EQ(ask("author", "4").error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
}

TEST_F(InferenceServiceTest, Descriptions) {
  Serve();
  grpc::ClientContext server_context;
  inference::ServerMetadataResponse server;
  ASSERT_TRUE(stub_->ServerMetadata(&server_context, {}, &server).ok());
  EXPECT_EQ(server.version(), "9.9");

  grpc::ClientContext metadata_context;
  inference::ModelMetadataRequest metadata_request;
  metadata_request.set_name("author");
  inference::ModelMetadataResponse metadata;
  ASSERT_TRUE(
      stub_->ModelMetadata(&metadata_context, metadata_request, &metadata)
          .ok());
  EXPECT_THAT(metadata.versions(), ElementsAre("3"));
  EXPECT_THAT(metadata.inputs(0).shape(), ElementsAre(-1, -1));

  grpc::ClientContext config_context;
  inference::ModelConfigRequest config_request;
  config_request.set_name("author");
  inference::ModelConfigResponse config;
  ASSERT_TRUE(
      stub_->ModelConfig(&config_context, config_request, &config).ok());
  EXPECT_EQ(config.config().max_batch_size(), 1);
  EXPECT_EQ(config.config().input_size(), metadata.inputs_size());

  grpc::ClientContext index_context;
  inference::RepositoryIndexResponse index;
  ASSERT_TRUE(stub_->RepositoryIndex(&index_context, {}, &index).ok());
  ASSERT_EQ(index.models_size(), 1);
  EXPECT_EQ(index.models(0).state(), "READY");
}

TEST_F(InferenceServiceTest, ModelReadyIsNoErrorForUnknownModels) {
  Serve();
  const auto ask = [&](const std::string& name, const std::string& version,
                       bool* ready) {
    grpc::ClientContext context;
    inference::ModelReadyRequest request;
    inference::ModelReadyResponse response;
    request.set_name(name);
    request.set_version(version);
    grpc::Status status = stub_->ModelReady(&context, request, &response);
    *ready = response.ready();
    return status;
  };
  bool ready = false;
  EXPECT_TRUE(ask("author", "", &ready).ok());
  EXPECT_TRUE(ready);
  EXPECT_TRUE(ask("author", "4", &ready).ok());
  EXPECT_FALSE(ready);
  EXPECT_TRUE(ask("nobody", "", &ready).ok());
  EXPECT_FALSE(ready);
  EXPECT_TRUE(ask("author", "stable", &ready).ok());  // an alias of nothing
  EXPECT_FALSE(ready);
  EXPECT_EQ(ask("author", "-1", &ready).error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
}

TEST_F(InferenceServiceTest, WhatIsNotOfferedSaysSo) {
  Serve();
  {
    grpc::ClientContext context;
    inference::RepositoryModelLoadResponse response;
    const grpc::Status status =
        stub_->RepositoryModelLoad(&context, {}, &response);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
    EXPECT_THAT(status.error_message(),
                StartsWith("explicit model load / unload is not allowed"));
  }
  {
    grpc::ClientContext context;
    inference::SystemSharedMemoryRegisterResponse response;
    const grpc::Status status =
        stub_->SystemSharedMemoryRegister(&context, {}, &response);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::UNIMPLEMENTED);
    EXPECT_EQ(status.error_message(),
              "shared memory of clients is not allowed by this server, "
              "expected it to run with --allow-client-shm");
  }
  {
    grpc::ClientContext context;
    inference::RepositoryIndexRequest request;
    request.set_repository_name("other");
    inference::RepositoryIndexResponse response;
    EXPECT_EQ(stub_->RepositoryIndex(&context, request, &response).error_code(),
              grpc::StatusCode::UNIMPLEMENTED);
  }
}

}  // namespace
}  // namespace stoker
