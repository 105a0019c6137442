// A whole server behind a loopback port, with one real program
// (testdata/author.pt2 of the repository's tests) that a function of the test's
// runs in torch's stead.
#pragma once

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "models/model_manager.h"
#include "open_inference.grpc.pb.h"
#include "rpc/rpc_server.h"
#include "tests/fakes/fake_loader.h"
#include "tests/fakes/temp_folder.h"
#include "tests/unit/rpc/codec_fixtures.h"

namespace stoker {

class ServingTest : public ::testing::Test {
 protected:
  // Model "author", version 3: INPUT_ids INT32, Pair_0, Pair_1_Left and Mask
  // FP32, all [batch, length] -> Scores FP32 [batch, 12], Parts_0 FP32 [batch,
  // 2 * length], Parts_1 FP32 [batch, length, 4]. Every element of an answer is
  // its row's first token id.
  static RunResult Answer(absl::Span<const Tensor> inputs) {
    const int64_t batch = inputs[0].shape[0];
    const int64_t length = inputs[0].shape[1];
    const std::vector<int32_t> ids = Values<int32_t>(inputs[0]);
    RunResult result;
    for (const int64_t row : {int64_t{12}, 2 * length, 4 * length}) {
      Buffer buffer(static_cast<size_t>(batch * row) * sizeof(float));
      auto* out = reinterpret_cast<float*>(buffer.data());
      for (int64_t i = 0; i < batch * row; ++i) {
        out[i] = static_cast<float>(ids[static_cast<size_t>(i / row * length)]);
      }
      result.outputs.push_back({DataType::kFp32,
                                {batch, row},
                                buffer.data(),
                                buffer.size(),
                                buffer.share()});
    }
    result.outputs[2].shape = {batch, length, 4};
    return result;
  }

  void Start(int max_queue_requests = 1024) {
    std::filesystem::create_directories(folder_ / "author/3");
    std::filesystem::copy("tests/unit/program/testdata/author.pt2",
                          folder_ / "author/3/model.pt2");
    std::ofstream(folder_ / "author/model.yaml")
        << "compile: false\nbuckets: []\nmax_batch_size: 1\n"
        << "dynamic_batching: {default_queue_policy: {max_queue_size: "
        << max_queue_requests << "}}\n";
    auto repository = ModelRepository::Open(folder_.path(), "");
    ASSERT_TRUE(repository.ok()) << repository.status();
    repository_ = *std::move(repository);
    manager_ = std::make_unique<ModelManager>(ModelManagerOptions(),
                                              *repository_, nullptr, nullptr,
                                              loader_, Clock::Real(), metrics_);
    options_.address = "127.0.0.1:0";
    options_.server_version = "9.9";
    auto server =
        RpcServer::Start(options_, *manager_, Clock::Real(), metrics_);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    channel_ =
        grpc::CreateChannel("127.0.0.1:" + std::to_string(server_->port()),
                            grpc::InsecureChannelCredentials());
    stub_ = inference::GRPCInferenceService::NewStub(channel_);
  }

  // Serves the model, and returns when it is ready.
  void Serve(int max_queue_requests = 1024) {
    Start(max_queue_requests);
    manager_->OnReadinessChange([this] {
      server_->UpdateHealth();
      const absl::MutexLock lock(&mu_);
      ready_ = manager_->ServerReady();
    });
    manager_->Start();
    const absl::MutexLock lock(&mu_);
    ASSERT_TRUE(
        mu_.AwaitWithTimeout(absl::Condition(&ready_), absl::Seconds(30)));
    ASSERT_TRUE(manager_->Ready("author", {.number = 3}));
  }

  // As main does it: no new calls, then no more models.
  void TearDown() override {
    loader_.Release();
    if (server_ != nullptr) server_->Shutdown(MonotonicTime::InfiniteFuture());
    if (manager_ != nullptr) manager_->Drain(MonotonicTime::InfiniteFuture());
  }

  static inference::ModelInferRequest Request(int32_t first_id,
                                              int64_t length = 2) {
    inference::ModelInferRequest request;
    request.set_model_name("author");
    request.set_id("id-" + std::to_string(first_id));
    const auto elements = static_cast<size_t>(length);
    AddInput(request, "INPUT_ids", "INT32", {1, length});
    request.add_raw_input_contents(
        Bytes(std::vector<int32_t>(elements, first_id)));
    for (const char* name : {"Pair_0", "Pair_1_Left", "Mask"}) {
      AddInput(request, name, "FP32", {1, length});
      request.add_raw_input_contents(Bytes(std::vector<float>(elements, 1)));
    }
    return request;
  }

  grpc::Status Infer(const inference::ModelInferRequest& request,
                     inference::ModelInferResponse* response = nullptr) {
    grpc::ClientContext context;
    inference::ModelInferResponse ignored;
    return stub_->ModelInfer(&context, request,
                             response != nullptr ? response : &ignored);
  }

  inference::ModelStatistics Statistics() {
    grpc::ClientContext context;
    inference::ModelStatisticsRequest request;
    inference::ModelStatisticsResponse response;
    request.set_name("author");
    const grpc::Status status =
        stub_->ModelStatistics(&context, request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response.model_stats_size() == 1 ? response.model_stats(0)
                                            : inference::ModelStatistics();
  }

  RpcServerOptions options_;  // for Start
  const TempFolder folder_;
  FakeLoader loader_{Answer};
  MetricRegistry metrics_;
  std::unique_ptr<ModelRepository> repository_;
  std::unique_ptr<ModelManager> manager_;
  std::unique_ptr<RpcServer> server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<inference::GRPCInferenceService::Stub> stub_;
  absl::Mutex mu_;
  bool ready_ ABSL_GUARDED_BY(mu_) = false;
};

// Keeps the only device thread busy with one request.
class BusyModel {
 public:
  BusyModel(FakeLoader& loader, std::function<void()> infer) : loader_(loader) {
    loader.Hold();
    thread_ = std::thread(std::move(infer));
    loader.BlockUntilHeld(1);
  }
  ~BusyModel() { Release(); }
  void Release() {
    loader_.Release();
    if (thread_.joinable()) thread_.join();
  }

 private:
  FakeLoader& loader_;
  std::thread thread_;
};

}  // namespace stoker
