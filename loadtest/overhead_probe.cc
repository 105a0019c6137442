// Times ModelInfer over gRPC against the same artifact run in this process, in
// alternating blocks so that a noisy machine disturbs both alike.
//
//   overhead_probe --grpc 127.0.0.1:8001 --model minilm --program model.pt2
//       --artifact <cache entry folder> --batch 1 --tokens 16 [--blocks 20]
//       [--runs 50]
//
// Prints one JSON object: medians over all runs, in microseconds, and the
// median of the blocks' differences. Inputs are INT64 [batch,tokens], all ones:
// enough for encoder models such as the demo's.
#include <grpcpp/grpcpp.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "open_inference.grpc.pb.h"
#include "runner/executable_loader.h"

namespace {

using SteadyClock = std::chrono::steady_clock;

double MicrosSince(SteadyClock::time_point start) {
  return std::chrono::duration<double, std::micro>(SteadyClock::now() - start)
      .count();
}

double Median(std::vector<double> values) {
  if (values.empty()) return 0;
  auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

struct Arguments {
  std::string grpc = "127.0.0.1:8001";
  std::string model = "minilm";
  std::string program;
  std::string artifact;
  std::vector<std::string> inputs = {"input_ids", "attention_mask"};
  int64_t batch = 1;
  int64_t tokens = 16;
  int blocks = 20;
  int runs = 50;
  int threads = 2;
  int pause_us = 0;
};

class Remote {
 public:
  explicit Remote(const Arguments& arguments)
      : stub_(inference::GRPCInferenceService::NewStub(grpc::CreateChannel(
            arguments.grpc, grpc::InsecureChannelCredentials()))) {
    request_.set_model_name(arguments.model);
    const std::vector<int64_t> ones(
        static_cast<size_t>(arguments.batch * arguments.tokens), 1);
    for (const std::string& name : arguments.inputs) {
      auto* input = request_.add_inputs();
      input->set_name(name);
      input->set_datatype("INT64");
      input->add_shape(arguments.batch);
      input->add_shape(arguments.tokens);
      request_.add_raw_input_contents(ones.data(),
                                      ones.size() * sizeof(int64_t));
    }
  }

  // Microseconds of one call; ends the process when it fails.
  double Run() {
    grpc::ClientContext context;
    inference::ModelInferResponse response;
    const auto start = SteadyClock::now();
    const grpc::Status status =
        stub_->ModelInfer(&context, request_, &response);
    const double micros = MicrosSince(start);
    if (!status.ok()) {
      std::fprintf(stderr, "ModelInfer: %s\n", status.error_message().c_str());
      std::exit(1);
    }
    return micros;
  }

 private:
  std::unique_ptr<inference::GRPCInferenceService::Stub> stub_;
  inference::ModelInferRequest request_;
};

class Local {
 public:
  explicit Local(const Arguments& arguments)
      : loader_(stoker::MakeCpuLoader()),
        context_(stoker::ExecutionContext::CreateCpu(arguments.threads)) {
    auto weights = loader_->MapWeights(arguments.program);
    auto opened = weights.ok()
                      ? loader_->OpenAot(arguments.artifact, *weights)
                      : absl::StatusOr<std::shared_ptr<stoker::Executable>>(
                            weights.status());
    if (!opened.ok()) {
      std::fprintf(stderr, "%s\n", opened.status().ToString().c_str());
      std::exit(1);
    }
    executable_ = *std::move(opened);
    for (size_t i = 0; i < arguments.inputs.size(); ++i) {
      const auto count =
          static_cast<size_t>(arguments.batch * arguments.tokens);
      stoker::Buffer buffer(count * sizeof(int64_t));
      std::fill_n(reinterpret_cast<int64_t*>(buffer.data()), count, 1);
      inputs_.push_back({stoker::DataType::kInt64,
                         {arguments.batch, arguments.tokens},
                         buffer.data(),
                         buffer.size(),
                         buffer.share()});
    }
  }

  double Run() {
    const auto start = SteadyClock::now();
    const auto result = executable_->Run(*context_, inputs_);
    const double micros = MicrosSince(start);
    if (!result.ok()) {
      std::fprintf(stderr, "%s\n", result.status().ToString().c_str());
      std::exit(1);
    }
    return micros;
  }

 private:
  std::unique_ptr<stoker::ExecutableLoader> loader_;
  std::unique_ptr<stoker::ExecutionContext> context_;
  std::shared_ptr<stoker::Executable> executable_;
  std::vector<stoker::Tensor> inputs_;
};

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  CLI::App app{"ModelInfer against the same artifact run in this process"};
  app.add_option("--grpc", arguments.grpc)->capture_default_str();
  app.add_option("--model", arguments.model)->capture_default_str();
  app.add_option("--program", arguments.program)->required();
  app.add_option("--artifact", arguments.artifact)->required();
  app.add_option("--inputs", arguments.inputs)->capture_default_str();
  app.add_option("--batch", arguments.batch)->capture_default_str();
  app.add_option("--tokens", arguments.tokens)->capture_default_str();
  app.add_option("--blocks", arguments.blocks)->capture_default_str();
  app.add_option("--runs", arguments.runs)->capture_default_str();
  app.add_option("--threads", arguments.threads)->capture_default_str();
  app.add_option("--pause-us", arguments.pause_us,
                 "idle time before each run, local and remote")
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);

  Remote remote(arguments);
  Local local(arguments);
  for (int i = 0; i < 20; ++i) {
    remote.Run();
    local.Run();
  }
  std::vector<double> all_remote, all_local, differences;
  for (int block = 0; block < arguments.blocks; ++block) {
    std::vector<double> r, l;
    for (int i = 0; i < arguments.runs; ++i) {
      usleep(static_cast<useconds_t>(arguments.pause_us));
      r.push_back(remote.Run());
    }
    for (int i = 0; i < arguments.runs; ++i) {
      usleep(static_cast<useconds_t>(arguments.pause_us));
      l.push_back(local.Run());
    }
    differences.push_back(Median(r) - Median(l));
    all_remote.insert(all_remote.end(), r.begin(), r.end());
    all_local.insert(all_local.end(), l.begin(), l.end());
  }
  std::sort(differences.begin(), differences.end());
  std::printf(
      "{\"grpc_p50_us\": %.1f, \"in_process_p50_us\": %.1f, "
      "\"overhead_p50_us\": "
      "%.1f, \"overhead_min_us\": %.1f, \"overhead_max_us\": %.1f}\n",
      Median(all_remote), Median(all_local), Median(differences),
      differences.front(), differences.back());
  return 0;
}
