// What a server does with more than it can hold, and with clients that keep it
// waiting.
#include <gmock/gmock.h>
#include <grpcpp/generic/generic_stub.h>

#include <memory>
#include <string>
#include <vector>

#include "rpc/admission.h"
#include "rpc_status.pb.h"
#include "tests/unit/rpc/serving_fixture.h"

namespace stoker {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

absl::Duration RetryHint(const grpc::Status& status) {
  google::rpc::Status details;
  google::rpc::RetryInfo info;
  if (!details.ParseFromString(status.error_details()) ||
      details.details_size() != 1 || !details.details(0).UnpackTo(&info)) {
    return absl::ZeroDuration();
  }
  EXPECT_EQ(details.code(), status.error_code());
  EXPECT_EQ(details.message(), status.error_message());
  return absl::Seconds(info.retry_delay().seconds()) +
         absl::Nanoseconds(info.retry_delay().nanos());
}

class OverloadTest : public ServingTest {
 protected:
  static constexpr size_t kMemory = 1 << 20;

  void ServeWithLittleMemory() {
    options_.max_request_bytes = kMemory;
    Serve();
  }

  // A right request of that many bytes and some more. It holds as much again
  // when the id came in two pieces, which nobody can foretell.
  static inference::ModelInferRequest LargeRequest(size_t bytes) {
    inference::ModelInferRequest request = Request(1);
    request.set_id(std::string(bytes, 'i'));
    return request;
  }

  double Refused(const std::string& reason) {
    return MetricValue(metrics_, "stoker_refused_requests_total",
                       {{"reason", reason}});
  }

