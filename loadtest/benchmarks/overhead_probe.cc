// Times ModelInfer over gRPC against the same artifact run in this process, in
// alternating blocks so that a noisy machine disturbs all alike. Between them
// stands bare_server, the least that any gRPC server can do.
//
//   overhead_probe --grpc 127.0.0.1:8001 --bare 127.0.0.1:8002
//       --model minilm --program model.pt2 --artifact <cache entry folder>
//       --batch 1 --tokens 16 [--blocks 20]
//       [--runs 50]
//
// Prints one JSON object: medians over all runs, in microseconds, and the
// medians of the blocks' differences to the run alone. Inputs are INT64
// [batch,tokens], all ones: enough for encoder models such as the demo's.
#include <grpcpp/grpcpp.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "loadtest/benchmarks/artifact.h"
#include "open_inference.grpc.pb.h"

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
  std::string bare;
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
  Remote(const Arguments& arguments, const std::string& address)
      : stub_(inference::GRPCInferenceService::NewStub(
            grpc::CreateChannel(address, grpc::InsecureChannelCredentials()))) {
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
  Local(const Arguments& arguments, Artifact& artifact)
      : artifact_(artifact), context_(artifact.NewContext(arguments.threads)) {
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
    artifact_.Run(*context_, inputs_);
    return MicrosSince(start);
  }

 private:
  Artifact& artifact_;
  std::unique_ptr<stoker::ExecutionContext> context_;
  std::vector<stoker::Tensor> inputs_;
};

// The medians of one way to run, over everything and relative to the run alone.
struct Series {
  std::vector<double> all;
  std::vector<double> over;  // per block

  template <typename Run>
  double Block(const Arguments& arguments, Run run) {
    std::vector<double> block;
    for (int i = 0; i < arguments.runs; ++i) {
      usleep(static_cast<useconds_t>(arguments.pause_us));
      block.push_back(run());
    }
    all.insert(all.end(), block.begin(), block.end());
    return Median(std::move(block));
  }
};

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  CLI::App app{"ModelInfer against the same artifact run in this process"};
  app.add_option("--grpc", arguments.grpc)->capture_default_str();
  app.add_option("--bare", arguments.bare, "address of bare_server")
      ->required();
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

  Artifact artifact(arguments.program, arguments.artifact);
  Local local(arguments, artifact);
  Remote bare(arguments, arguments.bare);
  Remote remote(arguments, arguments.grpc);
  for (int i = 0; i < 20; ++i) {
    remote.Run();
    bare.Run();
    local.Run();
  }
  Series in_process, bare_grpc, stokerd;
  for (int block = 0; block < arguments.blocks; ++block) {
    const double r = stokerd.Block(arguments, [&] { return remote.Run(); });
    const double b = bare_grpc.Block(arguments, [&] { return bare.Run(); });
    const double l = in_process.Block(arguments, [&] { return local.Run(); });
    stokerd.over.push_back(r - l);
    bare_grpc.over.push_back(b - l);
  }
  std::sort(stokerd.over.begin(), stokerd.over.end());
  std::printf(
      "{\"grpc_p50_us\": %.1f, \"bare_grpc_p50_us\": %.1f, "
      "\"in_process_p50_us\": %.1f, \"overhead_p50_us\": %.1f, "
      "\"overhead_min_us\": %.1f, \"overhead_max_us\": %.1f, "
      "\"bare_overhead_p50_us\": %.1f}\n",
      Median(stokerd.all), Median(bare_grpc.all), Median(in_process.all),
      Median(stokerd.over), stokerd.over.front(), stokerd.over.back(),
      Median(bare_grpc.over));
  return 0;
}
