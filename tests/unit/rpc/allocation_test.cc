// Counts what a small request takes from the heap on its way through the
// server, gRPC's part included. The client is another process: this binary, run
// with "--client PORT".
//
// malloc is replaced in this binary by one that counts; operator new and gRPC
// come to it too.
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "absl/synchronization/notification.h"
#include "access/gate.h"
#include "base/sha256.h"
#include "base/subprocess.h"
#include "models/model_manager.h"
#include "open_inference.grpc.pb.h"
#include "rpc/infer_call.h"
#include "rpc/rpc_server.h"
#include "tests/fakes/fake_loader.h"
#include "tests/fakes/temp_folder.h"
#include "tests/unit/rpc/codec_fixtures.h"

namespace {
std::atomic<int64_t> allocations{0};
}  // namespace

extern "C" {
void* __libc_malloc(size_t size);
void* __libc_calloc(size_t count, size_t size);
void* __libc_realloc(void* memory, size_t size);
void* __libc_memalign(size_t alignment, size_t size);

void* malloc(size_t size) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  return __libc_malloc(size);
}
void* calloc(size_t count, size_t size) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  return __libc_calloc(count, size);
}
void* realloc(void* memory, size_t size) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  return __libc_realloc(memory, size);
}
void* aligned_alloc(size_t alignment, size_t size) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  return __libc_memalign(alignment, size);
}
int posix_memalign(void** memory, size_t alignment, size_t size) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  *memory = __libc_memalign(alignment, size);
  return *memory == nullptr ? ENOMEM : 0;
}
}

namespace stoker {
namespace {

inference::ModelInferRequest SmallRequest() {
  inference::ModelInferRequest request;
  request.set_model_name("identity");
  request.set_id("1");
  AddInput(request, "x", "FP32", {1, 16});
  request.add_outputs()->set_name("y");
  request.add_raw_input_contents(Bytes(std::vector<float>(16, 0.5f)));
  return request;
}

// Requests until told, counted, then as many again; told on stdin, answers on
// the reply pipe.
constexpr int kRequests = 2000;

int RunClient(const char* port) {
  const auto stub = inference::GRPCInferenceService::NewStub(
      grpc::CreateChannel(std::string("127.0.0.1:") + port,
                          grpc::InsecureChannelCredentials()));
  const inference::ModelInferRequest request = SmallRequest();
  for (char told = 0;;) {
    for (int i = 0; i < kRequests; ++i) {
      grpc::ClientContext context;
      inference::ModelInferResponse response;
      if (!stub->ModelInfer(&context, request, &response).ok()) return 1;
    }
    if (write(3, "d", 1) != 1 || read(0, &told, 1) != 1) return 0;
  }
}

// The identity model behind a fake executable that shows its input again.
class AllocationTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directories(folder_ / "identity/1");
    std::filesystem::copy("tests/unit/rpc/testdata/identity.pt2",
                          folder_ / "identity/1/model.pt2");
    std::ofstream(folder_ / "identity/model.yaml")
        << "compile: false\nbuckets: []\n";
    auto repository = ModelRepository::Open(folder_.path(), "");
    ASSERT_TRUE(repository.ok()) << repository.status();
    repository_ = *std::move(repository);
    manager_ = std::make_unique<ModelManager>(ModelManagerOptions(),
                                              *repository_, nullptr, nullptr,
                                              loader_, Clock::Real(), metrics_);
    absl::Notification ready;
    manager_->OnReadinessChange([&] {
      if (manager_->ServerReady() && !ready.HasBeenNotified()) ready.Notify();
    });
    manager_->Start();
    ASSERT_TRUE(ready.WaitForNotificationWithTimeout(absl::Seconds(30)));
  }
  void TearDown() override { manager_->Drain(MonotonicTime::InfiniteFuture()); }

  static RunResult Show(absl::Span<const Tensor> inputs) {
    RunResult result;
    result.outputs.push_back(inputs[0]);
    Buffer buffer(inputs[0].byte_size);
    std::memcpy(buffer.data(), inputs[0].data, inputs[0].byte_size);
    result.outputs[0].data = buffer.data();
    result.outputs[0].owner = buffer.share();
    return result;
  }

