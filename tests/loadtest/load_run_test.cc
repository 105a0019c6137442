// Loops against a gRPC server in this process that answers when the test says.
#include "loadtest/generator/load_run.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "loadtest/generator/scenario_run.h"
#include "open_inference.grpc.pb.h"

namespace stoker::loadtest {
namespace {

using inference::GRPCInferenceService;
using ::testing::HasSubstr;

// Answers each request with one float. Calls wait until `hold` of them are
// there at once; a call whose number is in [fail_from, fail_to) fails.
class FakeServer final
    : public GRPCInferenceService::WithCallbackMethod_ModelInfer<
          GRPCInferenceService::Service> {
 public:
  FakeServer() {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(),
                             &port_);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  ~FakeServer() override {
    Release(1);
    server_->Shutdown();
  }

  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }
  // How many calls have to be waiting before they are answered.
  void Release(size_t hold) {
    std::vector<grpc::ServerUnaryReactor*> ready;
    {
      absl::MutexLock lock(&mu_);
      hold_ = hold;
      if (waiting_.size() >= hold_) ready.swap(waiting_);
    }
    for (auto* reactor : ready) reactor->Finish(grpc::Status::OK);
  }
  void FailBetween(int from, int to) {
    absl::MutexLock lock(&mu_);
    fail_from_ = from;
    fail_to_ = to;
  }
  int calls() {
    absl::MutexLock lock(&mu_);
    return calls_;
  }
  size_t most_at_once() {
    absl::MutexLock lock(&mu_);
    return most_;
  }

  grpc::Status ModelMetadata(
      grpc::ServerContext*, const inference::ModelMetadataRequest* request,
      inference::ModelMetadataResponse* response) override {
    if (request->name() != "fake")
      return {grpc::StatusCode::NOT_FOUND, "no such model"};
    response->set_name("fake");
    auto* input = response->add_inputs();
    input->set_name("x");
    input->set_datatype("FP32");
    input->add_shape(-1);
    return grpc::Status::OK;
  }

  grpc::ServerUnaryReactor* ModelInfer(
      grpc::CallbackServerContext* context, const inference::ModelInferRequest*,
      inference::ModelInferResponse* response) override {
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    auto* output = response->add_outputs();
    output->set_datatype("FP32");
    output->add_shape(1);
    response->add_raw_output_contents("1234");
    std::vector<grpc::ServerUnaryReactor*> ready;
    bool fail = false;
    {
      absl::MutexLock lock(&mu_);
      fail = calls_ >= fail_from_ && calls_ < fail_to_;
      ++calls_;
      if (!fail) {
        waiting_.push_back(reactor);
        most_ = std::max(most_, waiting_.size());
        if (waiting_.size() >= hold_) ready.swap(waiting_);
      }
    }
    if (fail) reactor->Finish({grpc::StatusCode::UNAVAILABLE, "told to fail"});
    for (auto* one : ready) one->Finish(grpc::Status::OK);
    return reactor;
  }

  // One answer per message; a message of model "bad" gets an error_message,
  // and one of model "end" ends the stream.
  grpc::Status ModelStreamInfer(
      grpc::ServerContext*,
      grpc::ServerReaderWriter<inference::ModelStreamInferResponse,
                               inference::ModelInferRequest>* stream) override {
    inference::ModelInferRequest request;
    while (stream->Read(&request)) {
      {
        absl::MutexLock lock(&mu_);
        ++calls_;
      }
      if (request.model_name() == "end")
        return {grpc::StatusCode::ABORTED, "told to end"};
      inference::ModelStreamInferResponse response;
      if (request.model_name() == "bad") {
        response.set_error_message("told to fail");
      } else {
        response.mutable_infer_response()->set_id(request.id());
      }
      stream->Write(response);
    }
    return grpc::Status::OK;
  }

