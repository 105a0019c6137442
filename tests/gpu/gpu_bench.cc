// What a program's forms cost in this process, without a server: eager, an
// artifact of it, and its CUDA graph, one JSON object a line.
//
//   gpu_bench --program model.pt2 --entry FOLDER --device cuda:0
//       --iterations 200 --json
//
// p50_us, p99_us: of a batch, from inputs on the host to answers on the host;
// host_us: median of what the thread does until it can sleep; per_second: runs
// of one thread after another; peak_bytes: of torch's allocator on the device,
// weights excluded; open_us and capture_us: what came before. On "cpu" there is
// no graph, and the last three are 0. Lines with "check" say whether what was
// timed answers right: compiled as eager does, within --tolerance ("gate":
// whether the server's own gate takes it without asking for float64), and the
// graph bit by bit as compiled does. Ends with 1 where one doesn't.
#include <c10/cuda/CUDACachingAllocator.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/files.h"
#include "base/status_macros.h"
#include "nlohmann/json.hpp"
#include "promotion/parity_check.h"
#include "promotion/seeded_inputs.h"
#include "runner/artifact_manifest.h"
#include "runner/cuda/cuda_gpus.h"
#include "runner/cuda/gpu_context.h"
#include "runner/executable_loader.h"

namespace stoker {
namespace {

using Instant = std::chrono::steady_clock;

struct Options {
  std::string program;
  std::string entry;
  std::string device = "cuda:0";
  int iterations = 200;
  int64_t open_size = 2;  // of a dimension that the artifact leaves open
  double tolerance = 1e-3;
  bool json = false;
};

double Microseconds(Instant::duration time) {
  return std::chrono::duration<double, std::micro>(time).count();
}

double Quantile(std::vector<double> values, double part) {
  const auto at =
      static_cast<size_t>(part * static_cast<double>(values.size()));
  const size_t index = std::min(at, values.size() - 1);
  std::nth_element(values.begin(),
                   values.begin() + static_cast<std::ptrdiff_t>(index),
                   values.end());
  return values[index];
}

std::vector<Tensor> InputsOf(const ArtifactManifest& manifest,
                             int64_t open_size) {
  std::vector<InputDomain> domains;
  for (const ArtifactInput& input : manifest.inputs) {
    InputDomain domain;
    domain.dtype = input.dtype;
    domain.shape = input.shape;
    for (int64_t& size : domain.shape) size = size < 0 ? open_size : size;
    domain.normal = IsFloating(input.dtype);
    // Integers are 1: an index that every table has, and a divisor.
    domain.low = 1;
    domains.push_back(std::move(domain));
  }
  return SeededInputs(domains, 1);
}

class Bench {
 public:
  Bench(const Options& options, ExecutableLoader& loader, int gpu)
      : options_(options),
        loader_(loader),
        gpu_(gpu),
        context_(loader.NewContext(
            gpu < 0 ? static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN)) : 1)) {}

