#include "wire/http_parser.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/json_text.h"
#include "nlohmann/json.hpp"

namespace stoker {
namespace {

// Of each header, so that many short ones count as much as they take.
constexpr size_t kOverheadOfHeader = 32;

// llhttp hands out a callback's bytes as they lie.
std::string_view BytesAt(const char* at, size_t size) { return {at, size}; }

}  // namespace

const std::string* HttpHead::Find(std::string_view name) const {
  const auto found =
      std::find_if(headers.begin(), headers.end(),
                   [&](const auto& header) { return header.first == name; });
  return found == headers.end() ? nullptr : &found->second;
}

ByteChain HttpErrorBody(std::string_view text) {
  return ByteChain::Copy(
      JsonText(nlohmann::json{{"error", std::string(text)}}));
}

llhttp_settings_t HttpParser::MakeSettings() {
  llhttp_settings_t made;
  llhttp_settings_init(&made);
  made.on_message_begin = [](llhttp_t* parser) {
    Of(parser).begun_ = true;
    return 0;
  };
  made.on_url = [](llhttp_t* parser, const char* at, size_t size) {
    HttpParser& self = Of(parser);
    return self.OnText(self.head_.target, BytesAt(at, size));
  };
  made.on_header_field = [](llhttp_t* parser, const char* at, size_t size) {
    HttpParser& self = Of(parser);
    return self.OnText(self.name_, BytesAt(at, size));
  };
  made.on_header_value = [](llhttp_t* parser, const char* at, size_t size) {
    HttpParser& self = Of(parser);
    return self.OnText(self.value_, BytesAt(at, size));
  };
  made.on_header_value_complete = [](llhttp_t* parser) {
    return Of(parser).OnHeaderEnd();
  };
  made.on_chunk_extension_name = [](llhttp_t* parser, const char*,
                                    size_t size) {
    return Of(parser).CountHead(size) ? 0 : -1;
  };
  made.on_chunk_extension_value = made.on_chunk_extension_name;
  made.on_headers_complete = [](llhttp_t* parser) {
    return Of(parser).OnHeadersComplete();
  };
  made.on_body = [](llhttp_t* parser, const char* at, size_t size) {
    const bool more = Of(parser).events_.OnBody(BytesAt(at, size));
    return more ? 0 : int{HPE_PAUSED};
  };
  made.on_message_complete = [](llhttp_t* parser) {
    HttpParser& self = Of(parser);
    self.at_end_ = true;
    self.events_.OnEnd();
    return int{HPE_PAUSED};
  };
  return made;
}

HttpParser::HttpParser(size_t max_head_bytes, Events& events)
    : max_head_bytes_(max_head_bytes), events_(events) {
  static const llhttp_settings_t settings = MakeSettings();
  llhttp_init(&parser_, HTTP_REQUEST, &settings);
  parser_.data = this;
}

size_t HttpParser::Read(std::string_view bytes) {
  const llhttp_errno_t outcome =
      llhttp_execute(&parser_, bytes.data(), bytes.size());
  if (outcome == HPE_OK) return bytes.size();
  const char* const stopped = llhttp_get_error_pos(&parser_);
  if (outcome != HPE_PAUSED) SetFault();
  if (stopped == nullptr) return bytes.size();
  return std::min(bytes.size(), static_cast<size_t>(stopped - bytes.data()));
}

void HttpParser::Next() {
  llhttp_resume(&parser_);
  head_ = HttpHead();
  head_bytes_ = 0;
  begun_ = head_done_ = at_end_ = keeps_alive_ = false;
}

int HttpParser::Refuse(int status, std::string text) {
  fault_ = HttpFault{status, std::move(text)};
  return -1;
}

void HttpParser::SetFault() {
  if (fault_.has_value()) return;
  const llhttp_errno_t error = llhttp_get_errno(&parser_);
  if (error == HPE_PAUSED_H2_UPGRADE) {
    fault_ = HttpFault{400, "this port speaks HTTP/1.1, not HTTP/2"};
    return;
  }
  // llhttp says so of a line's end behind a good version, too.
  const absl::string_view reason = llhttp_get_error_reason(&parser_);
  fault_ = HttpFault{
      absl::StartsWith(reason, "Invalid HTTP version") ? 505 : 400,
      absl::StrCat("expected a request of HTTP/1.1, got one with ", reason)};
}

bool HttpParser::CountHead(size_t bytes) {
  head_bytes_ += bytes;
  if (head_bytes_ <= max_head_bytes_) return true;
  Refuse(431, absl::StrCat("expected at most ", max_head_bytes_,
                           " bytes of headers, got more"));
  return false;
}

int HttpParser::OnText(std::string& text, std::string_view bytes) {
  if (!CountHead(bytes.size())) return -1;
  text.append(bytes);
  return 0;
}

int HttpParser::OnHeaderEnd() {
  if (!CountHead(kOverheadOfHeader)) return -1;
  // Trailers say nothing that is asked for.
  if (!head_done_) {
    absl::AsciiStrToLower(&name_);
    head_.headers.emplace_back(std::move(name_), std::move(value_));
  }
  name_.clear();
  value_.clear();
  return 0;
}

int HttpParser::OnHeadersComplete() {
  head_done_ = true;
  keeps_alive_ = llhttp_should_keep_alive(&parser_) != 0;
  // What a client would like to speak instead is passed over.
  parser_.upgrade = 0;
  if (parser_.http_major != 1) {
    return Refuse(505, "expected HTTP/1.1 or HTTP/1.0");
  }
  const auto hosts =
      std::count_if(head_.headers.begin(), head_.headers.end(),
                    [](const auto& header) { return header.first == "host"; });
  if (hosts > 1 || (hosts == 0 && parser_.http_minor > 0)) {
    return Refuse(400, absl::StrCat("expected one Host header, got ", hosts));
  }
  head_.method =
      llhttp_method_name(static_cast<llhttp_method_t>(parser_.method));
  head_.chunked = (parser_.flags & F_CHUNKED) != 0;
  if ((parser_.flags & F_CONTENT_LENGTH) != 0) {
    head_.content_length = parser_.content_length;
  }
  if (head_.method == "CONNECT") {
    return Refuse(405, "CONNECT is not offered");
  }
  // llhttp has seen that chunks come last; here they are all that may come.
  if (const std::string* coding = head_.Find("transfer-encoding")) {
    if (!absl::EqualsIgnoreCase(*coding, "chunked")) {
      return Refuse(501, "expected Transfer-Encoding chunked or none");
    }
    if (parser_.http_minor == 0) {
      return Refuse(400, "got Transfer-Encoding in a request of HTTP/1.0");
    }
  }
  return events_.OnHead(std::move(head_)) ? 0 : int{HPE_PAUSED};
}

}  // namespace stoker