 private:
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
  absl::Mutex mu_;
  size_t hold_ ABSL_GUARDED_BY(mu_) = 1;
  size_t most_ ABSL_GUARDED_BY(mu_) = 0;
  int calls_ ABSL_GUARDED_BY(mu_) = 0;
  int fail_from_ ABSL_GUARDED_BY(mu_) = 0;
  int fail_to_ ABSL_GUARDED_BY(mu_) = 0;
  std::vector<grpc::ServerUnaryReactor*> waiting_ ABSL_GUARDED_BY(mu_);
};

Messages Make(const std::string& model) {
  inference::ModelInferRequest request;
  request.set_model_name(model);
  const grpc::Slice slice(request.SerializeAsString());
  Messages messages;
  messages.buffers.emplace_back(&slice, 1);
  messages.order = {0};
  return messages;
}

class LoadRunTest : public testing::Test {
 protected:
  LoadResult Load(LoadOptions options, const std::string& model = "fake",
                  int connections = 2) {
    auto client =
        Client::Connect(server_.address(), connections, absl::Seconds(10));
    EXPECT_TRUE(client.ok()) << client.status();
    options.measure = absl::Milliseconds(200);
    options.window = absl::Milliseconds(50);
    options.slo_latency = absl::Seconds(5);
    uint64_t next = 0;
    const Messages messages = Make(model);
    LoadResult result = RunLoad(**client, messages, options, &next);
    EXPECT_EQ(next, static_cast<uint64_t>(result.recording.total));
    return result;
  }

