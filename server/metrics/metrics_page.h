// A server's Prometheus page, fetched over HTTP and read: the client's side of
// this room.
//
// A MetricsPage is an immutable value.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace stoker {

class MetricsPage {
 public:
  // Text exposition format 0.0.4. Lines that can't be read are passed over.
  static MetricsPage Parse(std::string_view text);

  // Sum over all samples of that name that carry all of `labels`; 0 without
  // any.
  double Sum(const std::string& name,
             const std::map<std::string, std::string>& labels = {}) const;
  bool Has(const std::string& name) const;
  struct Sample {
    std::map<std::string, std::string> labels;
    double value = 0;
  };
  // All samples of that name that carry all of `labels`, in the page's order.
  std::vector<Sample> Samples(
      const std::string& name,
      const std::map<std::string, std::string>& labels = {}) const;
  // Cumulative counts of a histogram's buckets by upper bound ("+Inf" is an
  // infinity), summed over what carries `labels`.
  std::map<double, double> Buckets(
      const std::string& name,
      const std::map<std::string, std::string>& labels) const;

 private:
  std::multimap<std::string, Sample> samples_;
};

// The value that `share` (0 to 1) of a histogram's observations do not exceed,
// estimated as PromQL's histogram_quantile does: even within a bucket, and the
// largest finite bound beyond that. `buckets` as MetricsPage::Buckets gives
// them. nullopt without observations.
std::optional<double> Quantile(const std::map<double, double>& buckets,
                               double share);

// `url` is http://host:port/path. UNAVAILABLE, with the URL, when there is no
// answer in time; INVALID_ARGUMENT for another form of URL. `token`: a bearer
// token to show; empty: none.
absl::StatusOr<std::string> HttpGet(const std::string& url,
                                    absl::Duration timeout,
                                    const std::string& token = "");

absl::StatusOr<MetricsPage> FetchMetrics(const std::string& url);

}  // namespace stoker
