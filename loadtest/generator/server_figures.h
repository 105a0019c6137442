// What the server itself says about a step: its counters before and after,
// split into queue, assembling, running and cutting up. From the protocol's
// ModelStatistics where the server offers it, and from Stoker's metrics page
// where there is one.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "loadtest/generator/client.h"
#include "metrics/metrics_page.h"

namespace stoker::loadtest {

// A server's counters at one moment.
struct ServerSnapshot {
  std::optional<inference::ModelStatistics> statistics;
  std::optional<MetricsPage> metrics;
};

// Takes snapshots of one model. Not thread-safe.
class ServerProbe {
 public:
  // `metrics_url` may be empty. UNAVAILABLE when it is not and can't be read.
  static absl::StatusOr<ServerProbe> Make(const Client& client,
                                          std::string model,
                                          std::string version,
                                          std::string metrics_url);
  // What can't be had at this moment is left out.
  ServerSnapshot Take() const;
  const std::string& model() const { return model_; }

 private:
  ServerProbe(const Client& client, std::string model, std::string version,
              std::string metrics_url);

  const Client* client_;
  std::string model_, version_, metrics_url_;
};

// Fields, each only where it is known: requests, request_ms, queue_ms,
// assemble_ms, execute_ms, scatter_ms (means; where histograms tell, p50 and
// p99 beside them), batches, rows_per_batch, requests_per_batch, padding_waste.
// Empty when nothing is known.
nlohmann::ordered_json FiguresBetween(const ServerSnapshot& before,
                                      const ServerSnapshot& after,
                                      const std::string& model);

}  // namespace stoker::loadtest
