#include "metrics/metrics_page.h"

#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/absl_view.h"
#include "base/clock.h"
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

struct Url {
  std::string host, port, path;
};

absl::StatusOr<Url> ParseUrl(const std::string& url) {
  absl::string_view rest = url;
  if (absl::ConsumePrefix(&rest, "http://")) {
    const size_t slash = rest.find('/');
    const std::string authority(rest.substr(0, slash));
    const std::string path(slash == rest.npos ? "/" : rest.substr(slash));
    const size_t colon = authority.rfind(':');
    if (colon != authority.npos && colon > 0 && colon + 1 < authority.size()) {
      return Url{authority.substr(0, colon), authority.substr(colon + 1), path};
    }
  }
  return absl::InvalidArgumentError(
      absl::StrCat("expected http://HOST:PORT/PATH, got '", url, "'"));
}

class Socket {
 public:
  explicit Socket(int fd) : fd_(fd) {}
  ~Socket() { close(fd_); }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  int fd() const { return fd_; }

 private:
  const int fd_;
};

// Whether the socket is ready before `limit`.
bool Await(int fd, short events, MonotonicTime limit) {
  while (true) {
    const int64_t left = absl::ToInt64Milliseconds(limit - Clock::Real().Now());
    if (left <= 0) return false;
    pollfd entry{fd, events, 0};
    const int ready = poll(&entry, 1, static_cast<int>(left));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return false;
  }
}

std::unique_ptr<Socket> Connect(const Url& url, MonotonicTime limit) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(url.host.c_str(), url.port.c_str(), &hints, &found) != 0)
    return nullptr;
  std::unique_ptr<Socket> connected;
  for (const addrinfo* one = found; one && !connected; one = one->ai_next) {
    auto socket = std::make_unique<Socket>(::socket(
        one->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (socket->fd() < 0) continue;
    int error = 0;
    if (connect(socket->fd(), one->ai_addr, one->ai_addrlen) != 0) {
      socklen_t size = sizeof(error);
      if (errno != EINPROGRESS || !Await(socket->fd(), POLLOUT, limit) ||
          getsockopt(socket->fd(), SOL_SOCKET, SO_ERROR, &error, &size) != 0) {
        continue;
      }
    }
    if (error == 0) connected = std::move(socket);
  }
  freeaddrinfo(found);
  return connected;
}

bool SendAll(int fd, absl::string_view bytes, MonotonicTime limit) {
  while (!bytes.empty()) {
    if (!Await(fd, POLLOUT, limit)) return false;
    const ssize_t sent = send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno != EAGAIN && errno != EINTR) return false;
    if (sent > 0) bytes.remove_prefix(static_cast<size_t>(sent));
  }
  return true;
}

// Everything up to the end of the connection.
bool ReceiveAll(int fd, std::string* bytes, MonotonicTime limit) {
  char buffer[1 << 16];
  while (bytes->size() < kMaxPageBytes) {
    if (!Await(fd, POLLIN, limit)) return false;
    const ssize_t got = recv(fd, buffer, sizeof(buffer), 0);
    if (got == 0) return true;
    if (got < 0 && errno != EAGAIN && errno != EINTR) return false;
    if (got > 0) bytes->append(buffer, static_cast<size_t>(got));
  }
  return false;
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
  ASSIGN_OR_RETURN(const Url parts, ParseUrl(url));
  const MonotonicTime limit = Clock::Real().Now() + timeout;
  const auto failed = [&](const char* got) {
    return absl::UnavailableError(
        absl::StrCat("expected a page at ", url, ", got ", got));
  };
  const std::unique_ptr<Socket> socket = Connect(parts, limit);
  if (socket == nullptr) return failed("no connection");
  const std::string request = absl::StrCat(
      "GET ", parts.path, " HTTP/1.0\r\nHost: ", parts.host, ":", parts.port,
      "\r\nConnection: close\r\n",
      token.empty() ? "" : "Authorization: Bearer " + token + "\r\n", "\r\n");
  std::string answer;
  if (!SendAll(socket->fd(), request, limit) ||
      !ReceiveAll(socket->fd(), &answer, limit)) {
    return failed("no whole answer in time");
  }
  const size_t body = answer.find("\r\n\r\n");
  const size_t space = answer.find(' ');
  if (body == answer.npos || space > body || answer.substr(space, 4) != " 200")
    return failed(answer.substr(0, answer.find('\r')).c_str());
  return answer.substr(body + 4);
}

absl::StatusOr<MetricsPage> FetchMetrics(const std::string& url) {
  ASSIGN_OR_RETURN(const std::string text, HttpGet(url, absl::Seconds(5)));
  return MetricsPage::Parse(text);
}

}  // namespace stoker
