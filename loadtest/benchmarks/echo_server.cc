// A bare gRPC server of the Open Inference Protocol that answers with what it
// got: the limit for a server that computes nothing. No queue, no batches, no
// metrics.
//
//   echo_server --form raw --api callback --input x:FP32:-1,16
//
// Prints the port that it listens on; runs until it is killed.
#include <grpcpp/grpcpp.h>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "base/thread.h"
#include "loadtest/benchmarks/echo_answer.h"
#include "loadtest/generator/client_use.h"
#include "open_inference.grpc.pb.h"

namespace stoker::loadtest {
namespace {

using inference::GRPCInferenceService;

// What clients ask before they send the first request. Synchronous: it isn't
// measured.
class Descriptions : public GRPCInferenceService::Service {
 public:
  // gRPC's classes between this and the server's make it without arguments.
  void Describe(const EchoModel& model) { model_ = &model; }

  grpc::Status ServerLive(grpc::ServerContext*,
                          const inference::ServerLiveRequest*,
                          inference::ServerLiveResponse* response) override {
    response->set_live(true);
    return grpc::Status::OK;
  }
  grpc::Status ServerReady(grpc::ServerContext*,
                           const inference::ServerReadyRequest*,
                           inference::ServerReadyResponse* response) override {
    response->set_ready(true);
    return grpc::Status::OK;
  }
  grpc::Status ModelReady(grpc::ServerContext*,
                          const inference::ModelReadyRequest* request,
                          inference::ModelReadyResponse* response) override {
    response->set_ready(request->name() == model_->name);
    return grpc::Status::OK;
  }
  grpc::Status ServerMetadata(
      grpc::ServerContext*, const inference::ServerMetadataRequest*,
      inference::ServerMetadataResponse* response) override {
    response->set_name("echo");
    response->set_version(STOKER_VERSION);
    return grpc::Status::OK;
  }
  grpc::Status ModelMetadata(
      grpc::ServerContext*, const inference::ModelMetadataRequest* request,
      inference::ModelMetadataResponse* response) override {
    if (request->name() != model_->name)
      return {grpc::StatusCode::NOT_FOUND, "expected model " + model_->name};
    *response = model_->Metadata();
    return grpc::Status::OK;
  }

 protected:
  const EchoModel* model_ = nullptr;
};

template <template <class> class With, class Request, class Response>
class CallbackService final : public With<Descriptions> {
  grpc::ServerUnaryReactor* ModelInfer(grpc::CallbackServerContext* context,
                                       const Request* request,
                                       Response* response) override {
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    reactor->Finish(this->model_->Answer(*request, response));
    return reactor;
  }
};

// One call after the other, on a completion queue: asked for, answered, done.
template <class Service, class Request, class Response>
class AsyncCall {
 public:
  AsyncCall(Service& service, const EchoModel& model,
            grpc::ServerCompletionQueue& queue)
      : service_(service), model_(model), queue_(queue) {
    Ask();
  }

  void OnEvent(bool ok) {
    if (asked_ && ok) {
      asked_ = false;
      Response response;
      const grpc::Status status = model_.Answer(state_->request, &response);
      status.ok() ? state_->writer.Finish(response, status, this)
                  : state_->writer.FinishWithError(status, this);
    } else {
      Ask();
    }
  }

 private:
  struct State {
    grpc::ServerContext context;
    Request request;
    grpc::ServerAsyncResponseWriter<Response> writer{&context};
  };

  void Ask() {
    asked_ = true;
    state_.emplace();
    service_.RequestModelInfer(&state_->context, &state_->request,
                               &state_->writer, &queue_, &queue_, this);
  }

