// One request over HTTP/1.1: its head, its body, and the answer to it.
//
// Operations may be started from any thread; a handler's methods are called on
// the request's loop, one at a time, and never from within an operation.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "wire/byte_chain.h"
#include "wire/call.h"
#include "wire/peer.h"

namespace stoker {

struct HttpHead {
  std::string method;  // "GET"
  std::string target;  // as it was sent: "/v2/models/a%20b/infer?x=1"
  // Names in lower case, in the order in which they came.
  std::vector<std::pair<std::string, std::string>> headers;
  // Of the body as it comes; nullopt: it comes in chunks, or there is none.
  std::optional<size_t> content_length;
  bool chunked = false;

  // Null: there is none. The first of several.
  const std::string* Find(std::string_view name) const;
  bool has_body() const { return chunked || content_length.value_or(0) > 0; }
};

struct HttpAnswer {
  int status = 200;
  std::string content_type = "application/json";
  // Lines of other headers, each ended by "\r\n".
  std::string headers;
  ByteChain body;
};

// What is done with one request. It must answer it, once, also after OnCancel;
// the call owns it, and keeps it until the answer has been sent.
class HttpHandler {
 public:
  virtual ~HttpHandler() = default;

  // The head has arrived. Comes first, and may answer: then the body is not
  // read.
  virtual void OnStart() {}
  // The body takes that much memory, which is not taken yet: all of it when its
  // length is known, piece by piece when it comes in chunks or compressed. What
  // is returned otherwise than OK goes to OnBadBody.
  virtual CallStatus Reserve(size_t bytes) = 0;
  // The body, without its compression; an empty one where there is none.
  virtual void OnBody(const ByteChain& body) = 0;
  // There is no body: why. It answers with that.
  virtual void OnBadBody(const CallStatus& why) = 0;
  // The client has gone.
  virtual void OnCancel() {}
  // The server stops and waits for this request.
  virtual void OnStop() {}
};

class HttpCall : public std::enable_shared_from_this<HttpCall> {
 public:
  virtual ~HttpCall() = default;

  virtual const HttpHead& head() const = 0;
  // Who is at the other end. While its handler is made, or is told of the head
  // or the body.
  virtual std::shared_ptr<Peer> peer() = 0;
  // Of several, the first counts.
  virtual void Answer(const HttpAnswer& answer) = 0;
};

// The handler of a request that has just arrived; never null. On any loop.
using MakeHttpHandler =
    std::function<std::unique_ptr<HttpHandler>(HttpCall& call)>;

// {"error": "..."}, as a body.
ByteChain HttpErrorBody(std::string_view text);

}  // namespace stoker