  const TempFolder folder_;
  FakeLoader loader_{Show};
  MetricRegistry metrics_;
  std::unique_ptr<ModelRepository> repository_;
  std::unique_ptr<ModelManager> manager_;
};

// From the message's bytes to the answer's: reading, the queue, the batch, the
// fake run (3: its result, its memory), writing.
TEST_F(AllocationTest, OwnPart) {
  CompletionThread completion, reader("reader");
  std::atomic<int> submitted = 0;
  Admission admission(1 << 30, metrics_);
  const InferCall::Services services{*manager_,  Clock::Real(), metrics_,
                                     completion, submitted,     admission,
                                     reader};
  const ByteChain message = ByteChain::Copy(SmallRequest().SerializeAsString());
  int64_t before = 0;
  for (int i = 0; i < 2 * kRequests; ++i) {
    if (i == kRequests) before = allocations.load();
    absl::Notification done;
    Admission::Ticket ticket(admission);
    InferCall::Start(services, message, MonotonicTime::InfiniteFuture(),
                     AnswerForm::kUnary, ticket, 0,
                     [&](const InferCall::Answer& answer) {
                       if (answer.status.ok()) done.Notify();
                     });
    ASSERT_TRUE(done.WaitForNotificationWithTimeout(absl::Seconds(30)));
  }
  const double each =
      static_cast<double>(allocations.load() - before) / kRequests;
  RecordProperty("allocations", std::to_string(each));
  std::printf("%.1f allocations per request without gRPC\n", each);
  EXPECT_LE(each, 20);
}

// A policy is asked about a call whose header its connection has shown before.
TEST_F(AllocationTest, APolicyTakesNone) {
  const std::string path = folder_ / "policy.yaml";
  std::ofstream(path) << "callers: {web: {tokens: [{sha256: "
                      << Sha256Hex("secret") << "}]}}\n"
                      << "rules: [{callers: [web], groups: [infer], models: "
                         "[other, ident*]}]\n";
  const auto gate = Gate::Open(path, metrics_, Clock::Real());
  ASSERT_TRUE(gate.ok()) << gate.status();
  const Method& method = *FindMethodNamed("ModelInfer");
  const auto peer = std::make_shared<Peer>();
  const std::string header = "Bearer secret";
  int64_t before = 0;
  MonotonicTime start;
  for (int i = 0; i < 2 * kRequests; ++i) {
    if (i == kRequests) {
      before = allocations.load();
      start = Clock::Real().Now();
    }
    const Visitor visitor = (*gate)->Admit(peer, &header);
    ASSERT_TRUE((*gate)->Check(visitor, method, Target::Server()).ok());
    ASSERT_TRUE((*gate)->Check(visitor, method, Target::Of("identity")).ok());
  }
  const absl::Duration each = (Clock::Real().Now() - start) / kRequests;
  std::printf("%.0f ns per call by a policy\n",
              absl::ToDoubleNanoseconds(each));
  EXPECT_EQ(allocations.load() - before, 0);
}

TEST_F(AllocationTest, WithGrpc) {
  RpcServerOptions options;
  options.address = "127.0.0.1:0";
  auto server = RpcServer::Start(options, *manager_, Clock::Real(), metrics_);
  ASSERT_TRUE(server.ok()) << server.status();
  Subprocess::Options client;
  client.argv = {"/proc/self/exe", "--client",
                 std::to_string((*server)->port())};
  auto process = Subprocess::Start(client);
  ASSERT_TRUE(process.ok()) << process.status();
  const auto one_round = [&] {
    char done = 0;
    return read((*process)->reply_fd(), &done, 1) == 1;
  };
  ASSERT_TRUE(one_round());
  const int64_t before = allocations.load();
  ASSERT_EQ(write((*process)->stdin_fd(), "g", 1), 1);
  ASSERT_TRUE(one_round());
  const double each =
      static_cast<double>(allocations.load() - before) / kRequests;
  RecordProperty("allocations", std::to_string(each));
  std::printf("%.1f allocations per request with gRPC\n", each);
  EXPECT_LE(each, 40);
  (*process)->CloseStdin();
  EXPECT_EQ((*process)->Wait(), "exit status 0");
}

}  // namespace
}  // namespace stoker

int main(int argc, char** argv) {
  if (argc == 3 && std::string(argv[1]) == "--client") {
    return stoker::RunClient(argv[2]);
  }
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
