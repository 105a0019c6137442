// Reads requests of HTTP/1.1 from bytes as they come, by llhttp in its strict
// mode: what two servers might read differently is refused.
//
// Not thread-safe.
#pragma once

#include <llhttp.h>

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "wire/http_call.h"

namespace stoker {

// What is wrong with a request: the answer's status, and the text in it.
struct HttpFault {
  int status = 400;
  std::string text;
};

class HttpParser {
 public:
  // What is found in the bytes, while Read runs.
  class Events {
   public:
    // False: its body isn't wanted, and nothing more is read.
    virtual bool OnHead(HttpHead head) = 0;
    virtual bool OnBody(std::string_view bytes) = 0;
    virtual void OnEnd() = 0;

   protected:
    ~Events() = default;
  };

  // Of the request line, the headers, the trailers, and what stands beside the
  // sizes of chunks. `events` outlives it.
  HttpParser(size_t max_head_bytes, Events& events);
  HttpParser(const HttpParser&) = delete;
  HttpParser& operator=(const HttpParser&) = delete;

  // Reads to the end of one request, and no further: how many of the bytes it
  // took. Not after a fault, an end before Next, or an event that was false.
  size_t Read(std::string_view bytes);
  const std::optional<HttpFault>& fault() const { return fault_; }
  // The request is whole.
  bool at_end() const { return at_end_; }
  // Whether a request has begun and is not whole.
  bool in_request() const { return begun_ && !at_end_; }
  bool in_head() const { return begun_ && !head_done_; }
  // Whether another request may follow; once the head is there.
  bool keeps_alive() const { return keeps_alive_; }
  // Of the request, whose head is there.
  bool is_http_1_0() const { return parser_.http_minor == 0; }
  // Gets ready for the next one.
  void Next();

 private:
  static HttpParser& Of(llhttp_t* parser) {
    return *static_cast<HttpParser*>(parser->data);
  }
  static llhttp_settings_t MakeSettings();
  bool CountHead(size_t bytes);
  int Refuse(int status, std::string text);
  int OnText(std::string& text, std::string_view bytes);
  int OnHeaderEnd();
  int OnHeadersComplete();
  void SetFault();

  const size_t max_head_bytes_;
  Events& events_;
  llhttp_t parser_;
  HttpHead head_;
  std::string name_, value_;
  size_t head_bytes_ = 0;
  bool begun_ = false;
  bool head_done_ = false;
  bool at_end_ = false;
  bool keeps_alive_ = false;
  std::optional<HttpFault> fault_;
};

}  // namespace stoker
