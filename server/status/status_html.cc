#include "status/status_html.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <string_view>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "base/absl_view.h"
#include "base/sha256.h"
#include "base/text_table.h"
#include "base/utf8.h"

namespace stoker {
namespace {

constexpr char kStyle[] = R"(
:root { color-scheme: light dark; --ink: #1c2733; --soft: #5b6773;
  --line: #dde3e8; --paper: #fff; --sunk: #f4f6f8; --good: #1c7a43;
  --busy: #2460c4; --slow: #8a5a00; --bad: #b3261e; --bad-paper: #fdeceb; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e9ee; --soft: #98a4af;
  --line: #333d47; --paper: #14191e; --sunk: #1c2329; --good: #6fd39a;
  --busy: #8ab4ff; --slow: #e6b450; --bad: #ffb4ab; --bad-paper: #3b1613; } }
* { box-sizing: border-box; }
body { font: 15px/1.45 system-ui, sans-serif; color: var(--ink);
  background: var(--paper); max-width: 1080px; margin: 0 auto;
  padding: 1.2rem 1rem 2rem; overflow-wrap: anywhere; }
h1 { font-size: 1.5rem; margin: 0; } h2 { font-size: 1.15rem; margin: 0; }
h3 { font-size: 1rem; margin: 0; }
p { margin: .25rem 0; } .soft { color: var(--soft); }
section { border-top: 1px solid var(--line); margin-top: 1.4rem;
  padding-top: 1.1rem; }
.good { --c: var(--good); } .busy { --c: var(--busy); }
.slow { --c: var(--slow); } .bad { --c: var(--bad); } .idle { --c: var(--soft); }
.state { color: var(--c); font-weight: 600; white-space: nowrap; }
.state::before { content: ""; display: inline-block; width: .6em; height: .6em;
  border-radius: 50%; background: var(--c); margin-right: .4em; }
.bar { height: .5rem; border-radius: .25rem; background: var(--line);
  overflow: hidden; margin: .5rem 0; }
.bar svg { display: block; width: 100%; height: 100%; fill: var(--busy); }
.alarm { color: var(--bad); background: var(--bad-paper); padding: .6rem .8rem;
  border-left: 4px solid var(--bad); white-space: pre-wrap; }
dl.figures { display: flex; flex-wrap: wrap; gap: .8rem 1.8rem;
  margin: .8rem 0; }
dl.figures dt { color: var(--soft); font-size: .85rem; }
dl.figures dd { margin: 0; font-size: 1.2rem; font-weight: 600;
  font-variant-numeric: tabular-nums; }
table { border-collapse: collapse; width: 100%; margin-top: .6rem;
  font-variant-numeric: tabular-nums; }
th, td { padding: .35rem .5rem; text-align: right; vertical-align: top;
  white-space: nowrap; }
th { color: var(--soft); font-weight: 600; font-size: .85rem; }
th:first-child, td:first-child { padding-left: 0; }
th:last-child, td:last-child { padding-right: 0; }
.text { text-align: left; } .wrap { white-space: pre-wrap; }
tbody { border-top: 1px solid var(--line); }
tr.why td { padding-top: 0; color: var(--soft); white-space: pre-wrap; }
code { font: .9em ui-monospace, monospace; }
footer dl { display: grid; grid-template-columns: max-content 1fr;
  gap: .15rem .9rem; margin: .5rem 0; }
footer dt { font-weight: 600; } footer dd { margin: 0; color: var(--soft); }
a { color: var(--busy); }
#stale { display: none; position: sticky; top: 0; } .stale #stale { display: block; }
@media (max-width: 760px) {
  thead { display: none; }
  table, tbody, td { display: block; }
  tr { display: grid; grid-template-columns: 1fr 1fr; gap: .1rem 1.2rem;
    padding: .5rem 0; }
  tbody { padding: .2rem 0; }
  td, td:first-child, td:last-child { display: flex; padding: 0;
    justify-content: space-between; align-items: baseline; gap: .6rem; }
  td[data-is]::before { content: attr(data-is); color: var(--soft);
    font-size: .85rem; }
  td.lead { font-weight: 600; } td.wide { grid-column: 1 / -1; }
  tr.why { display: block; padding-top: 0; } tr.why td { display: block; }
  td.wrap { display: block; grid-column: 1 / -1; }
  td:empty { display: none; }
  footer dl { display: block; } footer dd { margin-bottom: .4rem; }
  dl.figures { display: grid; grid-template-columns: repeat(3, 1fr); gap: .7rem; }
}
)";

// What stands below <main> stays. While somebody marks text to copy it, nothing
// moves.
constexpr char kScript[] = R"(
setInterval(async () => {
  if (document.hidden || !getSelection().isCollapsed) return;
  try {
    const answer = await fetch(location.href, {cache: 'no-store'});
    if (!answer.ok) throw new Error(answer.status);
    const next = new DOMParser().parseFromString(await answer.text(), 'text/html');
    document.querySelector('main').replaceWith(next.querySelector('main'));
    document.title = next.title;
    document.body.classList.remove('stale');
  } catch {
    document.body.classList.add('stale');
  }
}, 5000);
)";

// For who is woken by them.
constexpr std::pair<std::string_view, std::string_view> kWords[] = {
    {"pending", "Its turn comes."},
    {"compiling", "Its code is being made."},
    {"opening", "Its code is being loaded and run for the first time."},
    {"checking", "Its code is being compared with eager and timed."},
    {"compiled", "Compiled code answers: as exact as asked for, not slower."},
    {"dynamic", "Code that was compiled for any size answers. Below is why."},
    {"eager", "Eager answers: right, mostly slower, no outage. Below is why."},
    {"speed-up", "Eager's run time over that of the compiled code."},
    {"error", "Largest difference between the two when they were compared."},
    {"by compiled, by eager", "Requests that each has answered."},
    {"compile, saved", "What the compile took; run time that it saved so far."},
    {"key", "Of its entry in the kernel cache, for stokerctl cache show."},
};

std::string Escape(std::string_view text) {
  return absl::StrReplaceAll(ValidUtf8(text), {{"&", "&amp;"},
                                               {"<", "&lt;"},
                                               {">", "&gt;"},
                                               {"\"", "&quot;"},
                                               {"'", "&#39;"}});
}

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

std::string TimeText(absl::Time time) {
  return absl::FormatTime("%Y-%m-%d %H:%M:%S UTC", time, absl::UTCTimeZone());
}

// How a state is shown: its word in a colour that says how much it matters.
std::string State(std::string_view word, std::string_view tone) {
  return absl::StrCat("<span class=\"state ", Absl(tone), "\">", Escape(word),
                      "</span>");
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

// Terms and values side by side; both are escaped.
std::string Figures(
    std::initializer_list<std::pair<std::string, std::string>> figures) {
  std::string html = "<dl class=\"figures\">";
  for (const auto& [term, value] : figures) {
    absl::StrAppend(&html, "<div><dt>", Escape(term), "</dt><dd>",
                    Escape(value), "</dd></div>");
  }
  return html + "</dl>\n";
}

std::string LatencyOrDash(const std::optional<absl::Duration>& latency) {
  return latency.has_value() ? Latency(*latency) : "–";
}

std::string ServerHtml(const Status& status) {
  const bool failed = std::any_of(status.models.begin(), status.models.end(),
                                  [](const ModelStatus& model) {
                                    return model.state == VersionState::kFailed;
                                  });
  std::string html = "<header><h1>Stoker ";
  absl::StrAppend(&html,
                  status.server.ready ? State("ready", failed ? "slow" : "good")
                                      : State("not ready", "busy"),
                  "</h1>\n<p>");
  if (status.server.ready) {
    absl::StrAppend(&html, failed ? "What failed is named below; the rest "
                                    "serves."
                                  : "Every version serves.");
  } else {
    absl::StrAppend(&html,
                    "Health checks say the same, so that load balancers send "
                    "nothing here. What it waits for stands below.");
  }
  absl::StrAppend(
      &html, "</p>\n<p class=\"soft\">up ", Span(status.server.uptime),
      " · stokerd ", Escape(status.server.version), " · torch ",
      Escape(status.server.torch), " · ", Escape(status.server.march),
      " · as of <time>", TimeText(status.server.time),
      "</time></p>\n<p class=\"soft\">Requests/s, p50 and p99 are "
      "of the last ",
      Span(status.server.window),
      "; what is counted, since the start.</p></header>\n");
  return html;
}

std::string WarmupHtml(const ModelStatus& model) {
  const WarmupProgress& warmup = model.warmup;
  if (warmup.settled == warmup.total || model.state == VersionState::kFailed)
    return "";
  std::string html = absl::StrCat(
      "<div class=\"bar\"><svg viewBox=\"0 0 ", warmup.total,
      " 1\" preserveAspectRatio=\"none\" aria-hidden=\"true\"><rect width=\"",
      warmup.settled, "\" height=\"1\"/></svg></div>\n<p>", warmup.settled,
      " of ", warmup.total, " buckets settled");
  if (warmup.left.has_value()) {
    absl::StrAppend(&html, ", about <b>", Span(*warmup.left), "</b> left");
  } else {
    absl::StrAppend(&html, "; how long it takes is known after the next");
  }
  return html + "</p>\n";
}

std::string BucketRow(const BucketFigures& bucket) {
  const BucketSlot::Snapshot& slot = bucket.status.slot;
  const bool compiled = slot.state == BucketState::kCompiled;
  std::string state(BucketStateName(slot.state));
  if (!bucket.status.phase.empty()) {
    absl::StrAppend(&state, ": ", bucket.status.phase, ", ",
                    Span(bucket.status.in_phase));
  }
  std::string html = "<tr>";
  // `is`: the column's name, which a narrow screen shows beside the value.
  const auto cell = [&](std::string_view is, const std::string& value) {
    absl::StrAppend(&html, "<td data-is=\"", Absl(is), "\">", Escape(value),
                    "</td>");
  };
  absl::StrAppend(&html, "<td class=\"text lead\">",
                  Escape(bucket.status.bucket), "</td><td class=\"text\">",
                  State(state, ToneOf(slot.state)), "</td>");
  cell("speed-up", slot.verdict.speedup > 0 && compiled
                       ? absl::StrFormat("%.2f ×", slot.verdict.speedup)
                       : "");
  cell("error", compiled && !slot.verdict.cases.empty()
                    ? absl::StrFormat("%.1e", slot.verdict.max_abs_error)
                    : "");
  cell("by compiled", Grouped(bucket.compiled_requests));
  cell("by eager", Grouped(bucket.eager_requests));
  const bool paid = bucket.compile_seconds > 0;
  cell("compile",
       paid ? absl::StrFormat("%.1f s", bucket.compile_seconds) : "");
  cell("saved", paid ? absl::StrFormat("%.1f s", bucket.saved_seconds) : "");
  absl::StrAppend(&html, "<td data-is=\"key\" class=\"wide\"><code>",
                  Escape(slot.key.substr(0, 12)), "</code></td></tr>\n");
  const auto why = [&](const std::string& text) {
    absl::StrAppend(&html,
                    "<tr class=\"why\"><td class=\"text\" colspan=\"9\">",
                    Escape(text), "</td></tr>\n");
  };
  if (!slot.detail.empty()) why(slot.detail);
  if (!slot.graph.empty()) why(absl::StrCat("graph: ", slot.graph));
  return html;
}

std::string BucketTable(const std::vector<BucketFigures>& buckets) {
  if (buckets.empty()) return "";
  std::string html =
      "<table><thead><tr><th class=\"text\">bucket</th>"
      "<th class=\"text\">state</th><th>speed-up</th><th>error</th>"
      "<th>by compiled</th><th>by eager</th><th>compile</th><th>saved</th>"
      "<th>key</th></tr></thead>\n";
  for (const BucketFigures& bucket : buckets) {
    absl::StrAppend(&html, "<tbody>", BucketRow(bucket), "</tbody>\n");
  }
  return html + "</table>\n";
}

// "2 of 8 buckets stay on eager: right, mostly slower, no outage."
std::string EagerText(const std::vector<BucketFigures>& buckets) {
  const auto eager = std::count_if(
      buckets.begin(), buckets.end(), [](const BucketFigures& bucket) {
        return bucket.status.slot.state == BucketState::kEager;
      });
  if (eager == 0) return "";
  return absl::StrCat(" ", eager, " of ", buckets.size(), " buckets ",
                      eager == 1 ? "stays" : "stay",
                      " on eager: right, mostly slower, no outage.");
}

std::string ModelHtml(const ModelStatus& model) {
  std::string html = absl::StrCat(
      "<section><h2>", Escape(model.model), " ",
      State(VersionStateName(model.state), ToneOf(model.state)), "</h2>\n<p>",
      Absl(MeaningOf(model.state)), EagerText(model.buckets), "</p>\n");
  if (!model.device.empty() && model.device != "cpu") {
    absl::StrAppend(&html, "<p class=\"soft\">On ", Escape(model.device),
                    ".</p>\n");
  }
  const std::string warmup = WarmupHtml(model);
  if (!warmup.empty()) {
    absl::StrAppend(&html, warmup);
  } else if (!model.reason.empty()) {
    absl::StrAppend(&html, "<p class=\"alarm\">", Escape(model.reason),
                    "</p>\n");
  }
  const RecentRequests& recent = model.recent;
  if (model.state == VersionState::kServing ||
      model.answered + model.failed > 0) {
    absl::StrAppend(&html, Figures({{"requests/s", Rate(recent.per_second)},
                                    {"p50", LatencyOrDash(recent.p50)},
                                    {"p99", LatencyOrDash(recent.p99)},
                                    {"waiting", Grouped(model.waiting)},
                                    {"answered", Grouped(model.answered)},
                                    {"failed", Grouped(model.failed)}}));
  }
  absl::StrAppend(&html, BucketTable(model.buckets), "</section>\n");
  return html;
}

std::string CacheHtml(const CacheStatus& cache) {
  int64_t rejected = 0;
  std::string reasons;
  for (const auto& [reason, count] : cache.rejections) {
    rejected += count;
    if (count > 0) absl::StrAppend(&reasons, " · ", count, " ", Escape(reason));
  }
  std::string html = "<section><h2>Kernel cache</h2>\n";
  if (!cache.writable) {
    absl::StrAppend(&html,
                    "<p class=\"alarm\">Its folder can't be written: what is "
                    "compiled now is lost at the end. Serving goes on.</p>\n");
  }
  absl::StrAppend(&html, Figures({{"entries", Grouped(cache.entries)},
                                  {"size", HumanBytes(cache.bytes)},
                                  {"hits", Grouped(cache.upper_hits)},
                                  {"hits in layers", Grouped(cache.lower_hits)},
                                  {"misses", Grouped(cache.misses)},
                                  {"rejected", Grouped(rejected)}}));
  if (rejected > 0) {
    absl::StrAppend(&html,
                    "<p class=\"soft\">Rejected: set aside as damaged or "
                    "unusable",
                    reasons, "</p>\n");
  }
  if (cache.compile_seconds_saved > 0) {
    absl::StrAppend(&html, "<p class=\"soft\">The hits had taken ",
                    Span(absl::Seconds(cache.compile_seconds_saved)),
                    " to compile.</p>\n");
  }
  return html + "</section>\n";
}

std::string RefusalsHtml(const Status& status) {
  std::string html = "<section><h2>Recent refusals</h2>\n";
  if (status.refusals.empty()) {
    return html +
           "<p class=\"soft\">None since the start: no bucket was refused its "
           "promotion, no cache entry was set aside.</p></section>\n";
  }
  absl::StrAppend(
      &html,
      "<p class=\"soft\">Buckets that stay on eager, and cache entries that "
      "were set aside; the newest first, ",
      RecentRefusals::kKept,
      " at most.</p>\n<table><thead><tr>"
      "<th class=\"text\">time</th><th class=\"text\">of</th>"
      "<th class=\"text\">why</th></tr></thead>\n");
  for (const RecentRefusals::Refusal& refusal : status.refusals) {
    absl::StrAppend(
        &html, "<tbody><tr><td class=\"text\"><time>", TimeText(refusal.time),
        "</time></td><td class=\"text wrap lead\">",
        refusal.what == "cache" ? "cache entry " : "", Escape(refusal.of),
        "</td><td class=\"text wrap\"><b>", Escape(refusal.label), "</b> ",
        Escape(refusal.reason), "</td></tr></tbody>\n");
  }
  return html + "</table></section>\n";
}

std::string Footer() {
  std::string html =
      "<footer><section><h2>What the words of a bucket mean</h2>\n<p "
      "class=\"soft\">Until it is compiled, eager answers its requests once "
      "the version serves.</p><dl>";
  for (const auto& [word, meaning] : kWords) {
    absl::StrAppend(&html, "<dt>", Absl(word), "</dt><dd>", Absl(meaning),
                    "</dd>\n");
  }
  return html +
         "</dl>\n<p><a href=\"status.json\">status.json</a> has the same for "
         "programs, <a href=\"metrics\">metrics</a> for Prometheus.</p>"
         "</section></footer>\n";
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
      HashSource(kStyle), "; script-src ", HashSource(kScript)));
  return policy;
}

}  // namespace

Page StatusPage(const Status& status) {
  std::string html = absl::StrCat(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, "
      "initial-scale=1\">\n<title>Stoker: ",
      status.server.ready ? "ready" : "not ready",
      "</title>\n<link rel=\"icon\" href=\"data:,\">\n<noscript><meta "
      "http-equiv=\"refresh\" content=\"10\"></noscript>\n<style>",
      kStyle, "</style></head><body>\n",
      "<p id=\"stale\" class=\"alarm\" role=\"alert\">The daemon doesn't "
      "answer: what stands here is as old as its time says.</p>\n<main>",
      ServerHtml(status));
  if (status.models.empty()) {
    absl::StrAppend(&html,
                    "<section><p>No model is there: the repository holds none, "
                    "or was not read yet.</p></section>\n");
  }
  for (const ModelStatus& model : status.models) {
    absl::StrAppend(&html, ModelHtml(model));
  }
  absl::StrAppend(&html, CacheHtml(status.cache), RefusalsHtml(status),
                  "</main>\n", Footer(), "<script>", kScript,
                  "</script></body></html>\n");
  return {"text/html; charset=utf-8", std::move(html), Policy()};
}

}  // namespace stoker
