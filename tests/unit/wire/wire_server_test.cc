// The transport against gRPC's own client.
#include "wire/wire_server.h"

#include <gmock/gmock.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/fakes/temp_folder.h"
#include "tests/unit/wire/echo_calls.h"

namespace stoker {
namespace {

using ::testing::HasSubstr;

struct Reply {
  grpc::Status status;
  std::string text;
};

std::string Text(const grpc::ByteBuffer& buffer) {
  grpc::Slice slice;
  if (!buffer.Valid() || !buffer.DumpToSingleSlice(&slice).ok()) return "";
  return std::string(reinterpret_cast<const char*>(slice.begin()),
                     slice.size());
}

grpc::ByteBuffer Buffer(const std::string& text) {
  const grpc::Slice slice(text);
  return grpc::ByteBuffer(&slice, 1);
}

class Client {
 public:
  explicit Client(const std::string& target) {
    grpc::ChannelArguments arguments;
    arguments.SetMaxReceiveMessageSize(-1);
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
    channel_ = grpc::CreateCustomChannel(
        target, grpc::InsecureChannelCredentials(), arguments);
    stub_ = std::make_unique<grpc::GenericStub>(channel_);
  }
  explicit Client(const EchoServer& server)
      : Client("127.0.0.1:" + std::to_string(server.port())) {}

  Reply Ask(const std::string& method, const std::string& text,
            grpc_compression_algorithm algorithm = GRPC_COMPRESS_NONE) {
    grpc::ClientContext context;
    context.set_compression_algorithm(algorithm);
    return Ask(method, text, context);
  }
  Reply Ask(const std::string& method, const std::string& text,
            grpc::ClientContext& context) {
    grpc::CompletionQueue queue;
    auto call = stub_->PrepareUnaryCall(&context, method, Buffer(text), &queue);
    call->StartCall();
    Reply reply;
    grpc::ByteBuffer answer;
    call->Finish(&answer, &reply.status, nullptr);
    void* tag = nullptr;
    bool ok = false;
    queue.Next(&tag, &ok);
    reply.text = Text(answer);
    return reply;
  }
  grpc::GenericStub& stub() { return *stub_; }

 private:
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<grpc::GenericStub> stub_;
};

// A stream that waits for each of its operations.
class Stream {
 public:
  explicit Stream(Client& client)
      : call_(client.stub().PrepareCall(&context, "/echo/Stream", &queue_)) {
    call_->StartCall(nullptr);
    Wait();
  }
  bool Write(const std::string& text) {
    call_->Write(Buffer(text), nullptr);
    return Wait();
  }
  bool Read(std::string* text) {
    grpc::ByteBuffer buffer;
    call_->Read(&buffer, nullptr);
    const bool ok = Wait();
    *text = Text(buffer);
    return ok;
  }
  void WritesDone() {
    call_->WritesDone(nullptr);
    Wait();
  }
  grpc::Status Finish() {
    grpc::Status status;
    call_->Finish(&status, nullptr);
    Wait();
    return status;
  }

  grpc::ClientContext context;

 private:
  bool Wait() {
    void* tag = nullptr;
    bool ok = false;
    return queue_.Next(&tag, &ok) && ok;
  }

