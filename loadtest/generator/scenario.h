// What a load test does: the model, what its requests look like, and the steps.
// Plain values; read from a YAML file, or made from command-line flags.
// loadtest/README.md explains every field.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "loadtest/generator/size_mix.h"

namespace stoker::loadtest {

// When an answer is good enough, and how many have to be.
struct Slo {
  absl::Duration latency = absl::Milliseconds(100);
  double percentile = 99;     // of the answers, within `latency`
  double max_errors = 0.001;  // share of requests that may fail
};

// N requests are always under way: the next is sent when an answer comes.
struct ClosedLoop {
  int concurrency = 1;
};

enum class ArrivalKind { kPoisson, kConstant, kRecorded };

// Requests are sent when they are due, whatever the server does.
struct OpenLoop {
  ArrivalKind arrivals = ArrivalKind::kPoisson;
  double rate = 0;          // per second; 0: take rate_of_peak
  double rate_of_peak = 0;  // of what the search of an earlier step found
  double speed = 1;         // kRecorded: 2 is twice as fast as recorded
};

// Finds the highest rate of an open loop that meets the SLO.
struct RateSearch {
  ArrivalKind arrivals = ArrivalKind::kPoisson;
  double min_rate = 1;
  double max_rate = 0;       // 0: from a closed loop at `concurrency`
  int concurrency = 64;      // of that closed loop
  double resolution = 0.05;  // ends when the gap is this share of the rate
  int confirmations = 2;     // further runs that the found rate has to pass
};

struct Step {
  std::string name;
  std::variant<ClosedLoop, OpenLoop, RateSearch> load;
  absl::Duration warmup = absl::Seconds(2);
  absl::Duration measure = absl::Seconds(10);
};

// Sizes as recorded: one row per request.
struct TraceFile {
  std::string path;
};

// Closed range that an input's values are drawn from; integers 0..1 and floats
// N(0, 1) without one.
struct ValueRange {
  double min = 0, max = 1;
};

using ParameterValue = std::variant<bool, int64_t, double, std::string>;

struct Scenario {
  std::string name;
  std::string model;
  std::string version;         // empty: the newest
  bool stream = false;         // ModelStreamInfer instead of ModelInfer
  bool shared_memory = false;  // inputs in a region instead of the message
  int connections = 4;
  int threads = 0;  // completion threads; 0: by the machine's cores
  uint64_t seed = 1;
  int messages = 256;  // distinct requests, sent in turn
  absl::Duration window = absl::Seconds(1);
  absl::Duration timeout;      // gRPC deadline of each request; 0: none
  bool check_answers = false;  // parse every answer and check its sizes
  Slo slo;
  std::vector<MixedDimension> dimensions;
  std::optional<TraceFile> trace;
  std::map<std::string, ValueRange> ranges;  // by input
  std::map<std::string, ParameterValue> parameters;
  std::vector<Step> steps;
};

// Shorten or lengthen every step; nullopt leaves the file's value.
struct StepTimes {
  std::optional<absl::Duration> warmup, measure;
};

// INVALID_ARGUMENT names file, line and field of every mistake, with what was
// expected and what came. Paths in the file are relative to its folder.
absl::StatusOr<Scenario> ReadScenario(const std::string& path,
                                      const StepTimes& times = {});
// The same of a text; `path` is what messages call it.
absl::StatusOr<Scenario> ParseScenario(std::string_view text,
                                       const std::string& path,
                                       const StepTimes& times = {});

// "closed, 32 under way", "poisson, 120/s", ...
std::string DescribeLoad(const Step& step);

}  // namespace stoker::loadtest