  // What a client has seen of an answer is given back a moment later.
  void ExpectMemoryReturns() {
    while (MetricValue(metrics_, "stoker_request_memory_bytes") > 0) {
      std::this_thread::yield();
    }
  }
};

TEST_F(OverloadTest, AFullQueueTellsWhenToComeBack) {
  Serve(1);
  BusyModel busy(loader_, [&] { EXPECT_TRUE(Infer(Request(1)).ok()); });
  std::vector<grpc::Status> statuses(4);
  std::vector<std::thread> clients;
  std::atomic<int> refused = 0;
  for (grpc::Status& status : statuses) {
    clients.emplace_back([&] {
      status = Infer(Request(2));
      // All but the one that waits.
      if (!status.ok() && ++refused == 3) loader_.Release();
    });
  }
  for (std::thread& client : clients) client.join();
  for (const grpc::Status& status : statuses) {
    if (status.ok()) continue;
    EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
    EXPECT_EQ(status.error_message(), "Exceeds maximum queue size");
    EXPECT_GE(RetryHint(status), absl::Milliseconds(10));
    EXPECT_LE(RetryHint(status), absl::Seconds(10));
  }
  EXPECT_EQ(refused.load(), 3);
  EXPECT_EQ(Refused("queue"), 3);
}

TEST_F(OverloadTest, ATimeoutInTheQueueTellsWhenToComeBack) {
  Serve();
  BusyModel busy(loader_, [&] { EXPECT_TRUE(Infer(Request(1)).ok()); });
  inference::ModelInferRequest request = Request(2);
  (*request.mutable_parameters())["timeout"].set_int64_param(1000);
  EXPECT_GT(RetryHint(Infer(request)), absl::ZeroDuration());
  EXPECT_EQ(Refused("queue_timeout"), 1);
}

// It waited in vain, but not for too long.
TEST_F(OverloadTest, AStopIsNoTimeout) {
  Serve();
  BusyModel busy(loader_, [&] { Infer(Request(1)); });
  std::thread waiting([&] {
    EXPECT_EQ(Infer(Request(2)).error_code(), grpc::StatusCode::UNAVAILABLE);
  });
  while (MetricValue(metrics_, "stoker_queue_length", {}) < 1) {
    std::this_thread::yield();
  }
  std::thread drain([&] { manager_->Drain(MonotonicTime::InfinitePast()); });
  waiting.join();
  EXPECT_EQ(Refused("queue"), 1);
  EXPECT_EQ(Refused("queue_timeout"), 0);
  busy.Release();
  drain.join();
}

TEST_F(OverloadTest, AModelHoldsNoMoreThanItsShare) {
  ServeWithLittleMemory();
  {
    BusyModel busy(loader_,
                   [&] { EXPECT_TRUE(Infer(LargeRequest(50'000)).ok()); });
    absl::Mutex mu;
    std::vector<grpc::Status> refused;
    std::vector<std::thread> waiting;
    const auto refusals = [&] {
      const absl::MutexLock lock(&mu);
      return refused.size();
    };
    while (refusals() == 0) {
      waiting.emplace_back([&] {
        grpc::Status status = Infer(LargeRequest(50'000));
        if (status.ok()) return;
        const absl::MutexLock lock(&mu);
        refused.push_back(std::move(status));
      });
      const auto sent = static_cast<double>(waiting.size());
      while (refusals() == 0 &&
             MetricValue(metrics_, "stoker_queue_length") < sent) {
        std::this_thread::yield();
      }
    }
    EXPECT_EQ(refused[0].error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
    EXPECT_THAT(refused[0].error_message(),
                StartsWith("requests for model 'author' hold "));
    EXPECT_GT(RetryHint(refused[0]), absl::ZeroDuration());
    EXPECT_EQ(Refused("model_memory"), 1);
    // Half of the memory, of requests of 50 to 100 KB.
    EXPECT_GE(waiting.size(), 4);
    EXPECT_LE(waiting.size(), 11);
    busy.Release();
    for (std::thread& one : waiting) one.join();
    EXPECT_EQ(refused.size(), 1);
  }
  EXPECT_TRUE(Infer(LargeRequest(50'000)).ok());
  ExpectMemoryReturns();
}

TEST_F(OverloadTest, MessagesThatNeverFitAreRefusedByGrpc) {
  ServeWithLittleMemory();
  EXPECT_TRUE(Infer(LargeRequest(200'000)).ok());
  const grpc::Status status = Infer(LargeRequest(kMemory));
  // With words of gRPC's; the reset of the stream may overtake them.
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  ExpectMemoryReturns();
}

// Two bytes on the wire become about two hundred for each input.
TEST_F(OverloadTest, MessagesThatGrowWhenParsedAreRefused) {
  ServeWithLittleMemory();
  inference::ModelInferRequest request;
  for (int i = 0; i < 20'000; ++i) request.add_inputs();
  const grpc::Status status = Infer(request);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(status.error_message(), HasSubstr("expected at most"));
  EXPECT_EQ(RetryHint(status), absl::ZeroDuration());
  ExpectMemoryReturns();
}

// Streams that are open and silent hold as much as is still free: half. A new
// one is refused then, an inference is not.
TEST_F(OverloadTest, OpenStreamsLeaveRoomForInferences) {
  ServeWithLittleMemory();
  struct Stream {
    grpc::ClientContext context;
    std::unique_ptr<grpc::ClientReaderWriter<
        inference::ModelInferRequest, inference::ModelStreamInferResponse>>
        call;
  };
  std::vector<std::unique_ptr<Stream>> streams;
  for (size_t i = 0; i < kMemory / Admission::kCallBytes / 2; ++i) {
    streams.push_back(std::make_unique<Stream>());
    streams[i]->call = stub_->ModelStreamInfer(&streams[i]->context);
  }
  while (MetricValue(metrics_, "stoker_request_memory_bytes") < kMemory / 2) {
    std::this_thread::yield();
  }
  grpc::ClientContext context;
  const grpc::Status status = stub_->ModelStreamInfer(&context)->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(status.error_message(), StartsWith("open streams hold 524288"));
  EXPECT_GT(RetryHint(status), absl::ZeroDuration());
  EXPECT_EQ(Refused("memory"), 1);
  EXPECT_TRUE(Infer(Request(1)).ok());
  for (const auto& stream : streams) {
    stream->call->WritesDone();
    EXPECT_TRUE(stream->call->Finish().ok());
  }
  ExpectMemoryReturns();
  EXPECT_TRUE(Infer(Request(1)).ok());
}

TEST_F(OverloadTest, AClientThatSendsNothingIsCutOff) {
  options_.limits.stall_limit = absl::Milliseconds(50);
  Serve();
  grpc::GenericStub stub(channel_);
  for (const char* method : {"ModelInfer", "ServerLive"}) {
    grpc::ClientContext context;
    grpc::CompletionQueue queue;
    auto call = stub.PrepareCall(
        &context, std::string("/inference.GRPCInferenceService/") + method,
        &queue);
    call->StartCall(nullptr);
    void* tag = nullptr;
    bool ok = false;
    ASSERT_TRUE(queue.Next(&tag, &ok));
    grpc::Status status;
    call->Finish(&status, nullptr);
    ASSERT_TRUE(queue.Next(&tag, &ok));
    EXPECT_EQ(status.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
    EXPECT_EQ(status.error_message(), "expected a whole message within 50ms");
  }
  // Counted a moment after the client is told.
  while (Refused("stalled") < 2) std::this_thread::yield();
  ExpectMemoryReturns();
  EXPECT_TRUE(Infer(Request(1)).ok());
}

}  // namespace
}  // namespace stoker