  grpc::CompletionQueue queue_;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> call_;
};

std::string Noise(size_t size) {
  std::string text(size, '\0');
  uint32_t state = 12345;
  for (char& c : text) {
    state = state * 1664525 + 1013904223;
    c = static_cast<char>(state >> 24);
  }
  return text;
}

TEST(WireServer, MessagesOfAllSizes) {
  EchoServer server;
  Client client(server);
  for (const size_t size :
       {0, 1, 100, 16'000, 65'530, 65'535, 70'000, 1'000'000, 20'000'000}) {
    const std::string text = Noise(size);
    for (const char* way : {"/echo/Now", "/echo/Later"}) {
      const Reply reply = client.Ask(way, text);
      EXPECT_TRUE(reply.status.ok()) << reply.status.error_message();
      EXPECT_TRUE(reply.text == text) << size << " by " << way;
    }
  }
}

TEST(WireServer, CompressedMessages) {
  EchoServer server;
  Client client(server);
  for (const auto algorithm : {GRPC_COMPRESS_GZIP, GRPC_COMPRESS_DEFLATE}) {
    for (const size_t size : {1, 1000, 3'000'000}) {
      const std::string text(size, 'z');
      for (const char* way : {"/echo/Now", "/echo/Later"}) {
        const Reply reply = client.Ask(way, text, algorithm);
        EXPECT_TRUE(reply.status.ok()) << reply.status.error_message();
        EXPECT_TRUE(reply.text == text) << size << " by " << way;
      }
    }
  }
}

TEST(WireServer, ABombIsDefusedWhereItsMemoryIsRefused) {
  EchoServer server;
  server.counts.may_reserve = 4 << 20;
  Client client(server);
  const Reply reply = client.Ask("/echo/Now", std::string(50'000'000, '\0'),
                                 GRPC_COMPRESS_GZIP);
  EXPECT_EQ(reply.status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(reply.status.error_message(), "no room");
  EXPECT_LE(server.counts.reserved, 4 << 20);
}

TEST(WireServer, MessagesThatAreTooLong) {
  WireOptions options;
  options.limits.max_message_bytes = 100'000;
  EchoServer server(options);
  Client client(server);
  EXPECT_TRUE(client.Ask("/echo/Now", std::string(100'000, 'x')).status.ok());
  const Reply reply = client.Ask("/echo/Now", std::string(3'000'000, 'x'));
  EXPECT_EQ(reply.status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(reply.status.error_message(), HasSubstr("at most 100000 bytes"));
  EXPECT_TRUE(client.Ask("/echo/Now", "still well").status.ok());
}

TEST(WireServer, StatusesWithTextAndDetails) {
  EchoServer server;
  Client client(server);
  const std::string text =
      "100 % of 'Gr\xC3\xB6\xC3\x9F"
      "e'\nand more";
  const Reply reply = client.Ask("/echo/Fail", text);
  EXPECT_EQ(reply.status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(reply.status.error_message(), text);
  EXPECT_EQ(reply.status.error_details(), std::string("\0\xFF details", 10));
  const Reply unknown = client.Ask("/nobody/Knows", "");
  EXPECT_EQ(unknown.status.error_code(), grpc::StatusCode::UNIMPLEMENTED);
  EXPECT_EQ(unknown.status.error_message(), "unknown method '/nobody/Knows'");
}

TEST(WireServer, StreamsInBothDirections) {
  EchoServer server;
  Client client(server);
  Stream stream(client);
  std::string text;
  for (int i = 0; i < 200; ++i) {
    const std::string sent = Noise(static_cast<size_t>(i) * 997);
    ASSERT_TRUE(stream.Write(sent));
    ASSERT_TRUE(stream.Read(&text));
    EXPECT_TRUE(text == sent) << i;
  }
  stream.WritesDone();
  EXPECT_FALSE(stream.Read(&text));
  EXPECT_TRUE(stream.Finish().ok());
}

// The client writes more than the server reads ahead: it is held back, and
// every message comes all the same.
TEST(WireServer, StreamsHoldTheirClientBack) {
  EchoServer server;
  Client client(server);
  Stream stream(client);
  constexpr int kMessages = 40;
  const std::string sent(300'000, 'm');
  int written = 0;
  std::string text;
  // gRPC buffers one write beyond what the windows let through.
  for (; written < 2; ++written) ASSERT_TRUE(stream.Write(sent));
  for (int i = 0; i < kMessages; ++i) {
    ASSERT_TRUE(stream.Read(&text));
    ASSERT_TRUE(text == sent);
    if (written < kMessages) {
      ASSERT_TRUE(stream.Write(sent));
      ++written;
    }
  }
  EXPECT_LE(server.counts.reserved, kMessages * 300'000);
  stream.WritesDone();
  EXPECT_TRUE(stream.Finish().ok());
}

TEST(WireServer, ClientsThatLeaveAreNoticed) {
  EchoServer server;
  Client client(server);
  for (int i = 0; i < 20; ++i) {
    grpc::ClientContext context;
    std::thread caller([&] {
      EXPECT_EQ(client.Ask("/echo/Never", "x", context).status.error_code(),
                grpc::StatusCode::CANCELLED);
    });
    while (server.counts.started <= i) std::this_thread::yield();
    context.TryCancel();
    caller.join();
  }
  while (server.counts.ended < 20) std::this_thread::yield();
  EXPECT_EQ(server.counts.cancelled, 20);
  EXPECT_TRUE(client.Ask("/echo/Now", "x").status.ok());
}

TEST(WireServer, DeadlinesEndCalls) {
  EchoServer server;
  Client client(server);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() +
                       std::chrono::milliseconds(30));
  EXPECT_EQ(client.Ask("/echo/Never", "x", context).status.error_code(),
            grpc::StatusCode::DEADLINE_EXCEEDED);
  while (server.counts.ended < 1) std::this_thread::yield();
  EXPECT_EQ(server.counts.cancelled, 1);
}

TEST(WireServer, WhatMayNotGoOnEndsWithTheReason) {
  EchoServer server;
  Client client(server);
  Stream stream(client);
  std::string text;
  ASSERT_TRUE(stream.Write("before"));
  ASSERT_TRUE(stream.Read(&text));
  server.counts.may_go_on = false;
  EXPECT_FALSE(stream.Read(&text));
  const grpc::Status status = stream.Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(status.error_message(), "no longer");
  while (server.counts.ended < 1) std::this_thread::yield();
  EXPECT_EQ(server.EndedCalls("forbidden"), 1);
  EXPECT_TRUE(client.Ask("/echo/Now", "x").status.ok());
}

TEST(WireServer, UnixSocketsAndIPv6) {
  const TempFolder folder;
  for (const std::string& address :
       {"unix:" + folder / "grpc.sock", std::string("[::1]:0")}) {
    WireOptions options;
    options.address = address;
    auto listening = std::make_unique<EchoServer>(options);
    if (listening->wire == nullptr) continue;  // a host without IPv6
    const int port = listening->port();
    Client client(port == 0 ? address : "[::1]:" + std::to_string(port));
    const Reply reply = client.Ask("/echo/Now", "hello");
    EXPECT_TRUE(reply.status.ok()) << reply.status.error_message();
    EXPECT_EQ(reply.text, "hello");
  }
}

TEST(WireServer, ManyAtATimeOnSeveralLoops) {
  WireOptions options;
  options.loops = 3;
  EchoServer server(options);
  std::vector<std::thread> callers;
  for (int i = 0; i < 12; ++i) {
    callers.emplace_back([&, i] {
      Client client(server);
      for (int n = 0; n < 100; ++n) {
        const std::string text = Noise(static_cast<size_t>((i * 31 + n) * 97));
        const Reply reply =
            client.Ask(n % 2 == 0 ? "/echo/Now" : "/echo/Later", text);
        EXPECT_TRUE(reply.status.ok()) << reply.status.error_message();
        EXPECT_TRUE(reply.text == text);
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
}

TEST(WireServer, ThreadsThatArePinned) {
  const int cpu = UsableCpus().back();
  WireOptions options;
  options.cpus = {cpu};
  EchoServer server(options);
  Client client(server);
  EXPECT_EQ(client.Ask("/echo/Where", "").text, CpuList({cpu}));
}

TEST(WireServer, AStopTellsOpenCallsAndWaitsForThem) {
  EchoServer server;
  Client client(server);
  Stream stream(client);
  std::string text;
  ASSERT_TRUE(stream.Write("before"));
  ASSERT_TRUE(stream.Read(&text));
  std::thread stop(
      [&] { server.wire->Shutdown(MonotonicTime::InfiniteFuture()); });
  while (server.counts.stopped < 1) std::this_thread::yield();
  // It is still served.
  ASSERT_TRUE(stream.Write("after"));
  ASSERT_TRUE(stream.Read(&text));
  EXPECT_EQ(text, "after");
  stream.WritesDone();
  EXPECT_TRUE(stream.Finish().ok());
  stop.join();
  EXPECT_EQ(client.Ask("/echo/Now", "x").status.error_code(),
            grpc::StatusCode::UNAVAILABLE);
}

TEST(WireServer, AStopCancelsWhatIsLate) {
  EchoServer server;
  Client client(server);
  std::thread caller(
      [&] { EXPECT_FALSE(client.Ask("/echo/Never", "x").status.ok()); });
  while (server.counts.started < 1) std::this_thread::yield();
  server.wire->Shutdown(MonotonicTime::InfinitePast());
  caller.join();
  EXPECT_EQ(server.counts.cancelled, 1);
  EXPECT_EQ(server.counts.ended, 1);
}

}  // namespace
}  // namespace stoker
