// Counters, gauges and histograms, and the text that Prometheus scrapes.
// All names live in one catalogue (metrics/catalog.h), so that a reader finds
// each one's meaning, unit and labels in one place, and the manual's table can
// be checked.
//
// Thread-safe. Metric objects live as long as the registry; look them up once,
// keep the reference, and update it on the hot path.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

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

using Labels = std::map<std::string, std::string>;

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

class MetricRegistry {
 public:
  MetricRegistry();
  ~MetricRegistry();

  // The same (def, labels) gives the same metric. Handles are small values.
  stoker::Counter Counter(const MetricDef& def, const Labels& labels = {});
  stoker::Gauge Gauge(const MetricDef& def, const Labels& labels = {});
  stoker::Histogram Histogram(const MetricDef& def, const Labels& labels = {});

  // The page, Prometheus text format 0.0.4.
  std::string Text() const;

 private:
  friend double MetricValue(const MetricRegistry& registry,
                            std::string_view name, const Labels& labels);
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Reads one value back, for tests: the sum over all label sets that hold
// `labels`; of a histogram, the number of observations.
double MetricValue(const MetricRegistry& registry, std::string_view name,
                   const Labels& labels = {});

}  // namespace stoker
