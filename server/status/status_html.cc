#include "status/status_html.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/sha256.h"
#include "base/text_table.h"
#include "nlohmann/json.hpp"
#include "status/page_files.h"
#include "status/page_template.h"

// What page.html is filled with: words and figures as people read them. The
// names of the fields are the template's.

namespace stoker {
namespace {

using Json = nlohmann::json;

// "12,345,678"; of what can't be negative
std::string Grouped(int64_t count) {
  const std::string digits = absl::StrCat(count);
  std::string text;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  return text;
}

// "850 µs", "3.1 ms", "2.0 s"
std::string Latency(absl::Duration duration) {
  const double seconds = absl::ToDoubleSeconds(duration);
  if (seconds < 0.9995e-3) return absl::StrFormat("%.0f µs", seconds * 1e6);
  if (seconds < 0.9995) {
    return absl::StrFormat("%.*f ms", seconds < 0.0995 ? 1 : 0, seconds * 1e3);
  }
  return absl::StrFormat("%.1f s", seconds);
}

// "12 s", "3 min 20 s", "5 h 10 min", "12 days"
std::string Span(absl::Duration duration) {
  const int64_t seconds =
      std::max<int64_t>(absl::ToInt64Seconds(duration + absl::Seconds(0.5)), 0);
  if (seconds < 60) return absl::StrCat(seconds, " s");
  if (seconds < 3600) {
    return seconds % 60 == 0
               ? absl::StrCat(seconds / 60, " min")
               : absl::StrCat(seconds / 60, " min ", seconds % 60, " s");
  }
  if (seconds < 48 * 3600) {
    return absl::StrCat(seconds / 3600, " h ", seconds / 60 % 60, " min");
  }
  return absl::StrCat(seconds / 86400, " days");
}

std::string Rate(double per_second) {
  if (per_second >= 99.95) return Grouped(std::llround(per_second));
  return absl::StrFormat("%.1f", per_second);
}

std::string ReadableTime(absl::Time time) {
  return absl::FormatTime("%Y-%m-%d %H:%M:%S UTC", time, absl::UTCTimeZone());
}

std::string_view ToneOf(VersionState state) {
  switch (state) {
    case VersionState::kServing:
      return "good";
    case VersionState::kFailed:
      return "bad";
    case VersionState::kLoading:
    case VersionState::kWarming:
      return "busy";
    case VersionState::kNew:
    case VersionState::kDraining:
    case VersionState::kResting:
    case VersionState::kUnloaded:
      break;
  }
  return "idle";
}

std::string_view MeaningOf(VersionState state) {
  switch (state) {
    case VersionState::kNew:
      return "Not served yet: loading it comes next.";
    case VersionState::kLoading:
      return "Not served yet: its program is being read and run once.";
    case VersionState::kWarming:
      return "Not served yet: it waits until all its buckets are settled.";
    case VersionState::kServing:
      return "Takes requests.";
    case VersionState::kDraining:
      return "Takes no new requests; those inside are being answered.";
    case VersionState::kResting:
      return "Takes requests, and is loaded again for the first of them: its "
             "memory went to others.";
    case VersionState::kUnloaded:
      return "No longer served.";
    case VersionState::kFailed:
      return "Not served, and won't be before its files change.";
  }
  return "";
}

std::string_view ToneOf(BucketState state) {
  switch (state) {
    case BucketState::kCompiled:
    case BucketState::kDynamic:
      return "good";
    case BucketState::kEager:
      return "slow";
    case BucketState::kPending:
      return "idle";
    case BucketState::kCompiling:
    case BucketState::kOpening:
    case BucketState::kChecking:
      break;
  }
  return "busy";
}

std::string LatencyOrDash(const std::optional<absl::Duration>& latency) {
  return latency.has_value() ? Latency(*latency) : "–";
}

// Empty where the buckets are settled, or never will be.
Json WarmupValues(const ModelStatus& model) {
  const WarmupProgress& warmup = model.warmup;
  if (warmup.settled == warmup.total || model.state == VersionState::kFailed) {
    return Json::object();
  }
  return {{"settled", absl::StrCat(warmup.settled)},
          {"total", absl::StrCat(warmup.total)},
          {"left", warmup.left.has_value() ? Span(*warmup.left) : ""}};
}

Json BucketValues(const BucketFigures& bucket) {
  const BucketSlot::Snapshot& slot = bucket.status.slot;
  const bool compiled = slot.state == BucketState::kCompiled;
  const bool paid = bucket.compile_seconds > 0;
  std::string state(BucketStateName(slot.state));
  if (!bucket.status.phase.empty()) {
    absl::StrAppend(&state, ": ", bucket.status.phase, ", ",
                    Span(bucket.status.in_phase));
  }
  return {
      {"bucket", bucket.status.bucket},
      {"state", std::move(state)},
      {"tone", std::string(ToneOf(slot.state))},
      {"speedup", slot.verdict.profit.speedup > 0 && compiled
                      ? absl::StrFormat("%.2f ×", slot.verdict.profit.speedup)
                      : ""},
      {"error", compiled && !slot.verdict.parity.cases.empty()
                    ? absl::StrFormat("%.1e", slot.verdict.parity.max_abs_error)
                    : ""},
      {"by_compiled", Grouped(bucket.compiled_requests)},
      {"by_eager", Grouped(bucket.eager_requests)},
      {"compile",
       paid ? absl::StrFormat("%.1f s", bucket.compile_seconds) : ""},
      {"saved", paid ? absl::StrFormat("%.1f s", bucket.saved_seconds) : ""},
      {"key", slot.key.substr(0, 12)},
      {"reason", slot.detail},
      {"graph", slot.graph}};
}

// "2 of 8 buckets stay"; empty when none does.
std::string StayOnEager(const std::vector<BucketFigures>& buckets) {
  const auto eager = std::count_if(
      buckets.begin(), buckets.end(), [](const BucketFigures& bucket) {
        return bucket.status.slot.state == BucketState::kEager;
      });
  if (eager == 0) return "";
  return absl::StrCat(eager, " of ", buckets.size(), " buckets ",
                      eager == 1 ? "stays" : "stay");
}

// Empty where nothing can be asked of it yet.
Json RequestValues(const ModelStatus& model) {
  if (model.state != VersionState::kServing &&
      model.answered + model.failed == 0) {
    return Json::object();
  }
  return {{"per_second", Rate(model.recent.per_second)},
          {"p50", LatencyOrDash(model.recent.p50)},
          {"p99", LatencyOrDash(model.recent.p99)},
          {"waiting", Grouped(model.waiting)},
          {"answered", Grouped(model.answered)},
          {"failed", Grouped(model.failed)}};
}

Json ModelValues(const ModelStatus& model) {
  Json warmup = WarmupValues(model);
  Json buckets = Json::array();
  for (const BucketFigures& bucket : model.buckets) {
    buckets.push_back(BucketValues(bucket));
  }
  // What it is doing while it warms up is said by its buckets.
  const std::string reason = warmup.empty() ? model.reason : "";
  return {{"model", model.model},
          {"state", std::string(VersionStateName(model.state))},
          {"tone", std::string(ToneOf(model.state))},
          {"meaning", std::string(MeaningOf(model.state))},
          {"stays", StayOnEager(model.buckets)},
          {"device", model.device == "cpu" ? "" : model.device},
          {"warmup", std::move(warmup)},
          {"reason", reason},
          {"requests", RequestValues(model)},
          {"table", !buckets.empty()},
          {"buckets", std::move(buckets)}};
}

Json CacheValues(const CacheStatus& cache) {
  int64_t rejected = 0;
  Json reasons = Json::array();
  for (const auto& [reason, count] : cache.rejections) {
    rejected += count;
    if (count == 0) continue;
    reasons.push_back({{"count", absl::StrCat(count)}, {"reason", reason}});
  }
  return {
      {"writable", cache.writable},
      {"entries", Grouped(cache.entries)},
      {"size", HumanBytes(cache.bytes)},
      {"hits", Grouped(cache.upper_hits)},
      {"layer_hits", Grouped(cache.lower_hits)},
      {"misses", Grouped(cache.misses)},
      {"rejected", Grouped(rejected)},
      {"rejections", rejected > 0},
      {"reasons", std::move(reasons)},
      {"compile_saved", cache.compile_seconds_saved > 0
                            ? Span(absl::Seconds(cache.compile_seconds_saved))
                            : ""}};
}

// Empty without any.
Json RefusalValues(const std::vector<RecentRefusals::Refusal>& refusals) {
  if (refusals.empty()) return Json::object();
  Json rows = Json::array();
  for (const RecentRefusals::Refusal& refusal : refusals) {
    rows.push_back(
        {{"time", ReadableTime(refusal.time)},
         {"of", (refusal.what == "cache" ? "cache entry " : "") + refusal.of},
         {"label", refusal.label},
         {"reason", refusal.reason}});
  }
  return {{"most", absl::StrCat(RecentRefusals::kKept)},
          {"rows", std::move(rows)}};
}

Json PageValues(const Status& status) {
  const bool failed = std::any_of(status.models.begin(), status.models.end(),
                                  [](const ModelStatus& model) {
                                    return model.state == VersionState::kFailed;
                                  });
  Json models = Json::array();
  for (const ModelStatus& model : status.models) {
    models.push_back(ModelValues(model));
  }
  const std::string tone = !status.server.ready ? "busy"
                           : failed             ? "slow"
                                                : "good";
  return {{"style", std::string(kPageStyle)},
          {"script", std::string(kPageScript)},
          {"ready", status.server.ready},
          {"failed", failed},
          {"tone", tone},
          {"uptime", Span(status.server.uptime)},
          {"version", status.server.version},
          {"torch", status.server.torch},
          {"march", status.server.march},
          {"time", ReadableTime(status.server.time)},
          {"window", Span(status.server.window)},
          {"models", std::move(models)},
          {"cache", CacheValues(status.cache)},
          {"refusals", RefusalValues(status.refusals)}};
}

std::string HashSource(std::string_view text) {
  return absl::StrCat(
      "'sha256-", absl::Base64Escape(absl::HexStringToBytes(Sha256Hex(text))),
      "'");
}

const std::string& Policy() {
  static const auto& policy = *new std::string(absl::StrCat(
      "default-src 'none'; connect-src 'self'; img-src data:; base-uri 'none'; "
      "form-action 'none'; style-src ",
      HashSource(kPageStyle), "; script-src ", HashSource(kPageScript)));
  return policy;
}

}  // namespace

Page StatusPage(const Status& status) {
  absl::StatusOr<std::string> html =
      FillTemplate(kPageHtml, PageValues(status));
  if (!html.ok()) {  // the template is wrong, which a test would have seen
    return {"text/plain; charset=utf-8", std::string(html.status().message()),
            ""};
  }
  return {"text/html; charset=utf-8", *std::move(html), Policy()};
}

}  // namespace stoker
