#include "loadtest/generator/recorder.h"

#include <algorithm>
#include <array>
#include <chrono>

namespace stoker::loadtest {

int64_t NowNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

std::string CodeName(grpc::StatusCode code) {
  static constexpr std::array kNames = {"OK",
                                        "CANCELLED",
                                        "UNKNOWN",
                                        "INVALID_ARGUMENT",
                                        "DEADLINE_EXCEEDED",
                                        "NOT_FOUND",
                                        "ALREADY_EXISTS",
                                        "PERMISSION_DENIED",
                                        "RESOURCE_EXHAUSTED",
                                        "FAILED_PRECONDITION",
                                        "ABORTED",
                                        "OUT_OF_RANGE",
                                        "UNIMPLEMENTED",
                                        "INTERNAL",
                                        "UNAVAILABLE",
                                        "DATA_LOSS",
                                        "UNAUTHENTICATED"};
  const auto index = static_cast<size_t>(code);
  return index < kNames.size() ? kNames[index] : "code " + std::to_string(code);
}

void Recording::Add(const Recording& other) {
  total += other.total;
  total_ok += other.total_ok;
  measured += other.measured;
  measured_ok += other.measured_ok;
  within_slo += other.within_slo;
  latency.Add(other.latency);
  service.Add(other.service);
  lag.Add(other.lag);
  for (const auto& [code, theirs] : other.errors) {
    Errors& ours = errors[code];
    ours.count += theirs.count;
    ours.with_retry_hint += theirs.with_retry_hint;
    if (ours.example.empty()) ours.example = theirs.example;
    ours.latency.Add(theirs.latency);
  }
  windows.resize(std::max(windows.size(), other.windows.size()));
  for (size_t i = 0; i < other.windows.size(); ++i) {
    windows[i].ok += other.windows[i].ok;
    windows[i].failed += other.windows[i].failed;
    windows[i].latency_sum_ns += other.windows[i].latency_sum_ns;
    windows[i].latency_max_ns =
        std::max(windows[i].latency_max_ns, other.windows[i].latency_max_ns);
  }
}

Recorder::Recorder(const Measurement& measurement) : measurement_(measurement) {
  const int64_t length = measurement.end_ns - measurement.start_ns;
  recording_.windows.resize(std::max<int64_t>(
      1, (length + measurement.window_ns - 1) / measurement.window_ns));
}

void Recorder::Record(const Outcome& outcome) {
  ++recording_.total;
  if (outcome.code == grpc::StatusCode::OK) ++recording_.total_ok;
  const int64_t belongs =
      measurement_.by_due_time ? outcome.intended_ns : outcome.done_ns;
  if (belongs >= measurement_.start_ns && belongs < measurement_.end_ns)
    RecordMeasured(outcome);
  RecordWindow(outcome);
}

void Recorder::RecordMeasured(const Outcome& outcome) {
  const int64_t latency = outcome.done_ns - outcome.intended_ns;
  ++recording_.measured;
  recording_.lag.Record(outcome.sent_ns - outcome.intended_ns);
  if (outcome.code == grpc::StatusCode::OK) {
    ++recording_.measured_ok;
    if (latency <= measurement_.slo_ns) ++recording_.within_slo;
    recording_.latency.Record(latency);
    recording_.service.Record(outcome.done_ns - outcome.sent_ns);
    return;
  }
  Recording::Errors& errors = recording_.errors[outcome.code];
  ++errors.count;
  if (outcome.retry_hint) ++errors.with_retry_hint;
  if (errors.example.empty()) errors.example = outcome.message;
  errors.latency.Record(latency);
}

void Recorder::RecordWindow(const Outcome& outcome) {
  const int64_t since = outcome.done_ns - measurement_.start_ns;
  if (since < 0 || outcome.done_ns >= measurement_.end_ns) return;
  Recording::Window& window =
      recording_.windows[static_cast<size_t>(since / measurement_.window_ns)];
  if (outcome.code != grpc::StatusCode::OK) {
    ++window.failed;
    return;
  }
  const int64_t latency = outcome.done_ns - outcome.intended_ns;
  ++window.ok;
  window.latency_sum_ns += latency;
  window.latency_max_ns = std::max(window.latency_max_ns, latency);
}

}  // namespace stoker::loadtest
