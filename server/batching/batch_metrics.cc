#include "batching/batch_metrics.h"

#include "metrics/catalog.h"

namespace stoker {

BatchMetrics::BatchMetrics(MetricSource& registry, Labels labels)
    : registry_(registry),
      labels_(std::move(labels)),
      queue_seconds_(registry.Histogram(metric::kQueueSeconds, labels_)),
      batch_rows_(registry.Histogram(metric::kBatchRows, labels_)),
      batch_requests_(registry.Histogram(metric::kBatchRequests, labels_)),
      useful_elements_(registry.Counter(metric::kUsefulElements, labels_)),
      padded_elements_(registry.Counter(metric::kPaddedElements, labels_)),
      row_faults_(registry.Counter(metric::kRowFaults, labels_)) {}

void BatchMetrics::RecordQueued(absl::Duration waited) {
  queue_seconds_.Observe(absl::ToDoubleSeconds(waited));
}

void BatchMetrics::RecordRun(std::string_view tier, absl::Duration run,
                             size_t requests, int64_t rows,
                             int64_t useful_elements, int64_t run_elements) {
  ExecuteSeconds(tier).Observe(absl::ToDoubleSeconds(run));
  batch_requests_.Observe(static_cast<double>(requests));
  batch_rows_.Observe(static_cast<double>(rows));
  useful_elements_.Add(static_cast<double>(useful_elements));
  padded_elements_.Add(static_cast<double>(run_elements - useful_elements));
}

void BatchMetrics::RecordRowFaults(size_t rows) {
  row_faults_.Add(static_cast<double>(rows));
}

Histogram& BatchMetrics::ExecuteSeconds(std::string_view tier) {
  for (auto& [name, histogram] : execute_seconds_) {
    if (name == tier) return histogram;
  }
  Labels labels = labels_;
  labels["tier"] = std::string(tier);
  return execute_seconds_
      .emplace_back(tier, registry_.Histogram(metric::kExecuteSeconds, labels))
      .second;
}

}  // namespace stoker
