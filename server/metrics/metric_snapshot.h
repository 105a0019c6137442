// The values of all metrics at one moment, for who reads them in the process
// that counts.
//
// An immutable value.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace stoker {

using Labels = std::map<std::string, std::string>;

// Whether `have` holds all of `wanted`.
bool Carries(const Labels& have, const Labels& wanted);

class MetricSnapshot {
 public:
  struct Series {
    Labels labels;
    double value = 0;  // of a histogram, the number of its observations
    // Of a histogram, cumulative counts by upper bound, the last of which is
    // infinite.
    std::map<double, double> buckets;
  };

  using SeriesByName = std::multimap<std::string, Series, std::less<>>;

  explicit MetricSnapshot(SeriesByName series);

  // All series of that name that carry all of `labels`.
  std::vector<const Series*> Find(std::string_view name,
                                  const Labels& labels = {}) const;
  // Their values added up; 0 without any.
  double Sum(std::string_view name, const Labels& labels = {}) const;
  // Their buckets added up.
  std::map<double, double> Buckets(std::string_view name,
                                   const Labels& labels = {}) const;

 private:
  SeriesByName series_;
};

}  // namespace stoker