  FakeServer server_;
};

TEST_F(LoadRunTest, AClosedLoopKeepsItsConcurrency) {
  // Fewer under way, and nobody would ever be answered.
  server_.Release(6);
  int asked = 0;
  LoadOptions options{.concurrency = 6, .threads = 2};
  // At the end the last ones wait for company that does not come.
  options.on_end = [&] {
    asked = server_.calls();
    server_.Release(1);
  };
  const LoadResult result = Load(options);
  EXPECT_EQ(server_.most_at_once(), 6);
  EXPECT_GT(asked, 6);
  EXPECT_EQ(result.recording.total, server_.calls());
  EXPECT_EQ(result.recording.total_ok, result.recording.total);
  EXPECT_EQ(result.recording.windows.size(), 4);
  EXPECT_EQ(result.cut_off, 0);
}

TEST_F(LoadRunTest, AnOpenLoopSendsOnScheduleWhateverTheServerDoes) {
  const LoadResult result =
      Load({.arrivals = Arrivals::Constant(500), .threads = 1});
  EXPECT_EQ(result.due, 100);
  EXPECT_EQ(result.recording.total, 100);
  EXPECT_EQ(result.recording.measured_ok, 100);
  EXPECT_EQ(server_.calls(), 100);
}

TEST_F(LoadRunTest, AStallIsSeenByEveryRequestThatWasDueMeanwhile) {
  // The server answers only when all 50 are there, 4 ms after each other: a
  // tool that waits for answers would send one, and find one slow answer.
  server_.Release(50);
  const LoadResult result =
      Load({.arrivals = Arrivals::Constant(250), .threads = 1});
  EXPECT_EQ(result.recording.measured_ok, 50);
  // The first waited for 49 gaps, the middle one for 25.
  EXPECT_GE(result.recording.latency.max(), 196'000'000);
  EXPECT_GE(result.recording.latency.Percentile(50), 96'000'000);
}

TEST_F(LoadRunTest, WarmUpIsSentButNotMeasured) {
  LoadOptions options{.arrivals = Arrivals::Constant(500), .threads = 1};
  options.warmup = absl::Milliseconds(100);
  const LoadResult result = Load(options);
  EXPECT_EQ(result.due, 100);
  EXPECT_EQ(result.recording.measured, 100);
  EXPECT_EQ(result.recording.total, 150);
}

TEST_F(LoadRunTest, CountsErrorsByCode) {
  server_.FailBetween(10, 30);
  const LoadResult result =
      Load({.arrivals = Arrivals::Constant(500), .threads = 1});
  EXPECT_EQ(result.recording.measured, 100);
  EXPECT_EQ(result.recording.measured_ok, 80);
  const auto& errors =
      result.recording.errors.at(grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(errors.count, 20);
  EXPECT_EQ(errors.example, "told to fail");
}

TEST_F(LoadRunTest, RequestsMayHaveADeadline) {
  server_.Release(1000);
  LoadOptions options{.arrivals = Arrivals::Constant(100), .threads = 1};
  options.timeout = absl::Milliseconds(30);
  const LoadResult result = Load(options);
  EXPECT_EQ(result.recording.measured, 20);
  EXPECT_EQ(
      result.recording.errors.at(grpc::StatusCode::DEADLINE_EXCEEDED).count,
      20);
}

TEST_F(LoadRunTest, StreamsCarryBothLoops) {
  const LoadResult closed = Load({.concurrency = 5, .stream = true});
  EXPECT_GT(closed.recording.measured_ok, 0);
  EXPECT_EQ(closed.recording.total, server_.calls());
  EXPECT_EQ(closed.recording.total_ok, closed.recording.total);

  const int before = server_.calls();
  const LoadResult open =
      Load({.arrivals = Arrivals::Constant(500), .stream = true});
  EXPECT_EQ(open.recording.measured_ok, 100);
  EXPECT_EQ(server_.calls() - before, 100);
}

TEST_F(LoadRunTest, ErrorsInAStreamAreCounted) {
  const LoadResult result =
      Load({.arrivals = Arrivals::Constant(500), .stream = true}, "bad");
  EXPECT_EQ(result.recording.measured_ok, 0);
  const auto& errors = result.recording.errors.at(grpc::StatusCode::UNKNOWN);
  EXPECT_EQ(errors.count, 100);
  EXPECT_EQ(errors.example, "told to fail");
}

TEST_F(LoadRunTest, AStreamThatEndsIsOpenedAgain) {
  const LoadResult result =
      Load({.arrivals = Arrivals::Constant(100), .stream = true}, "end", 1);
  // Each stream takes one message at least, and fails all that it holds.
  EXPECT_EQ(result.recording.measured, 20);
  EXPECT_EQ(result.recording.errors.at(grpc::StatusCode::ABORTED).count, 20);
  EXPECT_GE(server_.calls(), 2);
}

TEST_F(LoadRunTest, AScenarioFindsModelAndServer) {
  Scenario scenario{.model = "fake", .connections = 1};
  Step step{.load = ClosedLoop{2},
            .warmup = absl::ZeroDuration(),
            .measure = absl::Milliseconds(100)};
  scenario.steps = {step, step};
  RunOptions options;
  options.address = server_.address();
  const auto result = RunScenario(scenario, options);
  ASSERT_TRUE(result.ok()) << result.status();
  ASSERT_EQ(result->steps.size(), 2);
  EXPECT_GT(Throughput(result->steps[1]), 0);
  EXPECT_EQ(result->messages, 256);

  scenario.model = "nobody";
  const auto missing = RunScenario(scenario, options);
  EXPECT_EQ(missing.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(missing.status().message()),
              HasSubstr("no such model"));
}

TEST_F(LoadRunTest, AScenarioSearchesAndThenUsesThePeak) {
  Scenario scenario{.model = "fake", .connections = 1};
  scenario.slo = {absl::Seconds(5), 99, 0};
  Step search{
      .load = RateSearch{.min_rate = 50, .max_rate = 100, .confirmations = 0},
      .warmup = absl::ZeroDuration(),
      .measure = absl::Milliseconds(200)};
  Step half = search;
  half.load = OpenLoop{.arrivals = ArrivalKind::kConstant, .rate_of_peak = 0.5};
  scenario.steps = {search, half};
  RunOptions options;
  options.address = server_.address();
  const auto result = RunScenario(scenario, options);
  ASSERT_TRUE(result.ok()) << result.status();
  ASSERT_TRUE(result->steps[0].search.has_value());
  EXPECT_EQ(result->steps[0].search->rate, 100);
  EXPECT_EQ(result->steps[1].rate, 50);
  EXPECT_EQ(result->steps[1].load.due, 10);
}

TEST(ClientTest, SaysWhereNobodyAnswers) {
  const auto client =
      Client::Connect("127.0.0.1:1", 1, absl::Milliseconds(200));
  EXPECT_EQ(client.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(client.status().message()), HasSubstr("127.0.0.1:1"));
}

}  // namespace
}  // namespace stoker::loadtest
