// The HTTP endpoint of the pages that people and scrapers read. Nothing can be
// changed through it.
//
// Thread-safe.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "absl/status/statusor.h"

struct mg_connection;
struct mg_context;

namespace stoker {

struct Page {
  std::string content_type;
  std::string body;
  // What a browser may load and run for this page; empty: no such header.
  std::string security_policy;
};

// What makes a page anew for each request, by path ("/metrics"). Called from
// the server's threads, two at a time.
using Pages = std::map<std::string, std::function<Page()>>;

class PageServer {
 public:
  // Answers GET and HEAD of these paths on "host:port" (port 0: any); others
  // get 404 and 405 with a line of text. UNAVAILABLE, with the address, when it
  // can't be bound.
  static absl::StatusOr<std::unique_ptr<PageServer>> Start(
      const std::string& address, Pages pages);
  // Returns when no page is being made or sent any more.
  ~PageServer();

  int port() const { return port_; }

 private:
  explicit PageServer(Pages pages) : pages_(std::move(pages)) {}
  absl::Status Listen(const std::string& address);
  static int OnRequest(mg_connection* connection);
  int Answer(mg_connection* connection) const;

  const Pages pages_;
  std::string host_;
  int port_ = 0;
  mg_context* server_ = nullptr;
};

}  // namespace stoker
