#include "status/page_server.h"

#include <zlib.h>

#include <string_view>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "access/method.h"
#include "access/policy.h"
#include "base/absl_view.h"
#include "base/status_macros.h"
#include "wire/http_call.h"

namespace stoker {
namespace {

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

bool TakesGzip(const HttpHead& head) {
  const std::string* const accepted = head.Find("accept-encoding");
  return accepted != nullptr && absl::StrContains(*accepted, "gzip");
}

Page Line(const std::string& text) {
  return {"text/plain; charset=utf-8", text + "\n", ""};
}

HttpAnswer AnswerOf(const HttpHead& head, int status,
                    const std::string& headers, const Page& page) {
  HttpAnswer answer;
  answer.status = status;
  answer.content_type = page.content_type;
  answer.headers = absl::StrCat(
      "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n",
      headers);
  if (!page.security_policy.empty()) {
    absl::StrAppend(&answer.headers,
                    "Content-Security-Policy: ", page.security_policy, "\r\n");
  }
  const std::string packed = TakesGzip(head) ? Gzip(page.body) : std::string();
  if (!packed.empty()) {
    absl::StrAppend(&answer.headers, "Content-Encoding: gzip\r\n");
  }
  answer.body = ByteChain::Copy(packed.empty() ? page.body : packed);
  return answer;
}

std::string PathOf(const HttpHead& head) {
  return head.target.substr(0, head.target.find('?'));
}

HttpAnswer WrongMethod(const HttpHead& head, const char* allowed,
                       const char* expected) {
  return AnswerOf(head, 405, absl::StrCat("Allow: ", allowed, "\r\n"),
                  Line(absl::StrCat("expected ", expected, ", got ",
                                    absl::CHexEscape(head.method))));
}

HttpAnswer PageFor(const HttpHead& head, const Pages& pages) {
  const std::string path = PathOf(head);
  const auto page = pages.find(path);
  if (page == pages.end()) {
    constexpr size_t kShown = 100;
    return AnswerOf(
        head, 404, "",
        Line(absl::StrCat("expected ",
                          absl::StrJoin(pages, " or ",
                                        [](std::string* out, const auto& one) {
                                          out->append(one.first);
                                        }),
                          ", got ", absl::CHexEscape(path.substr(0, kShown)))));
  }
  if (head.method != "GET" && head.method != "HEAD") {
    return WrongMethod(head, "GET, HEAD", "GET or HEAD");
  }
  const Page made = page->second();
  return AnswerOf(head, made.status, "", made);
}

// Every page but health's is about all models. What is no page is asked about
// like the first.
absl::Status MayRead(HttpCall& call, Gate* gate) {
  if (gate == nullptr) return absl::OkStatus();
  const Method* page = FindMethod(PathOf(call.head()));
  if (page == nullptr || !page->is_page()) page = FindMethod("/");
  const Visitor visitor =
      gate->Admit(call.peer(), call.head().Find("authorization"));
  return gate->Check(
      visitor, *page,
      page->group == MethodGroup::kHealth ? Target::Server() : Target::Every());
}

HttpAnswer Refusal(const HttpHead& head, const absl::Status& why) {
  const Page page = Line(std::string(why.message()));
  if (absl::IsUnauthenticated(why)) {
    return AnswerOf(head, 401, "WWW-Authenticate: Bearer\r\n", page);
  }
  return AnswerOf(head, 403, "", page);
}

class PageHandler final : public HttpHandler {
 public:
  PageHandler(HttpCall& call, const Pages& pages, const LatePages& late_pages,
              Gate* gate)
      : call_(call), pages_(pages), late_pages_(late_pages), gate_(gate) {}

  // A body has no meaning here, and isn't read.
  void OnStart() override {
    const HttpHead& head = call_.head();
    if (const absl::Status may = MayRead(call_, gate_); !may.ok()) {
      return call_.Answer(Refusal(head, may));
    }
    const auto late = late_pages_.find(PathOf(head));
    if (late == late_pages_.end()) return call_.Answer(PageFor(head, pages_));
    if (head.method != "GET") {
      return call_.Answer(WrongMethod(head, "GET", "GET"));
    }
    const size_t query = head.target.find('?');
    late->second(
        query == std::string::npos ? "" : head.target.substr(query + 1),
        [call = call_.shared_from_this()](const Page& page) {
          call->Answer(AnswerOf(call->head(), page.status, "", page));
        });
  }
  CallStatus Reserve(size_t) override { return {}; }
  void OnBody(const ByteChain&) override {}
  void OnBadBody(const CallStatus&) override {}

 private:
  HttpCall& call_;
  const Pages& pages_;
  const LatePages& late_pages_;
  Gate* const gate_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<PageServer>> PageServer::Start(
    const PageServerOptions& options, Pages pages, LatePages late_pages,
    MetricRegistry& metrics, Clock& clock) {
  std::unique_ptr<PageServer> server(
      new PageServer(std::move(pages), std::move(late_pages)));
  WireOptions wire;
  wire.name = "pages";
  wire.passed = options.passed;
  wire.limits = options.limits;
  wire.counts_open = false;
  ASSIGN_OR_RETURN(server->wire_,
                   WireServer::Start(
                       wire, [](Call&) { return nullptr; }, metrics, clock));
  HttpOptions http;
  http.name = "metrics";
  http.address = options.address;
  http.tls = options.tls;
  http.make_handler = [&pages = server->pages_,
                       &late_pages = server->late_pages_,
                       gate = options.gate](HttpCall& call) {
    return std::make_unique<PageHandler>(call, pages, late_pages, gate);
  };
  ASSIGN_OR_RETURN(server->port_, server->wire_->ListenHttp(http));
  return server;
}

}  // namespace stoker
