#include "loadtest/generator/quick_run.h"

#include "CLI/CLI.hpp"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"

namespace stoker::loadtest {
namespace {

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

}  // namespace

absl::StatusOr<std::pair<std::string, std::string>> NameAndValue(
    const std::string& text, const char* expected) {
  const size_t equals = text.find('=');
  if (equals == text.npos || equals == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected ", expected, ", got '", text, "'"));
  }
  return std::pair(text.substr(0, equals), text.substr(equals + 1));
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

}  // namespace stoker::loadtest
