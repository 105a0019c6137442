#include "loadtest/generator/scenario_run.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "loadtest/generator/server_figures.h"

namespace stoker::loadtest {
namespace {

// A client that shares its machine with the server leaves it room.
int DefaultThreads() { return std::clamp(AvailableCores() / 4, 1, 4); }

class Runner {
 public:
  Runner(const Scenario& scenario, const RunOptions& options,
         const Client& client, const Messages& messages,
         const ServerProbe& probe, int threads)
      : scenario_(scenario),
        options_(options),
        client_(client),
        messages_(messages),
        probe_(probe),
        threads_(threads) {}

  absl::StatusOr<StepResult> Run(const Step& step) {
    if (const auto* closed = std::get_if<ClosedLoop>(&step.load))
      return RunClosed(step, closed->concurrency);
    if (const auto* open = std::get_if<OpenLoop>(&step.load))
      return RunOpen(step, *open);
    return RunSearch(step, std::get<RateSearch>(step.load));
  }

 private:
  StepResult RunClosed(const Step& step, int concurrency) {
    LoadOptions load = Common(step);
    load.concurrency = concurrency;
    return Measure(step, load);
  }

  StepResult RunArrivals(const Step& step, Arrivals arrivals) {
    LoadOptions load = Common(step);
    load.arrivals = std::move(arrivals);
    return Measure(step, load);
  }

  absl::StatusOr<StepResult> RunOpen(const Step& step, const OpenLoop& open) {
    if (open.arrivals == ArrivalKind::kRecorded) {
      if (messages_.offsets_ns.empty()) {
        return absl::InvalidArgumentError(absl::StrCat(
            scenario_.trace->path,
            ": expected a column offset_ms for arrivals: trace, got none"));
      }
      return RunArrivals(step,
                         Arrivals::Recorded(messages_.offsets_ns, open.speed));
    }
    double rate = open.rate;
    if (rate == 0) {
      if (!peak_) {
        return absl::FailedPreconditionError(
            absl::StrCat(step.name,
                         ": expected a peak from the search before, which "
                         "found no rate that meets the SLO"));
      }
      rate = *peak_ * open.rate_of_peak;
    }
    return RunArrivals(step, MakeArrivals(open.arrivals, rate));
  }

  absl::StatusOr<StepResult> RunSearch(const Step& step,
                                       const RateSearch& search) {
    double start = search.max_rate;
    if (start == 0) {
      const StepResult closed = RunClosed(step, search.concurrency);
      start = Throughput(closed);
      options_.on_progress(
          absl::StrFormat("  search starts from %.1f/s of a closed loop of %d",
                          start, search.concurrency));
    }
    std::map<double, StepResult> passed;
    std::optional<StepResult> last;
    const auto try_rate = [&](double rate) {
      last = RunArrivals(step, MakeArrivals(search.arrivals, rate));
      RateTrial trial = JudgeTrial(rate, last->load, scenario_.slo);
      if (trial.meets) passed.insert_or_assign(rate, *last);
      options_.on_progress(absl::StrFormat(
          "  %.1f/s %s%s", rate,
          trial.meets ? "meets the SLO" : "fails: ", trial.why));
      return trial;
    };
    const SearchOutcome outcome = FindHighestRate(search, start, try_rate);
    peak_ = outcome.rate;
    StepResult result = peak_ ? std::move(passed.at(*peak_)) : *std::move(last);
    result.search = outcome;
    return result;
  }

  Arrivals MakeArrivals(ArrivalKind kind, double rate) {
    // Each run its own arrivals, all of them from the one seed.
    return kind == ArrivalKind::kConstant
               ? Arrivals::Constant(rate)
               : Arrivals::Poisson(rate, scenario_.seed + ++runs_);
  }

  LoadOptions Common(const Step& step) const {
    LoadOptions load;
    load.stream = scenario_.stream;
    load.check_answers = scenario_.check_answers;
    load.threads = threads_;
    load.warmup = step.warmup;
    load.measure = step.measure;
    load.window = std::min(scenario_.window, step.measure);
    load.timeout = scenario_.timeout;
    load.slo_latency = scenario_.slo.latency;
    return load;
  }

  StepResult Measure(const Step& step, LoadOptions& load) {
    ServerSnapshot before, after;
    load.on_start = [&] { before = probe_.Take(); };
    load.on_end = [&] { after = probe_.Take(); };
    std::vector<double> resident;
    load.on_window = [&] {
      if (options_.server_pid == 0) return;
      resident.push_back(ResidentMegabytes(options_.server_pid));
    };
    StepResult result{.step = step,
                      .open = load.concurrency == 0,
                      .rate = load.arrivals ? load.arrivals->rate() : 0};
    result.load = RunLoad(client_, messages_, load, &next_message_);
    result.server = FiguresBetween(before, after, scenario_.model);
    if (!resident.empty()) {
      result.server["resident_mb"] = {
          {"first", resident.front()},
          {"last", resident.back()},
          {"max", *std::max_element(resident.begin(), resident.end())}};
    }
    result.client_limits = FindClientLimits(result.load, result.open);
    return result;
  }

  const Scenario& scenario_;
  const RunOptions& options_;
  const Client& client_;
  const Messages& messages_;
  const ServerProbe& probe_;
  const int threads_;
  uint64_t next_message_ = 0;
  uint64_t runs_ = 0;
  std::optional<double> peak_;
};

}  // namespace

absl::StatusOr<RunResult> RunScenario(const Scenario& scenario,
                                      const RunOptions& options) {
  ASSIGN_OR_RETURN(const std::unique_ptr<Client> client,
                   Client::Connect(options.address, scenario.connections,
                                   options.connect_timeout));
  RunResult result;
  result.server = client->ServerMetadata();
  ASSIGN_OR_RETURN(result.model,
                   client->ModelMetadata(scenario.model, scenario.version));
  ASSIGN_OR_RETURN(const Messages messages,
                   MakeMessages(scenario, result.model));
  if (messages.shared != nullptr) {
    RETURN_IF_ERROR(client->Register(*messages.shared));
  }
  const absl::Cleanup unregister = [&] {
    if (messages.shared != nullptr) client->Unregister();
  };
  result.messages = messages.buffers.size();
  result.message_bytes = messages.total_bytes();
  RETURN_IF_ERROR(client->TryOnce(messages.buffers[0], scenario.stream));
  ASSIGN_OR_RETURN(const ServerProbe probe,
                   ServerProbe::Make(*client, scenario.model, scenario.version,
                                     options.metrics_url));
  result.threads = scenario.threads > 0 ? scenario.threads : DefaultThreads();
  Runner runner(scenario, options, *client, messages, probe, result.threads);
  for (const Step& step : scenario.steps) {
    ASSIGN_OR_RETURN(StepResult found, runner.Run(step));
    options.on_step(found);
    result.steps.push_back(std::move(found));
  }
  return result;
}

}  // namespace stoker::loadtest
