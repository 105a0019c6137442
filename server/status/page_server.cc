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

// Who scrapes needs one.
constexpr int kMaxConnections = 256;

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

HttpAnswer PageFor(const HttpHead& head, const Pages& pages) {
  const std::string path = head.target.substr(0, head.target.find('?'));
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
    return AnswerOf(head, 405, "Allow: GET, HEAD\r\n",
                    Line(absl::StrCat("expected GET or HEAD, got ",
                                      absl::CHexEscape(head.method))));
  }
  const Page made = page->second();
  return AnswerOf(head, made.status, "", made);
}

// Every page but health's is about all models. What is no page is asked about
// like the first.
absl::Status MayRead(HttpCall& call, Gate* gate) {
  if (gate == nullptr) return absl::OkStatus();
  const std::string path =
      call.head().target.substr(0, call.head().target.find('?'));
  const Method* page = FindMethod(path);
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
  PageHandler(HttpCall& call, const Pages& pages, Gate* gate)
      : call_(call), pages_(pages), gate_(gate) {}

  // A body has no meaning here, and isn't read.
  void OnStart() override {
    const absl::Status may = MayRead(call_, gate_);
    call_.Answer(may.ok() ? PageFor(call_.head(), pages_)
                          : Refusal(call_.head(), may));
  }
  CallStatus Reserve(size_t) override { return {}; }
  void OnBody(const ByteChain&) override {}
  void OnBadBody(const CallStatus&) override {}

 private:
  HttpCall& call_;
  const Pages& pages_;
  Gate* const gate_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<PageServer>> PageServer::Start(
    const std::string& address, Pages pages, TlsContext* tls, Gate* gate,
    Clock& clock) {
  std::unique_ptr<PageServer> server(new PageServer(std::move(pages)));
  WireOptions options;
  options.name = "pages";
  options.limits.max_connections = kMaxConnections;
  ASSIGN_OR_RETURN(server->wire_, WireServer::Start(
                                      options, [](Call&) { return nullptr; },
                                      server->metrics_, clock));
  HttpOptions http;
  http.name = "metrics";
  http.address = address;
  http.tls = tls;
  http.make_handler = [&pages = server->pages_, gate](HttpCall& call) {
    return std::make_unique<PageHandler>(call, pages, gate);
  };
  ASSIGN_OR_RETURN(server->port_, server->wire_->ListenHttp(http));
  return server;
}

}  // namespace stoker
