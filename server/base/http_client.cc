#include "base/http_client.h"

#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/absl_view.h"
#include "base/clock.h"
#include "base/file_descriptor.h"
#include "base/status_macros.h"

namespace stoker {
namespace {

constexpr absl::Duration kLook = absl::Milliseconds(100);
// No reply is longer, whatever its head says.
constexpr size_t kLongest = size_t{1} << 40;
// Of what is answered to a post nothing longer is of interest.
constexpr size_t kMaxReply = 64 << 10;

absl::Status Failed(const char* what, int error) {
  return absl::UnavailableError(absl::StrCat(what, ": ", strerror(error)));
}

// One exchange, until its limit.
class Exchange {
 public:
  Exchange(absl::Duration limit, absl::FunctionRef<bool()> gives_up)
      : deadline_(Clock::Real().Now() + limit), gives_up_(gives_up) {}

  absl::Status Connect(const HttpUrl& url);
  absl::Status Send(std::string_view bytes);
  // Until the reply is whole, or has `most` bytes, or the other end closes.
  absl::StatusOr<std::string> Receive(size_t most);

 private:
  absl::Status ConnectTo(const addrinfo& address);
  absl::Status Await(short events);

  const MonotonicTime deadline_;
  const absl::FunctionRef<bool()> gives_up_;
  FileDescriptor socket_{-1};
};

absl::Status Exchange::Await(short events) {
  for (;;) {
    if (gives_up_()) return absl::UnavailableError("the server stops");
    const absl::Duration left = deadline_ - Clock::Real().Now();
    if (left <= absl::ZeroDuration()) {
      return absl::UnavailableError("it didn't answer in time");
    }
    pollfd waits = {socket_.get(), events, 0};
    const int ready = poll(
        &waits, 1,
        static_cast<int>(absl::ToInt64Milliseconds(std::min(left, kLook))) + 1);
    if (ready > 0) return absl::OkStatus();
    if (ready < 0 && errno != EINTR) return Failed("wait", errno);
  }
}

absl::Status Exchange::ConnectTo(const addrinfo& address) {
  socket_ = FileDescriptor(socket(address.ai_family,
                                  SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC,
                                  address.ai_protocol));
  if (!socket_.ok()) return Failed("socket", errno);
  if (connect(socket_.get(), address.ai_addr, address.ai_addrlen) == 0) {
    return absl::OkStatus();
  }
  if (errno != EINPROGRESS) return Failed("connect", errno);
  RETURN_IF_ERROR(Await(POLLOUT));
  int error = 0;
  socklen_t size = sizeof(error);
  getsockopt(socket_.get(), SOL_SOCKET, SO_ERROR, &error, &size);
  return error == 0 ? absl::OkStatus() : Failed("connect", error);
}

absl::Status Exchange::Connect(const HttpUrl& url) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int error =
      getaddrinfo(url.host.c_str(), url.port.c_str(), &hints, &found);
  if (error != 0) {
    return absl::UnavailableError(
        absl::StrCat("look up: ", gai_strerror(error)));
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> all(found,
                                                               &freeaddrinfo);
  absl::Status status = absl::UnavailableError("no address");
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    status = ConnectTo(*one);
    if (status.ok()) return status;
  }
  return status;
}

absl::Status Exchange::Send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent =
        send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent >= 0) {
      bytes.remove_prefix(static_cast<size_t>(sent));
    } else if (errno == EAGAIN) {
      RETURN_IF_ERROR(Await(POLLOUT));
    } else if (errno != EINTR) {
      return Failed("send", errno);
    }
  }
  return absl::OkStatus();
}

// The value of a header's line, in a head whose lines end with "\r\n".
std::optional<std::string> HeaderOf(std::string_view head,
                                    std::string_view name) {
  size_t at = head.find("\r\n");
  while (at != head.npos) {
    std::string_view line = head.substr(at + 2);
    at = head.find("\r\n", at + 2);
    line = line.substr(0, line.find("\r\n"));
    const size_t colon = line.find(':');
    if (colon == line.npos ||
        !absl::EqualsIgnoreCase(Absl(line.substr(0, colon)), Absl(name))) {
      continue;
    }
    return std::string(
        absl::StripAsciiWhitespace(Absl(line.substr(colon + 1))));
  }
  return std::nullopt;
}

// How long a reply is that begins so; nullopt: as long as there comes more.
std::optional<size_t> SizeOf(std::string_view reply) {
  const size_t end = reply.find("\r\n\r\n");
  if (end == reply.npos) return std::nullopt;
  const std::optional<std::string> length =
      HeaderOf(reply.substr(0, end), "content-length");
  size_t size = 0;
  if (!length.has_value() || !absl::SimpleAtoi(*length, &size) ||
      size > kLongest) {
    return std::nullopt;
  }
  return end + 4 + size;
}

