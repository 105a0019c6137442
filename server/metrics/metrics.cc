#include "metrics/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <sstream>

#include "absl/base/macros.h"
#include "absl/strings/str_split.h"

namespace stoker {

namespace {

using BucketBoundaries = prometheus::Histogram::BucketBoundaries;

// Five edges a decade, about x1.6 apart: a p99 read off the buckets is wrong by
// at most that factor. The finest suit models that answer in fractions of a
// millisecond, and the whole decades are exact because service-level objectives
// name them.
const BucketBoundaries& LatencyEdges() {
  static const auto& edges = *new BucketBoundaries{
      50e-6,  82e-6,  130e-6, 220e-6, 370e-6, 610e-6, 1e-3,  1.6e-3, 2.5e-3,
      4e-3,   6.3e-3, 10e-3,  16e-3,  25e-3,  40e-3,  63e-3, 100e-3, 160e-3,
      250e-3, 400e-3, 630e-3, 1,      1.6,    2.5,    4,     6.3,    10};
  return edges;
}

// `first`, then twice as much each time while below `last`, then `last`.
BucketBoundaries Doubling(double first, double last) {
  BucketBoundaries edges;
  double edge = first;
  while (edge < last) {
    edges.push_back(edge);
    edge *= 2;
  }
  edges.push_back(last);
  return edges;
}

const BucketBoundaries& EdgesOf(Edges edges) {
  // Phases of a second on a small program, an hour on a large one.
  static const auto& compile = *new BucketBoundaries(Doubling(0.25, 3600));
  // 1.2 ms is usual on a CPU; a cold network disk takes many seconds.
  static const auto& open = *new BucketBoundaries(Doubling(0.5e-3, 60));
  static const auto& batch = *new BucketBoundaries(Doubling(1, 4096));
  switch (edges) {
    case Edges::kCompile:
      return compile;
    case Edges::kOpen:
      return open;
    case Edges::kBatch:
      return batch;
    case Edges::kLatency:
    case Edges::kNone:
      break;
  }
  return LatencyEdges();
}

[[maybe_unused]] bool LabelsFit(const MetricDef& def, const Labels& labels) {
  std::vector<std::string> names =
      absl::StrSplit(std::string(def.labels), ',', absl::SkipEmpty());
  return names.size() == labels.size() &&
         std::all_of(names.begin(), names.end(),
                     [&](const auto& name) { return labels.contains(name); });
}

template <typename Builder>
auto& Family(Builder builder, const MetricDef& def,
             prometheus::Registry& registry) {
  return builder.Name(std::string(def.name))
      .Help(std::string(def.help))
      .Register(registry);
}

bool Holds(const prometheus::ClientMetric& metric, const Labels& wanted) {
  return std::all_of(wanted.begin(), wanted.end(), [&](const auto& pair) {
    return std::any_of(
        metric.label.begin(), metric.label.end(), [&](const auto& label) {
          return label.name == pair.first && label.value == pair.second;
        });
  });
}

}  // namespace

void Counter::Add(double amount) { impl_->Increment(amount); }
void Gauge::Set(double value) { impl_->Set(value); }
void Gauge::Add(double amount) { impl_->Increment(amount); }
void Histogram::Observe(double value) { impl_->Observe(value); }

struct MetricRegistry::Impl {
  const std::shared_ptr<prometheus::Registry> registry =
      std::make_shared<prometheus::Registry>();
};

MetricRegistry::MetricRegistry() : impl_(std::make_unique<Impl>()) {}
MetricRegistry::~MetricRegistry() = default;

Counter MetricRegistry::Counter(const MetricDef& def, const Labels& labels) {
  ABSL_ASSERT(def.kind == MetricKind::kCounter && LabelsFit(def, labels));
  return stoker::Counter(
      Family(prometheus::BuildCounter(), def, *impl_->registry).Add(labels));
}

Gauge MetricRegistry::Gauge(const MetricDef& def, const Labels& labels) {
  ABSL_ASSERT(def.kind == MetricKind::kGauge && LabelsFit(def, labels));
  return stoker::Gauge(
      Family(prometheus::BuildGauge(), def, *impl_->registry).Add(labels));
}

Histogram MetricRegistry::Histogram(const MetricDef& def,
                                    const Labels& labels) {
  ABSL_ASSERT(def.kind == MetricKind::kHistogram && LabelsFit(def, labels));
  return stoker::Histogram(
      Family(prometheus::BuildHistogram(), def, *impl_->registry)
          .Add(labels, EdgesOf(def.edges)));
}

std::string MetricRegistry::Text() const {
  std::ostringstream page;
  prometheus::TextSerializer().Serialize(page, impl_->registry->Collect());
  return std::move(page).str();
}

double MetricValue(const MetricRegistry& registry, std::string_view name,
                   const Labels& labels) {
  double sum = 0;
  for (const auto& family : registry.impl_->registry->Collect()) {
    if (family.name != name) continue;
    for (const auto& metric : family.metric) {
      if (!Holds(metric, labels)) continue;
      switch (family.type) {
        case prometheus::MetricType::Counter:
          sum += metric.counter.value;
          break;
        case prometheus::MetricType::Gauge:
          sum += metric.gauge.value;
          break;
        default:
          sum += static_cast<double>(metric.histogram.sample_count);
      }
    }
  }
  return sum;
}

}  // namespace stoker