  absl::Status Run() {
    ASSIGN_OR_RETURN(const std::string text,
                     Files::Real().Read(options_.entry + "/manifest.json"));
    ASSIGN_OR_RETURN(const ArtifactManifest manifest,
                     ParseArtifactManifest(text));
    inputs_ = InputsOf(manifest, options_.open_size);
    auto start = Instant::now();
    ASSIGN_OR_RETURN(auto weights, loader_.MapWeights(options_.program));
    const double weights_us = Microseconds(Instant::now() - start);
    ASSIGN_OR_RETURN(const std::vector<Tensor> expected, Eager(weights));
    start = Instant::now();
    ASSIGN_OR_RETURN(const std::shared_ptr<Executable> compiled,
                     loader_.OpenAot(options_.entry, std::move(weights)));
    const double open_us = Microseconds(Instant::now() - start);
    RETURN_IF_ERROR(
        Measure(*compiled, {{"open_us", open_us}, {"weights_us", weights_us}}));
    ASSIGN_OR_RETURN(const std::vector<Tensor> answers, Answers(*compiled));
    RETURN_IF_ERROR(
        Check("compiled equals eager", expected, answers,
              {.rtol = options_.tolerance, .atol = options_.tolerance}));
    if (!loader_.captures()) return Verdict();
    constexpr int64_t kMostBytes = int64_t{16} << 30;
    start = Instant::now();
    const auto graph = loader_.Capture(
        compiled, *context_, absl::MakeConstSpan(&inputs_, 1), kMostBytes);
    const double capture_us = Microseconds(Instant::now() - start);
    if (!graph.ok()) {
      return Print({{"tier", "graph"},
                    {"refused", std::string(graph.status().message())}});
    }
    RETURN_IF_ERROR(
        Measure(*graph->executable,
                {{"capture_us", capture_us}, {"graph_bytes", graph->bytes}}));
    // Timed thousands of times by now, and still the same.
    ASSIGN_OR_RETURN(const std::vector<Tensor> replayed,
                     Answers(*graph->executable));
    RETURN_IF_ERROR(Check("graph equals compiled", answers, replayed,
                          {.rtol = 0, .atol = 0}));
    return Verdict();
  }

 private:
  absl::StatusOr<std::vector<Tensor>> Answers(Executable& executable) {
    ASSIGN_OR_RETURN(RunResult result, executable.Run(*context_, inputs_));
    return std::move(result.outputs);
  }

  absl::Status Check(const char* what, const std::vector<Tensor>& expected,
                     const std::vector<Tensor>& answers,
                     const ParityTolerance& tolerance) {
    const Comparison found = CompareOutputs(expected, answers, tolerance);
    passed_ &= found.equal;
    std::printf(
        "%s\n",
        nlohmann::json{{"check", what},
                       {"passed", found.equal},
                       {"max_abs_error", found.max_abs_error},
                       {"gate", CompareOutputs(expected, answers, {}).equal},
                       {"difference", found.difference}}
            .dump()
            .c_str());
    return absl::OkStatus();
  }

  absl::Status Verdict() const {
    return passed_ ? absl::OkStatus()
                   : absl::DataLossError("what was timed answers wrong");
  }

  // Gone before the compiled form is measured: it may have a copy of the
  // weights.
  absl::StatusOr<std::vector<Tensor>> Eager(
      const std::shared_ptr<WeightStore>& weights) {
    const auto start = Instant::now();
    ASSIGN_OR_RETURN(const std::shared_ptr<Executable> eager,
                     loader_.OpenEager(options_.program, weights));
    RETURN_IF_ERROR(
        Measure(*eager, {{"open_us", Microseconds(Instant::now() - start)}}));
    return Answers(*eager);
  }

  absl::Status Measure(Executable& executable, nlohmann::json line) {
    constexpr int kWarmUp = 10;
    // As the batcher does: inputs lie where the device copies from.
    std::vector<Tensor> inputs = inputs_;
    for (Tensor& input : inputs) {
      const Buffer buffer = context_->NewBuffer(input.byte_size);
      std::copy_n(input.data, input.byte_size, buffer.data());
      input.data = buffer.data();
      input.owner = buffer.share();
    }
    for (int i = 0; i < kWarmUp; ++i) {
      RETURN_IF_ERROR(executable.Run(*context_, inputs).status());
    }
    if (gpu_ >= 0) {
      c10::cuda::CUDACachingAllocator::resetPeakStats(
          static_cast<c10::DeviceIndex>(gpu_));
    }
    std::vector<double> batch;
    std::vector<double> host;
    const auto begin = Instant::now();
    for (int i = 0; i < options_.iterations; ++i) {
      const auto start = Instant::now();
      RETURN_IF_ERROR(executable.Run(*context_, inputs).status());
      batch.push_back(Microseconds(Instant::now() - start));
      if (gpu_ < 0) continue;
      host.push_back(
          Microseconds(static_cast<GpuContext&>(*context_).last_enqueue()));
    }
    const double seconds = Microseconds(Instant::now() - begin) / 1e6;
    line["tier"] = executable.tier();
    line["device"] = options_.device;
    line["p50_us"] = Quantile(batch, 0.5);
    line["p99_us"] = Quantile(batch, 0.99);
    line["host_us"] = host.empty() ? 0 : Quantile(host, 0.5);
    line["per_second"] = options_.iterations / seconds;
    line["iterations"] = options_.iterations;
    line["peak_bytes"] = PeakBytes();
    return Print(line);
  }

