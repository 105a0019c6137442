#include "metrics/page_server.h"

#include <civetweb.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zlib.h>

#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/absl_view.h"
#include "base/clock.h"
#include "base/status_macros.h"

namespace stoker {

namespace {

// "127.0.0.1" of "127.0.0.1:0", "::1" of "[::1]:0", "" of "0".
std::string HostOf(const std::string& address) {
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos) return "";
  std::string host = address.substr(0, colon);
  if (host.size() >= 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  return host;
}

// Opens a connection and closes it again.
void Knock(const std::string& host, int port) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.empty() ? nullptr : host.c_str(),
                  absl::StrCat(port).c_str(), &hints, &found) != 0) {
    return;
  }
  const int fd = socket(found->ai_family, SOCK_STREAM | SOCK_NONBLOCK, 0);
  if (fd >= 0) {
    // The outcome is irrelevant: a connection in progress wakes the listener
    // too.
    (void)connect(fd, found->ai_addr, found->ai_addrlen);
    close(fd);
  }
  freeaddrinfo(found);
}

// The first thing that civetweb complains of while it starts; what follows
// names no reason. Its own threads have no such place, and nobody hears them.
thread_local std::string* complaint = nullptr;
int HearComplaint(const mg_connection*, const char* text) {
  if (complaint != nullptr && complaint->empty()) *complaint = text;
  return 1;
}

// One whole gzip member; empty when zlib has no memory for it.
std::string Gzip(const std::string& text) {
  constexpr int kGzipHeader = 16;
  constexpr int kMemoryLevel = 8;  // zlib's default
  z_stream stream{};
  if (deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED,
                   MAX_WBITS + kGzipHeader, kMemoryLevel,
                   Z_DEFAULT_STRATEGY) != Z_OK) {
    return "";
  }
  std::string packed(deflateBound(&stream, text.size()), '\0');
  stream.next_in =
      reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));  // only read
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  const bool whole = deflate(&stream, Z_FINISH) == Z_STREAM_END;
  packed.resize(whole ? stream.total_out : 0);
  deflateEnd(&stream);
  return packed;
}

bool TakesGzip(mg_connection* connection) {
  const char* accepted = mg_get_header(connection, "Accept-Encoding");
  return accepted != nullptr && absl::StrContains(accepted, "gzip");
}

Page Line(const std::string& text) {
  return {"text/plain; charset=utf-8", text + "\n", ""};
}

// `headers`: lines, each ended.
int Send(mg_connection* connection, int code, std::string_view reason,
         const std::string& headers, const Page& page) {
  std::string head = absl::StrCat(
      "HTTP/1.1 ", code, " ", Absl(reason),
      "\r\nContent-Type: ", page.content_type,
      "\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n",
      "Connection: close\r\n", headers);
  if (!page.security_policy.empty()) {
    absl::StrAppend(&head, "Content-Security-Policy: ", page.security_policy,
                    "\r\n");
  }
  const std::string packed =
      TakesGzip(connection) ? Gzip(page.body) : std::string();
  if (!packed.empty()) absl::StrAppend(&head, "Content-Encoding: gzip\r\n");
  const std::string& body = packed.empty() ? page.body : packed;
  absl::StrAppend(&head, "Content-Length: ", body.size(), "\r\n\r\n");
  mg_write(connection, head.data(), head.size());
  const std::string_view method =
      mg_get_request_info(connection)->request_method;
  if (method != "HEAD") mg_write(connection, body.data(), body.size());
  return code;
}

}  // namespace

absl::StatusOr<std::unique_ptr<PageServer>> PageServer::Start(
    const std::string& address, Pages pages) {
  std::unique_ptr<PageServer> server(new PageServer(std::move(pages)));
  RETURN_IF_ERROR(server->Listen(address));
  return server;
}

absl::Status PageServer::Listen(const std::string& address) {
  const auto failed = [&](const std::string& why) {
    return absl::UnavailableError(
        absl::StrCat("can't serve metrics at ", address, ": ", why));
  };
  host_ = HostOf(address);
  const char* options[] = {"listening_ports", address.c_str(), "num_threads",
                           "2", nullptr};
  mg_callbacks callbacks{};
  callbacks.begin_request = &PageServer::OnRequest;
  callbacks.log_message = &HearComplaint;
  std::string why;
  complaint = &why;
  server_ = mg_start(&callbacks, this, options);
  complaint = nullptr;
  if (server_ == nullptr) return failed(why);
  mg_server_port port{};
  if (mg_get_server_ports(server_, 1, &port) < 1) {
    return failed("no port is open");
  }
  port_ = port.port;
  return absl::OkStatus();
}

// civetweb's listener looks at its stop flag after each connection, or after
// two seconds without one. Knocking ends that wait.
PageServer::~PageServer() {
  if (server_ == nullptr) return;
  absl::Mutex mu;
  bool stopped = false;
  Clock& clock = Clock::Real();
  std::thread knocking([&] {
    absl::MutexLock lock(&mu);
    do {
      Knock(host_, port_);
    } while (!clock.AwaitWithDeadline(&mu, absl::Condition(&stopped),
                                      clock.Now() + absl::Milliseconds(5)));
  });
  mg_stop(server_);
  {
    absl::MutexLock lock(&mu);
    stopped = true;
  }
  knocking.join();
}

int PageServer::OnRequest(mg_connection* connection) {
  const void* self = mg_get_request_info(connection)->user_data;
  return static_cast<const PageServer*>(self)->Answer(connection);
}

int PageServer::Answer(mg_connection* connection) const {
  const mg_request_info& request = *mg_get_request_info(connection);
  // Null for what names no path, such as "OPTIONS *".
  const std::string path =
      request.local_uri != nullptr ? request.local_uri : request.request_uri;
  const auto page = pages_.find(path);
  if (page == pages_.end()) {
    constexpr size_t kShown = 100;
    return Send(
        connection, 404, "Not Found", "",
        Line(absl::StrCat("expected ",
                          absl::StrJoin(pages_, " or ",
                                        [](std::string* out, const auto& one) {
                                          out->append(one.first);
                                        }),
                          ", got ", absl::CHexEscape(path.substr(0, kShown)))));
  }
  const std::string_view method = request.request_method;
  if (method != "GET" && method != "HEAD") {
    return Send(connection, 405, "Method Not Allowed", "Allow: GET, HEAD\r\n",
                Line(absl::StrCat("expected GET or HEAD, got ",
                                  absl::CHexEscape(Absl(method)))));
  }
  return Send(connection, 200, "OK", "", page->second());
}

}  // namespace stoker
