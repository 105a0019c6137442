#include "metrics/metrics_page.h"

#include <cmath>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/absl_view.h"
#include "base/http_client.h"
#include "base/status_macros.h"

namespace stoker {
namespace {

constexpr size_t kMaxPageBytes = 64 << 20;

// name="value" pairs; a backslash keeps the character behind it.
std::map<std::string, std::string> ParseLabels(std::string_view text) {
  std::map<std::string, std::string> labels;
  size_t at = 0;
  while (at < text.size()) {
    const size_t equals = text.find("=\"", at);
    if (equals == text.npos) break;
    std::string name(text.substr(at, equals - at));
    std::string value;
    for (at = equals + 2; at < text.size() && text[at] != '"'; ++at) {
      if (text[at] == '\\' && at + 1 < text.size()) ++at;
      value += text[at];
    }
    absl::StripAsciiWhitespace(&name);
    labels[name] = value;
    at += 1;
    if (at < text.size() && text[at] == ',') ++at;
  }
  return labels;
}

bool Carries(const std::map<std::string, std::string>& have,
             const std::map<std::string, std::string>& wanted) {
  for (const auto& [name, value] : wanted) {
    const auto found = have.find(name);
    if (found == have.end() || found->second != value) return false;
  }
  return true;
}

}  // namespace

MetricsPage MetricsPage::Parse(std::string_view text) {
  MetricsPage page;
  for (const absl::string_view line : absl::StrSplit(Absl(text), '\n')) {
    if (line.empty() || line[0] == '#') continue;
    const size_t brace = line.find('{');
    const size_t close = line.rfind('}');
    const bool labelled = brace != line.npos && close != line.npos;
    const absl::string_view name =
        line.substr(0, labelled ? brace : line.find(' '));
    // A time stamp may follow the value.
    const std::vector<absl::string_view> rest =
        absl::StrSplit(line.substr(labelled ? close + 1 : name.size()), ' ',
                       absl::SkipWhitespace());
    Sample sample;
    if (rest.empty() || !absl::SimpleAtod(rest[0], &sample.value)) continue;
    if (labelled) {
      sample.labels =
          ParseLabels(Std(line.substr(brace + 1, close - brace - 1)));
    }
    page.samples_.emplace(std::string(name), std::move(sample));
  }
  return page;
}

double MetricsPage::Sum(
    const std::string& name,
    const std::map<std::string, std::string>& labels) const {
  double sum = 0;
  const auto [begin, end] = samples_.equal_range(name);
  for (auto it = begin; it != end; ++it) {
    if (Carries(it->second.labels, labels)) sum += it->second.value;
  }
  return sum;
}

std::vector<MetricsPage::Sample> MetricsPage::Samples(
    const std::string& name,
    const std::map<std::string, std::string>& labels) const {
  std::vector<Sample> samples;
  const auto [begin, end] = samples_.equal_range(name);
  for (auto it = begin; it != end; ++it) {
    if (Carries(it->second.labels, labels)) samples.push_back(it->second);
  }
  return samples;
}

bool MetricsPage::Has(const std::string& name) const {
  return samples_.contains(name);
}

std::map<double, double> MetricsPage::Buckets(
    const std::string& name,
    const std::map<std::string, std::string>& labels) const {
  std::map<double, double> buckets;
  const auto [begin, end] = samples_.equal_range(name + "_bucket");
  for (auto it = begin; it != end; ++it) {
    const auto bound = it->second.labels.find("le");
    double upper = 0;
    if (bound == it->second.labels.end() ||
        !absl::SimpleAtod(bound->second, &upper)) {
      continue;
    }
    if (Carries(it->second.labels, labels)) buckets[upper] += it->second.value;
  }
  return buckets;
}

std::optional<double> Quantile(const std::map<double, double>& buckets,
                               double share) {
  if (buckets.empty() || !(buckets.rbegin()->second > 0)) return std::nullopt;
  const double rank = share * buckets.rbegin()->second;
  double lower = 0;
  double below = 0;  // observations up to `lower`
  for (const auto& [upper, count] : buckets) {
    if (count >= rank && count > below) {
      if (std::isinf(upper)) break;
      return lower + (upper - lower) * (rank - below) / (count - below);
    }
    if (!std::isinf(upper)) lower = upper;
    below = count;
  }
  return lower;
}

absl::StatusOr<std::string> HttpGet(const std::string& url,
                                    absl::Duration timeout,
                                    const std::string& token) {
  const absl::StatusOr<HttpUrl> parts = ParseHttpUrl(url, "", "/");
  if (!parts.ok() || parts->port.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected http://HOST:PORT/PATH, got '", url, "'"));
  }
  const auto failed = [&](std::string_view got) {
    return absl::UnavailableError(
        absl::StrCat("expected a page at ", url, ", got ", Absl(got)));
  };
  const std::string request = absl::StrCat(
      "GET ", parts->path, " HTTP/1.0\r\nHost: ", parts->authority(),
      "\r\nConnection: close\r\n",
      token.empty() ? "" : "Authorization: Bearer " + token + "\r\n", "\r\n");
  const absl::StatusOr<std::string> exchanged = HttpExchange(
      *parts, request, "", kMaxPageBytes, timeout, [] { return false; });
  if (!exchanged.ok()) return failed(Std(exchanged.status().message()));
  const std::string& answer = *exchanged;
  if (answer.size() >= kMaxPageBytes) return failed("one that is too large");
  const size_t body = answer.find("\r\n\r\n");
  const size_t space = answer.find(' ');
  if (body == answer.npos || space > body || answer.substr(space, 4) != " 200")
    return failed(answer.substr(0, answer.find('\r')));
  return answer.substr(body + 4);
}

absl::StatusOr<MetricsPage> FetchMetrics(const std::string& url) {
  ASSIGN_OR_RETURN(const std::string text, HttpGet(url, absl::Seconds(5)));
  return MetricsPage::Parse(text);
}

}  // namespace stoker