  int64_t PeakBytes() const {
    if (gpu_ < 0) return 0;
    return c10::cuda::CUDACachingAllocator::getDeviceStats(
               static_cast<c10::DeviceIndex>(gpu_))
        .allocated_bytes[0]
        .peak;
  }

  absl::Status Print(const nlohmann::json& line) const {
    if (options_.json || line.contains("refused")) {
      std::printf("%s\n", line.dump().c_str());
    } else {
      std::printf("%-6s p50 %9.1f us   p99 %9.1f us   host %7.1f us   %s\n",
                  line["tier"].get<std::string>().c_str(),
                  line["p50_us"].get<double>(), line["p99_us"].get<double>(),
                  line["host_us"].get<double>(), line.dump().c_str());
    }
    std::fflush(stdout);
    return absl::OkStatus();
  }

  const Options& options_;
  ExecutableLoader& loader_;
  const int gpu_;  // -1: the processor
  const std::unique_ptr<ExecutionContext> context_;
  std::vector<Tensor> inputs_;
  bool passed_ = true;
};

absl::Status Main(const Options& options) {
  ASSIGN_OR_RETURN(const Device device, ParseDevice(options.device));
  GpuOptions gpu_options;
  gpu_options.clock = &Clock::Real();
  std::unique_ptr<Gpus> gpus;
  if (device.is_gpu()) {
    ASSIGN_OR_RETURN(gpus, OpenCudaGpus(gpu_options));
  }
  const std::unique_ptr<ExecutableLoader> cpu = MakeCpuLoader();
  if (gpus == nullptr) return Bench(options, *cpu, -1).Run();
  const std::vector<int64_t> unknown(gpus->facts().size(), 0);
  ASSIGN_OR_RETURN(const int index, FindGpu(device, gpus->facts(), unknown));
  ASSIGN_OR_RETURN(ExecutableLoader* const loader, gpus->Loader(index));
  return Bench(options, *loader, index).Run();
}

}  // namespace
}  // namespace stoker

int main(int argc, char** argv) {
  stoker::Options options;
  CLI::App app{"Times a program's forms in this process."};
  app.add_option("--program", options.program, "the exported program")
      ->required()
      ->check(CLI::ExistingFile);
  app.add_option("--entry", options.entry, "folder of its compiled artifact")
      ->required()
      ->check(CLI::ExistingDirectory);
  app.add_option("--device", options.device, "cpu or cuda:N")
      ->capture_default_str();
  app.add_option("--iterations", options.iterations, "timed runs of each form")
      ->check(CLI::Range(1, 10'000'000))
      ->capture_default_str();
  app.add_option("--open-size", options.open_size,
                 "size of dimensions that the artifact leaves open")
      ->capture_default_str();
  app.add_option("--tolerance", options.tolerance,
                 "of compiled answers, absolute and relative")
      ->capture_default_str();
  app.add_flag("--json", options.json, "one JSON object a line");
  CLI11_PARSE(app, argc, argv);
  const absl::Status status = stoker::Main(options);
  if (!status.ok()) {
    std::fprintf(stderr, "gpu_bench: %s\n",
                 std::string(status.message()).c_str());
  }
  std::fflush(nullptr);
  // Static destructors of torch's two halves have nothing to save.
  _exit(status.ok() ? 0 : 1);
}