absl::StatusOr<std::string> Exchange::Receive(size_t most) {
  std::string reply;
  char piece[1 << 16];
  while (reply.size() < most) {
    const std::optional<size_t> size = SizeOf(reply);
    if (size.has_value() && reply.size() >= *size) break;
    const ssize_t got = recv(socket_.get(), piece, sizeof(piece), 0);
    if (got == 0) break;
    if (got > 0) {
      reply.append(piece, static_cast<size_t>(got));
    } else if (errno == EAGAIN) {
      RETURN_IF_ERROR(Await(POLLIN));
    } else if (errno != EINTR) {
      return Failed("receive", errno);
    }
  }
  return reply;
}

absl::StatusOr<HttpReply> ReplyOf(const std::string& text) {
  // "HTTP/1.1 200 OK"
  HttpReply reply;
  constexpr size_t kCode = 9;
  if (!absl::StartsWith(text, "HTTP/1.") || text.size() < kCode + 3 ||
      !absl::SimpleAtoi(text.substr(kCode, 3), &reply.status)) {
    return absl::DataLossError("what it answered is no HTTP");
  }
  const size_t end = text.find("\r\n\r\n");
  if (end == text.npos) {
    return absl::DataLossError("its answer ended early");
  }
  const std::string_view head = std::string_view(text).substr(0, end);
  if (!HeaderOf(head, "transfer-encoding").has_value() &&
      text.size() < kMaxReply) {
    reply.body = text.substr(end + 4);
  }
  return reply;
}

}  // namespace

std::string HttpUrl::authority() const {
  const bool brackets = host.find(':') != host.npos;
  return absl::StrCat(brackets ? "[" : "", host, brackets ? "]" : "", ":",
                      port);
}

std::string HttpUrl::shown() const {
  return absl::StrCat("http://", authority(), path);
}

absl::StatusOr<HttpUrl> ParseHttpUrl(std::string_view url,
                                     std::string_view port,
                                     std::string_view path) {
  constexpr std::string_view kScheme = "http://";
  const absl::Status wrong = absl::InvalidArgumentError(absl::StrCat(
      "expected http://HOST[:PORT][/PATH], got \"", Absl(url), "\""));
  if (!url.starts_with(kScheme)) return wrong;
  std::string_view rest = url.substr(kScheme.size());
  const size_t slash = rest.find('/');
  HttpUrl parsed;
  parsed.path = slash == rest.npos || slash + 1 == rest.size()
                    ? path
                    : rest.substr(slash);
  rest = rest.substr(0, slash);
  if (rest.starts_with('[')) {
    const size_t end = rest.find(']');
    if (end == rest.npos) return wrong;
    parsed.host = rest.substr(1, end - 1);
    rest = rest.substr(end + 1);
  } else {
    const size_t colon = rest.find(':');
    parsed.host = rest.substr(0, colon);
    rest = colon == rest.npos ? "" : rest.substr(colon);
  }
  parsed.port = port;
  if (!rest.empty()) {
    int number = 0;
    if (rest.front() != ':' ||
        !absl::SimpleAtoi(Absl(rest.substr(1)), &number) || number < 1 ||
        number > 65535) {
      return wrong;
    }
    parsed.port = rest.substr(1);
  }
  const auto is_bad = [](char c) { return c <= ' ' || c >= 0x7f || c == '@'; };
  if (parsed.host.empty() ||
      std::any_of(parsed.host.begin(), parsed.host.end(), is_bad) ||
      std::any_of(parsed.path.begin(), parsed.path.end(), is_bad)) {
    return wrong;
  }
  return parsed;
}

absl::StatusOr<std::string> HttpExchange(const HttpUrl& url,
                                         std::string_view head,
                                         std::string_view body, size_t most,
                                         absl::Duration limit,
                                         absl::FunctionRef<bool()> gives_up) {
  Exchange exchange(limit, gives_up);
  RETURN_IF_ERROR(exchange.Connect(url));
  RETURN_IF_ERROR(exchange.Send(head));
  RETURN_IF_ERROR(exchange.Send(body));
  return exchange.Receive(most);
}

absl::StatusOr<HttpReply> HttpPost(const HttpUrl& url,
                                   std::string_view content_type,
                                   std::string_view body, absl::Duration limit,
                                   absl::FunctionRef<bool()> gives_up) {
  const std::string head = absl::StrCat(
      "POST ", url.path, " HTTP/1.1\r\nHost: ", url.authority(),
      "\r\nUser-Agent: stokerd\r\nConnection: close\r\nContent-Type: ",
      Absl(content_type), "\r\nContent-Length: ", body.size(), "\r\n\r\n");
  ASSIGN_OR_RETURN(const std::string text,
                   HttpExchange(url, head, body, kMaxReply, limit, gives_up));
  return ReplyOf(text);
}

}  // namespace stoker
