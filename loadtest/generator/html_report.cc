#include "loadtest/generator/html_report.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "loadtest/generator/svg_plot.h"

namespace stoker::loadtest {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kStyle[] = R"(
:root { color-scheme: light dark; --ink: #1c2733; --soft: #66727f;
  --line: #dde3e8; --paper: #fff; --alarm: #b3261e; --alarm-paper: #fdeceb; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e9ee; --soft: #98a4af;
  --line: #333d47; --paper: #14191e; --alarm: #ffb4ab; --alarm-paper: #3b1613; } }
body { font: 15px/1.45 system-ui, sans-serif; color: var(--ink);
  background: var(--paper); max-width: 1040px; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; margin-bottom: .2rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
p.facts { color: var(--soft); margin-top: 0; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
.wide { overflow-x: auto; }
th, td { padding: .3rem .55rem; text-align: right; border-bottom: 1px solid var(--line);
  white-space: nowrap; }
th { color: var(--soft); font-weight: 600; } th:first-child, td:first-child { text-align: left; }
td.text { white-space: normal; text-align: left; }
.alarm { color: var(--alarm); background: var(--alarm-paper); padding: .6rem .8rem;
  border-left: 4px solid var(--alarm); }
figure { margin: 1rem 0; } svg { width: 100%; height: auto; }
svg text { fill: var(--ink); font: 12px system-ui, sans-serif; }
svg .tick { fill: var(--soft); text-anchor: middle; } svg .end { text-anchor: end; }
svg .title { text-anchor: middle; fill: var(--soft); } svg .head { font-weight: 600; font-size: 13px; }
svg .grid { stroke: var(--line); } svg .axis { stroke: var(--soft); }
svg .curve { fill: none; stroke-width: 1.8; stroke: var(--c); }
svg .bar { fill: var(--c); fill-opacity: .55; } svg .key { fill: var(--c); }
.s0 { --c: #2f6fde; } .s1 { --c: #d9622b; } .s2 { --c: #2c9a57; } .s3 { --c: #9a4bc4; }
.s4 { --c: #b8860b; } .s5 { --c: #1d9aa8; } .s6 { --c: #c43d6e; } .s7 { --c: #7a8794; }
)";

std::string Number(double value) {
  if (value == 0) return "0";
  const double size = std::abs(value);
  if (size >= 1000) return absl::StrFormat("%.0f", value);
  if (size >= 100) return absl::StrFormat("%.1f", value);
  if (size >= 1) return absl::StrFormat("%.2f", value);
  return absl::StrFormat("%.3f", value);
}

class Table {
 public:
  explicit Table(const std::vector<std::string>& head) { Row(head, "th"); }
  void Add(const std::vector<std::string>& cells) { Row(cells, "td"); }
  std::string html() const {
    return absl::StrCat("<div class=\"wide\"><table>\n", rows_,
                        "</table></div>\n");
  }

 private:
  void Row(const std::vector<std::string>& cells, const char* tag) {
    absl::StrAppend(&rows_, "<tr>");
    for (const std::string& cell : cells)
      absl::StrAppend(&rows_, "<", tag, ">", Escape(cell), "</", tag, ">");
    absl::StrAppend(&rows_, "</tr>\n");
  }
  std::string rows_;
};

std::string StepName(const Json& step) {
  return step.at("name").get<std::string>();
}

std::string Head(const Json& result) {
  const Json& scenario = result.at("scenario");
  const Json& machine = result.at("client_machine");
  const std::string name = scenario.at("name").get<std::string>();
  std::string html = absl::StrCat(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width\">\n<title>",
      Escape(name), "</title>\n<style>", kStyle, "</style></head><body>\n<h1>",
      Escape(name), "</h1>\n");
  std::string facts = absl::StrCat(
      "model ", result.at("model").at("name").get<std::string>(), " · ",
      result.at("server").at("name").get<std::string>(), " ",
      result.at("server").at("version").get<std::string>(), " at ",
      result.at("address").get<std::string>(), " · ",
      scenario.at("method").get<std::string>(), ", ",
      scenario.at("connections").get<int>(), " connections, ",
      scenario.at("distinct_requests").get<int64_t>(), " requests of ",
      scenario.at("mean_request_bytes").get<int64_t>(), " bytes, seed ",
      scenario.at("seed").get<uint64_t>(), " · client on ",
      machine.at("processor").get<std::string>(), ", ",
      machine.at("cores").get<int>(), " cores · ",
      result.at("tool").get<std::string>(), ", ",
      result.at("finished").get<std::string>());
  for (const auto& [label, text] : result.at("labels").items())
    absl::StrAppend(&facts, " · ", label, " ", text.get<std::string>());
  return html + "<p class=\"facts\">" + Escape(facts) + "</p>\n";
}

std::string Alarms(const Json& steps) {
  std::string html;
  for (const Json& step : steps) {
    for (const Json& reason : step.at("client").at("reasons")) {
      absl::StrAppend(&html, "<p class=\"alarm\">",
                      Escape(absl::StrCat(StepName(step),
                                          ": the client was the limit, not "
                                          "the server. ",
                                          reason.get<std::string>())),
                      "</p>\n");
    }
  }
  return html;
}

std::string StepTable(const Json& steps) {
  Table table({"step", "answers/s", "min–max", "goodput/s", "p50 ms", "p90",
               "p99", "p99.9", "max", "service p99", "errors", "client cores"});
  for (const Json& step : steps) {
    const Json& latency = step.at("latency_ms");
    const Json& spread = step.at("throughput_spread");
    const Json& requests = step.at("requests");
    const auto ms = [&](const char* name) {
      return Number(latency.at(name).get<double>());
    };
    table.Add(
        {StepName(step), Number(step.at("throughput_per_s")),
         absl::StrCat(Number(spread.at("min")), "–", Number(spread.at("max"))),
         Number(step.at("goodput_per_s")), ms("p50"), ms("p90"), ms("p99"),
         ms("p99.9"), ms("max"), Number(step.at("service_ms").at("p99")),
         absl::StrCat(requests.at("measured").get<int64_t>() -
                      requests.at("measured_ok").get<int64_t>()),
         Number(step.at("client").at("cores_used"))});
  }
  return "<h2>Steps</h2>\n" + table.html();
}

std::string ErrorTable(const Json& steps) {
  Table table({"step", "code", "requests", "with retry hint", "p50 ms", "p99",
               "example"});
  bool any = false;
  for (const Json& step : steps) {
    for (const auto& [code, error] : step.at("errors").items()) {
      any = true;
      const Json& latency = error.at("latency_ms");
      table.Add({StepName(step), code,
                 absl::StrCat(error.at("count").get<int64_t>()),
                 absl::StrCat(error.at("with_retry_hint").get<int64_t>()),
                 Number(latency.at("p50")), Number(latency.at("p99")),
                 error.at("example").get<std::string>().substr(0, 160)});
    }
  }
  return any ? "<h2>Errors</h2>\n" + table.html() : "";
}

std::string ServerTable(const Json& steps) {
  Table table({"step", "queue ms", "assemble ms", "execute ms", "scatter ms",
               "whole ms", "requests/batch", "rows/batch", "padding",
               "resident MB, first–max"});
  bool any = false;
  for (const Json& step : steps) {
    const auto server = step.find("server");
    if (server == step.end()) continue;
    any = true;
    const auto mean = [&](const char* name) {
      const auto found = server->find(name);
      return found == server->end() ? "–" : Number(found->at("mean"));
    };
    const auto plain = [&](const char* name) {
      const auto found = server->find(name);
      return found == server->end() ? "–" : Number(found->get<double>());
    };
    const auto waste = server->find("padding_waste");
    const auto memory = server->find("resident_mb");
    table.Add(
        {StepName(step), mean("queue_ms"), mean("assemble_ms"),
         mean("execute_ms"), mean("scatter_ms"), mean("request_ms"),
         plain("requests_per_batch"), plain("rows_per_batch"),
         waste == server->end()
             ? "–"
             : absl::StrFormat("%.1f %%", waste->get<double>() * 100),
         memory == server->end()
             ? "–"
             : absl::StrFormat("%.1f–%.1f", memory->at("first").get<double>(),
                               memory->at("max").get<double>())});
  }
  if (!any) return "";
  return "<h2>What the server says (means)</h2>\n" + table.html();
}

std::string SearchTable(const Json& steps) {
  std::string html;
  for (const Json& step : steps) {
    const auto search = step.find("search");
    if (search == step.end()) continue;
    Table table({"requests/s", "meets the SLO", "why not"});
    for (const Json& trial : search->at("trials")) {
      const bool meets = trial.at("meets").get<bool>();
      table.Add({Number(trial.at("rate_per_s")), meets ? "yes" : "no",
                 meets ? "" : trial.at("why").get<std::string>()});
    }
    const Json& rate = search->at("rate_per_s");
    absl::StrAppend(&html, "<h2>", Escape(StepName(step)), ": ",
                    rate.is_null() ? "no rate meets the SLO"
                                   : Number(rate.get<double>()) + " requests/s",
                    "</h2>\n", table.html());
  }
  return html;
}

// A range of values above 0, a little wider than they are.
void Widen(double value, PlotAxis* axis, bool* first) {
  if (!(value > 0)) return;
  axis->min = *first ? value * 0.8 : std::min(axis->min, value * 0.8);
  axis->max = *first ? value * 1.25 : std::max(axis->max, value * 1.25);
  *first = false;
}

// x is how many nines: 0 is the least, 2 is 99 %.
Plot PercentilePlot(const Json& steps) {
  Plot plot{"Latency by percentile",
            {"percentile", 0, 1, false, {}},
            {"ms", 1, 10, true, {}},
            {}};
  bool first = true;
  for (const Json& step : steps) {
    PlotSeries& series = plot.series.emplace_back();
    series.name = StepName(step);
    for (const Json& point : step.at("latency_curve")) {
      const double nines =
          -std::log10(std::max(1 - point.at(0).get<double>() / 100, 1e-9));
      series.points.emplace_back(nines, point.at(1).get<double>());
      plot.x.max = std::max(plot.x.max, nines);
      Widen(point.at(1).get<double>(), &plot.y, &first);
    }
  }
  plot.x.ticks = {{0, "0"},    {0.30103, "50"}, {1, "90"},     {2, "99"},
                  {3, "99.9"}, {4, "99.99"},    {5, "99.999"}, {6, "99.9999"}};
  std::erase_if(plot.x.ticks,
                [&](const auto& tick) { return tick.first > plot.x.max; });
  return plot;
}

Plot ThroughputPlot(const Json& steps) {
  Plot plot{"Answers over time",
            {"seconds", 0, 0, false, {}},
            {"answers/s", 0, 0, false, {}},
            {}};
  for (const Json& step : steps) {
    const double length =
        step.at("throughput_spread").at("window_seconds").get<double>();
    PlotSeries& series = plot.series.emplace_back();
    series.name = StepName(step);
    double middle = length / 2;
    for (const Json& window : step.at("windows")) {
      const double rate = window.at("ok").get<double>() / length;
      series.points.emplace_back(middle, rate);
      middle += length;
      plot.y.max = std::max(plot.y.max, rate * 1.1);
    }
    plot.x.max = std::max(plot.x.max, middle - length / 2);
  }
  if (plot.y.max == 0) plot.y.max = 1;
  return plot;
}

Plot HistogramPlot(const Json& step) {
  Plot plot{StepName(step),
            {"latency, ms", 1, 10, true, {}},
            {"answers", 0, 1, false, {}},
            {}};
  PlotSeries& series = plot.series.emplace_back();
  series.bars = true;
  bool first = true;
  double end = 0;
  for (const Json& bin : step.at("latency_bins")) {
    const double low = bin.at(0).get<double>();
    // An empty bin in between.
    if (end > 0 && low > end * 1.001) series.points.emplace_back(end, 0);
    end = bin.at(1).get<double>();
    series.points.emplace_back(low, bin.at(2).get<double>());
    plot.y.max = std::max(plot.y.max, bin.at(2).get<double>() * 1.05);
    Widen(low, &plot.x, &first);
    Widen(end, &plot.x, &first);
  }
  series.points.emplace_back(end, 0);
  return plot;
}

std::string Figure(const Plot& plot) {
  return "<figure>" + PlotSvg(plot) + "</figure>\n";
}

std::string Body(const Json& result) {
  const Json& steps = result.at("steps");
  const Json& slo = result.at("scenario").at("slo");
  std::string html = Head(result) + Alarms(steps) + StepTable(steps);
  absl::StrAppend(
      &html,
      "<p class=\"facts\">Latency is counted from when a request was due, "
      "service from when it was sent. Goodput: answers within ",
      Number(slo.at("latency_ms")),
      " ms. min–max: of the time's windows.</p>\n", SearchTable(steps),
      ServerTable(steps), ErrorTable(steps), "<h2>Plots</h2>\n",
      Figure(PercentilePlot(steps)), Figure(ThroughputPlot(steps)),
      "<h2>Latency histograms</h2>\n");
  for (const Json& step : steps) {
    if (!step.at("latency_bins").empty())
      absl::StrAppend(&html, Figure(HistogramPlot(step)));
  }
  return html + "</body></html>\n";
}

}  // namespace

absl::StatusOr<std::string> HtmlReport(const Json& result) {
  try {
    return Body(result);
  } catch (const Json::exception& error) {
    return absl::InvalidArgumentError(absl::StrCat(
        "expected a result of stoker-loadtest, got another: ", error.what()));
  }
}

}  // namespace stoker::loadtest
