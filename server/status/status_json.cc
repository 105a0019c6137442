#include "status/status_json.h"

#include "nlohmann/json.hpp"

namespace stoker {
namespace {

using Ordered = nlohmann::ordered_json;

Ordered SecondsOrNull(const std::optional<absl::Duration>& duration) {
  if (!duration.has_value()) return nullptr;
  return absl::ToDoubleSeconds(*duration);
}

std::string TimeText(absl::Time time) {
  return absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ", time, absl::UTCTimeZone());
}

Ordered ModelJson(const ModelStatus& model) {
  return {{"model", model.model},
          {"state", std::string(VersionStateName(model.state))},
          {"reason", model.reason},
          {"newest", model.newest},
          {"aliases", model.aliases},
          {"device", model.device},
          {"warmup",
           {{"settled", model.warmup.settled},
            {"total", model.warmup.total},
            {"seconds_left", SecondsOrNull(model.warmup.left)}}},
          {"answered", model.answered},
          {"failed", model.failed},
          {"waiting", model.waiting},
          {"recent",
           {{"requests_per_second", model.recent.per_second},
            {"p50_seconds", SecondsOrNull(model.recent.p50)},
            {"p99_seconds", SecondsOrNull(model.recent.p99)}}}};
}

Ordered BucketJson(const BucketFigures& bucket) {
  const BucketSlot::Snapshot& slot = bucket.status.slot;
  const bool compared = !slot.verdict.parity.cases.empty();
  return {
      {"model", bucket.status.model},
      {"bucket", bucket.status.bucket},
      {"state", std::string(BucketStateName(slot.state))},
      {"tier", TierOf(bucket.status)},
      {"graph", slot.graph},
      {"reason", slot.detail},
      {"phase", bucket.status.phase},
      {"phase_seconds", absl::ToDoubleSeconds(bucket.status.in_phase)},
      {"key", slot.key},
      {"compiled_requests", bucket.compiled_requests},
      {"eager_requests", bucket.eager_requests},
      {"speedup", slot.verdict.profit.speedup},
      {"max_abs_error", compared ? Ordered(slot.verdict.parity.max_abs_error)
                                 : Ordered(nullptr)},
      {"parity_cases", slot.verdict.parity.cases.size()},
      {"compile_seconds", bucket.compile_seconds},
      {"saved_seconds", bucket.saved_seconds},
      {"break_even_runs", bucket.break_even_runs}};
}

Ordered CacheJson(const CacheStatus& cache) {
  return {{"writable", cache.writable},
          {"entries", cache.entries},
          {"bytes", cache.bytes},
          {"hits", {{"upper", cache.upper_hits}, {"lower", cache.lower_hits}}},
          {"misses", cache.misses},
          {"rejections", Ordered(cache.rejections)},
          {"compile_seconds_saved", cache.compile_seconds_saved}};
}

}  // namespace

std::string StatusJson(const Status& status) {
  Ordered versions = Ordered::object();
  Ordered models = Ordered::array();
  Ordered buckets = Ordered::array();
  for (const ModelStatus& model : status.models) {
    // One that takes its own place, with other buckets, comes twice.
    Ordered& state = versions[model.model];
    if (state != "serving") state = std::string(VersionStateName(model.state));
    models.push_back(ModelJson(model));
    for (const BucketFigures& bucket : model.buckets) {
      buckets.push_back(BucketJson(bucket));
    }
  }
  Ordered refusals = Ordered::array();
  for (const RecentRefusals::Refusal& refusal : status.refusals) {
    refusals.push_back({{"time", TimeText(refusal.time)},
                        {"what", refusal.what},
                        {"of", refusal.of},
                        {"label", refusal.label},
                        {"reason", refusal.reason}});
  }
  const Ordered json = {
      {"server",
       {{"time", TimeText(status.server.time)},
        {"ready", status.server.ready},
        {"uptime_seconds", absl::ToDoubleSeconds(status.server.uptime)},
        {"window_seconds", absl::ToDoubleSeconds(status.server.window)},
        {"version", status.server.version},
        {"torch", status.server.torch},
        {"march", status.server.march}}},
      {"versions", std::move(versions)},
      {"models", std::move(models)},
      {"buckets", std::move(buckets)},
      {"cache", CacheJson(status.cache)},
      {"refusals", std::move(refusals)}};
  return json.dump(2, ' ', false, Ordered::error_handler_t::replace) + "\n";
}

}  // namespace stoker
