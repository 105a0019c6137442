// A page that a browser or a scraper reads. A plain value.
#pragma once

#include <functional>
#include <map>
#include <string>

namespace stoker {

struct Page {
  std::string content_type;
  std::string body;
  // What a browser may load and run for this page; empty: no such header.
  std::string security_policy;
  int status = 200;
};

// What makes a page anew for each request, by path ("/metrics"). Called from
// the server's thread, one at a time.
using Pages = std::map<std::string, std::function<Page()>>;

// The same of pages that take a while, which only GET asks for. `query` is what
// stands behind the path's "?". `done` is called once with the page, on any
// thread, and let go of before the server ends.
using LatePages =
    std::map<std::string, std::function<void(const std::string& query,
                                             std::function<void(Page)> done)>>;

}  // namespace stoker
