// Counters, gauges and histograms, and the text that Prometheus scrapes.
// All names live in one catalogue (metrics/catalog.h), so that a reader finds
// each one's meaning, unit and labels in one place, and the manual's table can
// be checked.
//
// Thread-safe. A metric lives as long as the MetricSource that it was asked of:
// the registry, or a MetricScope, with which the series of what it is about
// end. Look a metric up once, keep it, and update it on the hot path.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "metrics/metric_snapshot.h"

namespace prometheus {
class Counter;
class Gauge;
class Histogram;
class Registry;
}  // namespace prometheus

namespace stoker {

enum class MetricKind { kCounter, kGauge, kHistogram };
// Bucket edges that a histogram uses (metrics.cc has the numbers and their
// reasons).
enum class Edges { kNone, kLatency, kCompile, kOpen, kBatch };

// In the order in which the catalogue is read.
// NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding)
struct MetricDef {
  std::string_view name;
  MetricKind kind;
  std::string_view labels;  // "model,version"; for the reference
  std::string_view help;
  Edges edges = Edges::kNone;
};

// Handles are small values. They must not be used after their source has ended.
class Counter {
 public:
  void Add(double amount = 1);

 private:
  friend class MetricRegistry;
  explicit Counter(prometheus::Counter& impl) : impl_(&impl) {}
  prometheus::Counter* impl_;
};

class Gauge {
 public:
  void Set(double value);
  void Add(double amount);

 private:
  friend class MetricRegistry;
  explicit Gauge(prometheus::Gauge& impl) : impl_(&impl) {}
  prometheus::Gauge* impl_;
};

class Histogram {
 public:
  void Observe(double value);

 private:
  friend class MetricRegistry;
  explicit Histogram(prometheus::Histogram& impl) : impl_(&impl) {}
  prometheus::Histogram* impl_;
};

// Whoever gives metrics out. The same (def, labels) gives the same metric.
class MetricSource {
 public:
  virtual ~MetricSource() = default;
  virtual stoker::Counter Counter(const MetricDef& def,
                                  const Labels& labels = {}) = 0;
  virtual stoker::Gauge Gauge(const MetricDef& def,
                              const Labels& labels = {}) = 0;
  virtual stoker::Histogram Histogram(const MetricDef& def,
                                      const Labels& labels = {}) = 0;
};

// All series of a process. What is asked of the registry itself stays until it
// ends.
class MetricRegistry final : public MetricSource {
 public:
  MetricRegistry();
  ~MetricRegistry() override;

  stoker::Counter Counter(const MetricDef& def,
                          const Labels& labels = {}) override;
  stoker::Gauge Gauge(const MetricDef& def, const Labels& labels = {}) override;
  stoker::Histogram Histogram(const MetricDef& def,
                              const Labels& labels = {}) override;

  // The page, Prometheus text format 0.0.4.
  std::string Text() const;
  // The same as values.
  MetricSnapshot Read() const;

 private:
  friend class MetricScope;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// The series about one thing that comes and goes, such as a version: all that
// carry `labels` and are asked of the scope end with it, unless another scope
// or the registry gave the same series out too. So a version and a successor of
// the same number can each have a scope with the same labels. What doesn't
// carry the labels is the registry's, as if it were asked there.
//
// Whoever keeps a handle keeps the scope. The registry outlives it.
class MetricScope final : public MetricSource {
 public:
  MetricScope(MetricRegistry& registry, Labels labels);
  ~MetricScope() override;
  MetricScope(const MetricScope&) = delete;
  MetricScope& operator=(const MetricScope&) = delete;

  stoker::Counter Counter(const MetricDef& def,
                          const Labels& labels = {}) override;
  stoker::Gauge Gauge(const MetricDef& def, const Labels& labels = {}) override;
  stoker::Histogram Histogram(const MetricDef& def,
                              const Labels& labels = {}) override;

 private:
  friend class MetricRegistry;
  const Labels labels_;
  MetricRegistry& registry_;
  std::set<const void*> series_;  // guarded by the registry's lock
};

// Reads one value back, for tests: the sum over all label sets that hold
// `labels`; of a histogram, the number of observations.
double MetricValue(const MetricRegistry& registry, std::string_view name,
                   const Labels& labels = {});

}  // namespace stoker
