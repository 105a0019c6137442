#include "metrics/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <functional>
#include <sstream>
#include <utility>

#include "absl/base/macros.h"
#include "absl/base/thread_annotations.h"
#include "absl/strings/str_split.h"
#include "absl/synchronization/mutex.h"

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

MetricSnapshot::Series SeriesOf(const prometheus::ClientMetric& metric,
                                prometheus::MetricType type) {
  MetricSnapshot::Series series;
  for (const prometheus::ClientMetric::Label& label : metric.label) {
    series.labels[label.name] = label.value;
  }
  switch (type) {
    case prometheus::MetricType::Counter:
      series.value = metric.counter.value;
      break;
    case prometheus::MetricType::Gauge:
      series.value = metric.gauge.value;
      break;
    default:
      series.value = static_cast<double>(metric.histogram.sample_count);
      for (const auto& bucket : metric.histogram.bucket) {
        series.buckets[bucket.upper_bound] =
            static_cast<double>(bucket.cumulative_count);
      }
  }
  return series;
}

}  // namespace

void Counter::Add(double amount) { impl_->Increment(amount); }
void Gauge::Set(double value) { impl_->Set(value); }
void Gauge::Add(double amount) { impl_->Increment(amount); }
void Histogram::Observe(double value) { impl_->Observe(value); }

struct MetricRegistry::Impl {
  // `scope`: that it is asked of; null: of the registry.
  template <typename T, typename... Args>
  T& Add(prometheus::Family<T>& family, const Labels& labels,
         MetricScope* scope, const Args&... args) ABSL_LOCKS_EXCLUDED(mu) {
    absl::MutexLock lock(&mu);  // no series ends while it is given out
    const bool was_there = family.Has(labels);
    T& metric = family.Add(labels, args...);
    const bool is_scoped = scoped.contains(&metric);
    if (scope == nullptr || !Carries(labels, scope->labels_)) {
      scoped.erase(&metric);  // the registry's from now on
    } else if ((is_scoped || !was_there) &&
               scope->series_.insert(&metric).second) {
      Scoped& series = scoped[&metric];
      ++series.scopes;
      series.remove = [&family, &metric] { family.Remove(&metric); };
    }
    return metric;
  }

  template <typename T>
  prometheus::Family<T>& FamilyOf(const MetricDef& def) {
    return prometheus::detail::Builder<T>()
        .Name(std::string(def.name))
        .Help(std::string(def.help))
        .Register(*registry);
  }

  stoker::Counter Counter(const MetricDef& def, const Labels& labels,
                          MetricScope* scope) {
    ABSL_ASSERT(def.kind == MetricKind::kCounter && LabelsFit(def, labels));
    return stoker::Counter(
        Add(FamilyOf<prometheus::Counter>(def), labels, scope));
  }
  stoker::Gauge Gauge(const MetricDef& def, const Labels& labels,
                      MetricScope* scope) {
    ABSL_ASSERT(def.kind == MetricKind::kGauge && LabelsFit(def, labels));
    return stoker::Gauge(Add(FamilyOf<prometheus::Gauge>(def), labels, scope));
  }
  stoker::Histogram Histogram(const MetricDef& def, const Labels& labels,
                              MetricScope* scope) {
    ABSL_ASSERT(def.kind == MetricKind::kHistogram && LabelsFit(def, labels));
    return stoker::Histogram(Add(FamilyOf<prometheus::Histogram>(def), labels,
                                 scope, EdgesOf(def.edges)));
  }

  void End(const std::set<const void*>& ended) ABSL_LOCKS_EXCLUDED(mu) {
    absl::MutexLock lock(&mu);
    for (const void* metric : ended) {
      const auto known = scoped.find(metric);
      if (known == scoped.end() || --known->second.scopes > 0) continue;
      known->second.remove();
      scoped.erase(known);
    }
  }

  const std::shared_ptr<prometheus::Registry> registry =
      std::make_shared<prometheus::Registry>();
  absl::Mutex mu;
  // Series that end with the last of the scopes that gave them out.
  struct Scoped {
    int scopes = 0;
    std::function<void()> remove;
  };
  std::map<const void*, Scoped> scoped ABSL_GUARDED_BY(mu);
};

MetricRegistry::MetricRegistry() : impl_(std::make_unique<Impl>()) {}
MetricRegistry::~MetricRegistry() = default;

Counter MetricRegistry::Counter(const MetricDef& def, const Labels& labels) {
  return impl_->Counter(def, labels, nullptr);
}

Gauge MetricRegistry::Gauge(const MetricDef& def, const Labels& labels) {
  return impl_->Gauge(def, labels, nullptr);
}

Histogram MetricRegistry::Histogram(const MetricDef& def,
                                    const Labels& labels) {
  return impl_->Histogram(def, labels, nullptr);
}

MetricScope::MetricScope(MetricRegistry& registry, Labels labels)
    : labels_(std::move(labels)), registry_(registry) {}

MetricScope::~MetricScope() { registry_.impl_->End(series_); }

Counter MetricScope::Counter(const MetricDef& def, const Labels& labels) {
  return registry_.impl_->Counter(def, labels, this);
}

Gauge MetricScope::Gauge(const MetricDef& def, const Labels& labels) {
  return registry_.impl_->Gauge(def, labels, this);
}

Histogram MetricScope::Histogram(const MetricDef& def, const Labels& labels) {
  return registry_.impl_->Histogram(def, labels, this);
}

std::string MetricRegistry::Text() const {
  std::ostringstream page;
  prometheus::TextSerializer().Serialize(page, impl_->registry->Collect());
  return std::move(page).str();
}

MetricSnapshot MetricRegistry::Read() const {
  MetricSnapshot::SeriesByName series;
  for (const prometheus::MetricFamily& family : impl_->registry->Collect()) {
    for (const prometheus::ClientMetric& metric : family.metric) {
      series.emplace(family.name, SeriesOf(metric, family.type));
    }
  }
  return MetricSnapshot(std::move(series));
}

double MetricValue(const MetricRegistry& registry, std::string_view name,
                   const Labels& labels) {
  return registry.Read().Sum(name, labels);
}

}  // namespace stoker
