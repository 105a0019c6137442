#include "loadtest/generator/server_figures.h"

#include <cmath>
#include <map>
#include <utility>

#include "base/status_macros.h"

namespace stoker::loadtest {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kMsPerSecond = 1e3;
constexpr double kMsPerNs = 1e-6;
constexpr std::chrono::seconds kCallTimeout{10};

// The difference of two metrics pages, for one model.
class PageDifference {
 public:
  PageDifference(const MetricsPage& before, const MetricsPage& after,
                 const std::string& model)
      : before_(before), after_(after), labels_{{"model", model}} {}

  double Sum(const std::string& name) const {
    return after_.Sum(name, labels_) - before_.Sum(name, labels_);
  }

  // Mean and, from the buckets, percentiles; null without values.
  Json Histogram(const std::string& name) const {
    const double count = Sum(name + "_count");
    if (count <= 0) return nullptr;
    return {{"mean", Sum(name + "_sum") / count * kMsPerSecond},
            {"p50", Quantile(name, 0.5) * kMsPerSecond},
            {"p99", Quantile(name, 0.99) * kMsPerSecond}};
  }

 private:
  // Linear within a bucket, as Prometheus' histogram_quantile.
  double Quantile(const std::string& name, double quantile) const {
    const auto before = before_.Buckets(name, labels_);
    const auto after = after_.Buckets(name, labels_);
    if (after.empty()) return 0;
    const auto gained = [&](std::pair<double, double> bucket) {
      const auto found = before.find(bucket.first);
      return bucket.second - (found == before.end() ? 0 : found->second);
    };
    const double wanted = quantile * gained(*after.rbegin());
    double low = 0, below = 0;
    for (const auto& bucket : after) {
      const double count = gained(bucket);
      if (count >= wanted && count > below) {
        if (std::isinf(bucket.first)) return low;
        return low + (bucket.first - low) * (wanted - below) / (count - below);
      }
      if (!std::isinf(bucket.first)) low = bucket.first;
      below = count;
    }
    return low;
  }

  const MetricsPage& before_;
  const MetricsPage& after_;
  const std::map<std::string, std::string> labels_;
};

void AddMetrics(const MetricsPage& before, const MetricsPage& after,
                const std::string& model, Json* figures) {
  const PageDifference page(before, after, model);
  const auto add = [&](const char* field, const char* metric) {
    Json histogram = page.Histogram(metric);
    if (!histogram.is_null()) (*figures)[field] = std::move(histogram);
  };
  add("request_ms", "stoker_request_seconds");
  add("queue_ms", "stoker_queue_seconds");
  add("execute_ms", "stoker_execute_seconds");
  const double batches = page.Sum("stoker_batch_rows_count");
  if (batches > 0) {
    (*figures)["batches"] = batches;
    (*figures)["rows_per_batch"] = page.Sum("stoker_batch_rows_sum") / batches;
    (*figures)["requests_per_batch"] =
        page.Sum("stoker_batch_requests_sum") / batches;
  }
  const double useful = page.Sum("stoker_batch_useful_elements_total");
  const double padded = page.Sum("stoker_batch_padded_elements_total");
  if (useful + padded > 0)
    (*figures)["padding_waste"] = padded / (useful + padded);
}

// Of each request where the server counts by request, as Triton does.
void AddStatistics(const inference::ModelStatistics& before,
                   const inference::ModelStatistics& after, Json* figures) {
  const auto mean = [&](const char* field,
                        const inference::StatisticDuration& from,
                        const inference::StatisticDuration& to) {
    if (to.count() <= from.count() || figures->contains(field)) return;
    const auto count = static_cast<double>(to.count() - from.count());
    (*figures)[field] = {
        {"mean", static_cast<double>(to.ns() - from.ns()) / count * kMsPerNs}};
  };
  const auto& a = before.inference_stats();
  const auto& b = after.inference_stats();
  (*figures)["requests"] = static_cast<int64_t>(b.success().count()) -
                           static_cast<int64_t>(a.success().count());
  (*figures)["failed_requests"] = static_cast<int64_t>(b.fail().count()) -
                                  static_cast<int64_t>(a.fail().count());
  mean("request_ms", a.success(), b.success());
  mean("queue_ms", a.queue(), b.queue());
  mean("assemble_ms", a.compute_input(), b.compute_input());
  mean("execute_ms", a.compute_infer(), b.compute_infer());
  mean("scatter_ms", a.compute_output(), b.compute_output());
  const auto batches = static_cast<double>(after.execution_count()) -
                       static_cast<double>(before.execution_count());
  if (batches > 0 && !figures->contains("batches")) {
    (*figures)["batches"] = batches;
    (*figures)["rows_per_batch"] =
        (static_cast<double>(after.inference_count()) -
         static_cast<double>(before.inference_count())) /
        batches;
  }
}

}  // namespace

ServerProbe::ServerProbe(const Client& client, std::string model,
                         std::string version, std::string metrics_url)
    : client_(&client),
      model_(std::move(model)),
      version_(std::move(version)),
      metrics_url_(std::move(metrics_url)) {}

absl::StatusOr<ServerProbe> ServerProbe::Make(const Client& client,
                                              std::string model,
                                              std::string version,
                                              std::string metrics_url) {
  ServerProbe probe(client, std::move(model), std::move(version),
                    std::move(metrics_url));
  if (!probe.metrics_url_.empty())
    RETURN_IF_ERROR(FetchMetrics(probe.metrics_url_).status());
  return probe;
}

ServerSnapshot ServerProbe::Take() const {
  ServerSnapshot snapshot;
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kCallTimeout);
  inference::ModelStatisticsRequest request;
  request.set_name(model_);
  request.set_version(version_);
  inference::ModelStatisticsResponse response;
  const auto stub =
      inference::GRPCInferenceService::NewStub(client_->channels()[0]);
  if (stub->ModelStatistics(&context, request, &response).ok() &&
      response.model_stats_size() > 0) {
    // Without a version asked for: the newest, which takes the requests.
    snapshot.statistics = response.model_stats(response.model_stats_size() - 1);
  }
  if (!metrics_url_.empty()) {
    auto page = FetchMetrics(metrics_url_);
    if (page.ok()) snapshot.metrics = *std::move(page);
  }
  return snapshot;
}

nlohmann::ordered_json FiguresBetween(const ServerSnapshot& before,
                                      const ServerSnapshot& after,
                                      const std::string& model) {
  Json figures = Json::object();
  if (before.metrics && after.metrics)
    AddMetrics(*before.metrics, *after.metrics, model, &figures);
  if (before.statistics && after.statistics)
    AddStatistics(*before.statistics, *after.statistics, &figures);
  return figures;
}

}  // namespace stoker::loadtest
