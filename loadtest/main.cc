// stoker-loadtest: loads any server of the Open Inference Protocol (KServe v2)
// over gRPC and says what came of it.
#include <cstdio>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/files.h"
#include "base/status_macros.h"
#include "loadtest/html_report.h"
#include "loadtest/result_file.h"
#include "loadtest/scenario_run.h"

namespace stoker::loadtest {
namespace {

// Flags that every way to run has.
struct Output {
  std::string address = "127.0.0.1:8001";
  std::string metrics_url;
  std::string json_path, html_path;
  std::vector<std::string> labels;
};

// What a quick run is made of, as on the command line.
struct Quick {
  std::string model, version;
  std::vector<int> concurrency;
  std::vector<double> rates;
  std::string arrivals = "poisson";
  std::vector<std::string> sizes, ranges;
  double warmup_seconds = 1, measure_seconds = 5, slo_ms = 100;
  double timeout_ms = 0;
  int connections = 4, threads = 0, messages = 256;
  uint64_t seed = 1;
  bool stream = false, check_answers = false;
};

absl::StatusOr<std::pair<std::string, std::string>> NameAndValue(
    const std::string& text, const char* expected) {
  const size_t equals = text.find('=');
  if (equals == text.npos || equals == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected ", expected, ", got '", text, "'"));
  }
  return std::pair(text.substr(0, equals), text.substr(equals + 1));
}

// "ids.1,mask.1=uniform:8:128"
absl::StatusOr<MixedDimension> ParseSizeFlag(const std::string& text) {
  ASSIGN_OR_RETURN(const auto pair,
                   NameAndValue(text, "--size INPUT.AXIS[,...]=SIZES"));
  ASSIGN_OR_RETURN(SizeDistribution sizes, ParseDistribution(pair.second));
  return MixedDimension{pair.first, absl::StrSplit(pair.first, ','),
                        std::move(sizes)};
}

absl::StatusOr<std::pair<std::string, ValueRange>> ParseRangeFlag(
    const std::string& text) {
  constexpr char kExpected[] = "--range INPUT=MIN:MAX";
  ASSIGN_OR_RETURN(const auto pair, NameAndValue(text, kExpected));
  const std::vector<std::string> ends = absl::StrSplit(pair.second, ':');
  ValueRange range;
  if (ends.size() != 2 || !absl::SimpleAtod(ends[0], &range.min) ||
      !absl::SimpleAtod(ends[1], &range.max) || !(range.min <= range.max)) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected ", kExpected, ", got '", text, "'"));
  }
  return std::pair(pair.first, range);
}

absl::StatusOr<Scenario> MakeScenario(const Quick& quick) {
  Scenario scenario{.name = absl::StrCat("quick run of ", quick.model),
                    .model = quick.model,
                    .version = quick.version,
                    .stream = quick.stream,
                    .connections = quick.connections,
                    .threads = quick.threads,
                    .seed = quick.seed,
                    .messages = quick.messages,
                    .timeout = absl::Milliseconds(quick.timeout_ms),
                    .check_answers = quick.check_answers};
  scenario.slo.latency = absl::Milliseconds(quick.slo_ms);
  for (const std::string& text : quick.sizes) {
    ASSIGN_OR_RETURN(MixedDimension dimension, ParseSizeFlag(text));
    scenario.dimensions.push_back(std::move(dimension));
  }
  for (const std::string& text : quick.ranges) {
    ASSIGN_OR_RETURN(auto range, ParseRangeFlag(text));
    scenario.ranges.insert(std::move(range));
  }
  Step step;
  step.warmup = absl::Seconds(quick.warmup_seconds);
  step.measure = absl::Seconds(quick.measure_seconds);
  const auto add = [&](auto load) {
    step.load = load;
    scenario.steps.push_back(step);
    scenario.steps.back().name = DescribeLoad(step);
  };
  for (const int concurrency : quick.concurrency) add(ClosedLoop{concurrency});
  for (const double rate : quick.rates) {
    add(OpenLoop{.arrivals = quick.arrivals == "constant"
                                 ? ArrivalKind::kConstant
                                 : ArrivalKind::kPoisson,
                 .rate = rate});
  }
  if (scenario.steps.empty()) add(ClosedLoop{1});
  return scenario;
}

absl::StatusOr<std::map<std::string, std::string>> ParseLabels(
    const std::vector<std::string>& texts) {
  std::map<std::string, std::string> labels;
  for (const std::string& text : texts) {
    ASSIGN_OR_RETURN(auto label, NameAndValue(text, "--label NAME=TEXT"));
    labels.insert(std::move(label));
  }
  return labels;
}

void PrintStep(const StepResult& result) {
  std::printf("%s\n", StepLine(result).c_str());
  for (const auto& [code, errors] : result.load.recording.errors) {
    std::printf("    %s x %lld, p99 %.2f ms: %s\n", CodeName(code).c_str(),
                static_cast<long long>(errors.count),
                static_cast<double>(errors.latency.Percentile(99)) * 1e-6,
                errors.example.c_str());
  }
  if (result.search) {
    if (result.search->rate) {
      std::printf("    peak: %.1f/s\n", *result.search->rate);
    } else {
      std::printf("    no rate meets the SLO\n");
    }
  }
  for (const std::string& reason : result.client_limits)
    std::printf("    THE CLIENT WAS THE LIMIT: %s\n", reason.c_str());
  std::fflush(stdout);
}

absl::Status WriteReport(const nlohmann::ordered_json& json,
                         const std::string& path) {
  ASSIGN_OR_RETURN(const std::string html, HtmlReport(json));
  return WriteText(path, html);
}

absl::Status RunAndReport(const Scenario& scenario, const Output& output) {
  ASSIGN_OR_RETURN(const auto labels, ParseLabels(output.labels));
  RunOptions options;
  options.address = output.address;
  options.metrics_url = output.metrics_url;
  options.on_step = PrintStep;
  options.on_progress = [](const std::string& line) {
    std::printf("%s\n", line.c_str());
    std::fflush(stdout);
  };
  std::printf("%s at %s\n%s\n", scenario.name.c_str(), output.address.c_str(),
              StepTitle().c_str());
  ASSIGN_OR_RETURN(const RunResult result, RunScenario(scenario, options));
  const auto json = ResultJson(scenario, output.address, result, labels);
  if (!output.json_path.empty())
    RETURN_IF_ERROR(WriteText(output.json_path, json.dump(1) + "\n"));
  return output.html_path.empty() ? absl::OkStatus()
                                  : WriteReport(json, output.html_path);
}

// The report of a result written earlier.
absl::Status ReportAgain(const std::string& json_path,
                         const std::string& html_path) {
  ASSIGN_OR_RETURN(const std::string text, Files::Real().Read(json_path));
  const auto json = nlohmann::ordered_json::parse(text, nullptr, false);
  if (json.is_discarded()) {
    return absl::InvalidArgumentError(
        absl::StrCat(json_path, ": expected JSON, got something else"));
  }
  return WriteReport(json, html_path);
}

// A trace file of the sizes that a scenario draws, for other tools.
absl::Status PrintSizes(const std::string& path) {
  ASSIGN_OR_RETURN(const Scenario scenario, ReadScenario(path));
  ASSIGN_OR_RETURN(const Trace trace, DrawSizes(scenario));
  std::string line;
  for (const MixedDimension& dimension : scenario.dimensions)
    absl::StrAppend(&line, line.empty() ? "" : ",", dimension.name);
  std::printf("%s\n", line.c_str());
  for (const auto& sizes : trace.sizes)
    std::printf("%s\n", absl::StrJoin(sizes, ",").c_str());
  return absl::OkStatus();
}

void AddOutputFlags(CLI::App& app, Output& output) {
  app.add_option("--address", output.address, "gRPC server, host:port")
      ->capture_default_str();
  app.add_option("--metrics", output.metrics_url,
                 "page of the server's metrics, http://host:port/metrics");
  app.add_option("--output", output.json_path, "file for the result, JSON");
  app.add_option("--html", output.html_path, "file for the report, HTML");
  app.add_option("--label", output.labels,
                 "NAME=TEXT that goes into the result; may be repeated")
      ->allow_extra_args(false);
}

void AddQuickFlags(CLI::App& app, Quick& quick) {
  app.add_option("--model", quick.model, "name of the model")->required();
  app.add_option("--version", quick.version, "version; empty: the newest");
  app.add_option("--concurrency", quick.concurrency,
                 "closed loop: requests under way, such as 1,8,32")
      ->delimiter(',');
  app.add_option("--rate", quick.rates,
                 "open loop: requests per second, such as 100,200")
      ->delimiter(',');
  app.add_option("--arrivals", quick.arrivals, "of the open loop")
      ->check(CLI::IsMember({"poisson", "constant"}))
      ->capture_default_str();
  app.add_option("--size", quick.sizes,
                 "INPUT.AXIS[,INPUT.AXIS]=SIZES, SIZES being a number, "
                 "uniform:MIN:MAX, lognormal:MEDIAN:SIGMA:MIN:MAX or "
                 "weighted:SIZE=WEIGHT:...; may be repeated")
      ->allow_extra_args(false);
  app.add_option("--range", quick.ranges,
                 "INPUT=MIN:MAX, the values of an input; may be repeated")
      ->allow_extra_args(false);
  app.add_option("--warmup", quick.warmup_seconds, "seconds before measuring")
      ->check(CLI::Range(0.0, 86400.0))
      ->capture_default_str();
  app.add_option("--measure", quick.measure_seconds, "seconds measured")
      ->check(CLI::Range(0.01, 86400.0))
      ->capture_default_str();
  app.add_option("--slo", quick.slo_ms, "latency that counts as good, ms")
      ->check(CLI::Range(1e-3, 1e6))
      ->capture_default_str();
  app.add_option("--timeout", quick.timeout_ms, "deadline of a request, ms")
      ->check(CLI::Range(0.0, 1e6))
      ->capture_default_str();
  app.add_option("--connections", quick.connections, "TCP connections")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  app.add_option("--threads", quick.threads,
                 "completion threads; 0: by the machine's cores")
      ->check(CLI::Range(0, 256))
      ->capture_default_str();
  app.add_option("--messages", quick.messages, "distinct requests")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  app.add_option("--seed", quick.seed, "of sizes, values and arrivals")
      ->capture_default_str();
  app.add_flag("--stream", quick.stream, "ModelStreamInfer, not ModelInfer");
  app.add_flag("--check", quick.check_answers, "parse and check every answer");
}

int Main(int argc, char** argv) {
  CLI::App app{
      "stoker-loadtest loads a server of the Open Inference Protocol over "
      "gRPC."};
  app.require_subcommand(1);
  Output output;
  std::string scenario_path;
  double warmup = -1, measure = -1;
  Quick quick;

  CLI::App* run = app.add_subcommand("run", "run a scenario file");
  run->add_option("scenario", scenario_path, "YAML file")->required();
  run->add_option("--warmup", warmup, "seconds, in place of the file's")
      ->check(CLI::Range(0.0, 86400.0));
  run->add_option("--measure", measure, "seconds, in place of the file's")
      ->check(CLI::Range(0.01, 86400.0));
  AddOutputFlags(*run, output);
  CLI::App* fast = app.add_subcommand("quick", "run what the flags say");
  AddQuickFlags(*fast, quick);
  AddOutputFlags(*fast, output);
  CLI::App* sizes = app.add_subcommand(
      "sizes", "print the sizes that a scenario draws, as a trace file");
  sizes->add_option("scenario", scenario_path, "YAML file")->required();
  CLI::App* report =
      app.add_subcommand("report", "write the HTML report of a result in JSON");
  report->add_option("result", output.json_path, "JSON file")->required();
  report->add_option("--html", output.html_path, "HTML file")->required();
  CLI11_PARSE(app, argc, argv);

  const auto work = [&]() -> absl::Status {
    if (sizes->parsed()) return PrintSizes(scenario_path);
    if (report->parsed())
      return ReportAgain(output.json_path, output.html_path);
    StepTimes times;
    if (warmup >= 0) times.warmup = absl::Seconds(warmup);
    if (measure >= 0) times.measure = absl::Seconds(measure);
    ASSIGN_OR_RETURN(const Scenario scenario,
                     run->parsed() ? ReadScenario(scenario_path, times)
                                   : MakeScenario(quick));
    return RunAndReport(scenario, output);
  };
  const absl::Status status = work();
  if (status.ok()) return 0;
  std::fprintf(stderr, "stoker-loadtest: %s\n",
               std::string(status.message()).c_str());
  return 1;
}

}  // namespace
}  // namespace stoker::loadtest

int main(int argc, char** argv) { return stoker::loadtest::Main(argc, argv); }