  Service& service_;
  const EchoModel& model_;
  grpc::ServerCompletionQueue& queue_;
  std::optional<State> state_;
  bool asked_ = false;
};

struct Options {
  std::string listen = "127.0.0.1:0";
  std::string certificate, key;  // PEM files; empty: plain text
  std::string form = "raw", api = "callback";
  int threads = 0;
};

std::string Content(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

std::shared_ptr<grpc::ServerCredentials> Credentials(const Options& options) {
  if (options.certificate.empty()) return grpc::InsecureServerCredentials();
  grpc::SslServerCredentialsOptions tls;
  tls.pem_key_cert_pairs.push_back(
      {Content(options.key), Content(options.certificate)});
  return grpc::SslServerCredentials(tls);
}

void Configure(const Options& options, int* port,
               grpc::ServerBuilder& builder) {
  builder.SetMaxReceiveMessageSize(-1);
  builder.SetMaxSendMessageSize(-1);
  builder.AddListeningPort(options.listen, Credentials(options), port);
}

int Announce(const grpc::Server* server, const Options& options, int port) {
  if (server == nullptr) {
    std::fprintf(stderr, "expected a free address to listen on, got %s\n",
                 options.listen.c_str());
    return 1;
  }
  std::printf("%d\n", port);
  std::fflush(stdout);
  return 0;
}

template <class Service>
int ServeCallback(const EchoModel& model, const Options& options) {
  Service service;
  service.Describe(model);
  int port = 0;
  grpc::ServerBuilder builder;
  Configure(options, &port, builder);
  builder.RegisterService(&service);
  const auto server = builder.BuildAndStart();
  if (Announce(server.get(), options, port) != 0) return 1;
  server->Wait();
  return 0;
}

template <template <class> class With, class Request, class Response>
int ServeAsync(const EchoModel& model, const Options& options) {
  using Service = With<Descriptions>;
  using Call = AsyncCall<Service, Request, Response>;
  constexpr int kCallsPerThread = 128;
  Service service;
  service.Describe(model);
  int port = 0;
  grpc::ServerBuilder builder;
  Configure(options, &port, builder);
  builder.RegisterService(&service);
  std::vector<std::unique_ptr<grpc::ServerCompletionQueue>> queues;
  for (int i = 0; i < options.threads; ++i)
    queues.push_back(builder.AddCompletionQueue());
  const auto server = builder.BuildAndStart();
  if (Announce(server.get(), options, port) != 0) return 1;
  std::vector<std::unique_ptr<Call>> calls;
  std::vector<Thread> threads;
  for (const auto& queue : queues) {
    for (int i = 0; i < kCallsPerThread; ++i)
      calls.push_back(std::make_unique<Call>(service, model, *queue));
    threads.emplace_back("echo", [&queue] {
      void* tag = nullptr;
      bool ok = false;
      while (queue->Next(&tag, &ok)) static_cast<Call*>(tag)->OnEvent(ok);
    });
  }
  server->Wait();
  return 0;
}

int Serve(const EchoModel& model, const Options& options) {
  using Service = GRPCInferenceService;
  using Request = inference::ModelInferRequest;
  using Response = inference::ModelInferResponse;
  using Bytes = grpc::ByteBuffer;
  const bool raw = options.form == "raw";
  if (options.api == "callback") {
    return raw ? ServeCallback<CallbackService<
                     Service::WithRawCallbackMethod_ModelInfer, Bytes, Bytes>>(
                     model, options)
               : ServeCallback<
                     CallbackService<Service::WithCallbackMethod_ModelInfer,
                                     Request, Response>>(model, options);
  }
  return raw ? ServeAsync<Service::WithRawMethod_ModelInfer, Bytes, Bytes>(
                   model, options)
             : ServeAsync<Service::WithAsyncMethod_ModelInfer, Request,
                          Response>(model, options);
}

int Main(int argc, char** argv) {
  Options options;
  EchoModel model{.name = "null"};
  std::string input = "x:FP32:-1,16", output = "y:FP32:-1,16";
  CLI::App app{"A bare gRPC server that answers with what it got"};
  app.add_option("--listen", options.listen, "port 0: any")
      ->capture_default_str();
  auto* const key =
      app.add_option("--tls-key", options.key, "its key, a PEM file")
          ->check(CLI::ExistingFile);
  app.add_option("--tls-certificate", options.certificate,
                 "speak TLS with this certificate, a PEM file")
      ->check(CLI::ExistingFile)
      ->needs(key);
  app.add_option("--form", options.form, "what the messages are handled as")
      ->check(CLI::IsMember({"raw", "parsed"}))
      ->capture_default_str();
  app.add_option("--api", options.api, "of gRPC")
      ->check(CLI::IsMember({"callback", "async"}))
      ->capture_default_str();
  app.add_option("--threads", options.threads,
                 "of the async API, each with a completion queue; 0: one for "
                 "each core")
      ->check(CLI::Range(0, 256));
  app.add_option("--model", model.name)->capture_default_str();
  app.add_option("--input", input, "NAME:DATATYPE:SHAPE, the first axis -1")
      ->capture_default_str();
  app.add_option("--output", output, "the same; its rows are the first bytes")
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);

  const auto from = ParseEchoTensor(input);
  const auto to = ParseEchoTensor(output);
  const absl::Status status = from.ok() ? to.status() : from.status();
  if (!status.ok() || to->row_bytes() > from->row_bytes()) {
    std::fprintf(stderr, "echo_server: %s\n",
                 status.ok() ? "expected an output no longer than the input"
                             : std::string(status.message()).c_str());
    return 1;
  }
  model.input = *from;
  model.output = *to;
  if (options.threads == 0) options.threads = AvailableCores();
  return Serve(model, options);
}

}  // namespace
}  // namespace stoker::loadtest

int main(int argc, char** argv) { return stoker::loadtest::Main(argc, argv); }
