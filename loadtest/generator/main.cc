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
#include "loadtest/generator/html_report.h"
#include "loadtest/generator/quick_run.h"
#include "loadtest/generator/result_file.h"
#include "loadtest/generator/scenario_run.h"

namespace stoker::loadtest {
namespace {

// Flags that every way to run has.
struct Output {
  std::string address = "127.0.0.1:8001";
  std::string metrics_url;
  int server_pid = 0;
  std::string json_path, html_path;
  std::vector<std::string> labels;
};

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
  options.server_pid = output.server_pid;
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
  app.add_option("--server-pid", output.server_pid,
                 "a process of this machine whose memory is watched");
  app.add_option("--output", output.json_path, "file for the result, JSON");
  app.add_option("--html", output.html_path, "file for the report, HTML");
  app.add_option("--label", output.labels,
                 "NAME=TEXT that goes into the result; may be repeated")
      ->allow_extra_args(false);
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
