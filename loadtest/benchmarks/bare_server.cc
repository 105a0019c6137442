// The least that a gRPC server can do: takes a ModelInfer, runs one artifact on
// the bytes as they came, answers. One thread, one call at a time, no checks,
// no queue, no batches. What a server adds to this is its own.
//
//   bare_server --program model.pt2 --artifact <cache entry folder>
//
// Prints the port on loopback that it listens on; runs until it is killed.
// Inputs are INT64 in the order of the artifact's, outputs FP32.
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "loadtest/benchmarks/artifact.h"
#include "open_inference.grpc.pb.h"

namespace {

class BareServer {
 public:
  BareServer() {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(),
                             &port_);
    builder.RegisterService(&service_);
    queue_ = builder.AddCompletionQueue();
    server_ = builder.BuildAndStart();
  }
  int port() const { return port_; }

  // False when the server is over.
  bool AnswerOne(Artifact& artifact, stoker::ExecutionContext& context) {
    grpc::ServerContext call;
    inference::ModelInferRequest request;
    grpc::ServerAsyncResponseWriter<inference::ModelInferResponse> writer(
        &call);
    void* tag = nullptr;
    bool ok = false;
    service_.RequestModelInfer(&call, &request, &writer, queue_.get(),
                               queue_.get(), nullptr);
    if (!queue_->Next(&tag, &ok) || !ok) return false;

    std::vector<stoker::Tensor> inputs;
    for (int i = 0; i < request.inputs_size(); ++i) {
      const std::string& bytes = request.raw_input_contents(i);
      stoker::Buffer buffer(bytes.size());
      std::copy_n(reinterpret_cast<const std::byte*>(bytes.data()),
                  bytes.size(), buffer.data());
      const auto& shape = request.inputs(i).shape();
      inputs.push_back({stoker::DataType::kInt64,
                        {shape.begin(), shape.end()},
                        buffer.data(),
                        buffer.size(),
                        buffer.share()});
    }
    const stoker::RunResult result = artifact.Run(context, inputs);
    inference::ModelInferResponse response;
    for (const stoker::Tensor& output : result.outputs) {
      auto* description = response.add_outputs();
      description->set_datatype("FP32");
      for (const int64_t size : output.shape) description->add_shape(size);
      response.add_raw_output_contents(output.data, output.byte_size);
    }
    writer.Finish(response, grpc::Status::OK, nullptr);
    return queue_->Next(&tag, &ok);
  }

 private:
  inference::GRPCInferenceService::AsyncService service_;
  std::unique_ptr<grpc::ServerCompletionQueue> queue_;
  std::unique_ptr<grpc::Server> server_;
  int port_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  std::string program, folder;
  int threads = 2;
  CLI::App app{"The least that a gRPC server can do"};
  app.add_option("--program", program)->required();
  app.add_option("--artifact", folder)->required();
  app.add_option("--threads", threads)->capture_default_str();
  CLI11_PARSE(app, argc, argv);

  Artifact artifact(program, folder);
  const auto context = artifact.NewContext(threads);
  BareServer server;
  std::printf("%d\n", server.port());
  std::fflush(stdout);
  while (server.AnswerOne(artifact, *context)) {
  }
  return 0;
}
