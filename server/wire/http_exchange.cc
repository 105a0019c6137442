#include "wire/http_exchange.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/absl_view.h"
#include "wire/http_connection.h"
#include "wire/loop.h"

namespace stoker {
namespace {

enum class Coding { kIdentity, kDeflate, kGzip, kUnknown };

Coding CodingOf(const HttpHead& head) {
  const std::string* const name = head.Find("content-encoding");
  if (name == nullptr || absl::EqualsIgnoreCase(*name, "identity")) {
    return Coding::kIdentity;
  }
  if (absl::EqualsIgnoreCase(*name, "gzip")) return Coding::kGzip;
  if (absl::EqualsIgnoreCase(*name, "deflate")) return Coding::kDeflate;
  return Coding::kUnknown;
}

Encoding EncodingOf(const HttpHead& head) {
  switch (CodingOf(head)) {
    case Coding::kGzip:
      return Encoding::kGzip;
    case Coding::kDeflate:
      return Encoding::kDeflate;
    case Coding::kIdentity:
    case Coding::kUnknown:
      break;
  }
  return Encoding::kIdentity;
}

std::optional<size_t> LengthOf(const HttpHead& head) {
  if (head.chunked) return std::nullopt;
  return head.content_length.value_or(0);
}

}  // namespace

HttpExchange::HttpExchange(WireLoop& loop, HttpConnection& connection,
                           HttpHead head)
    : loop_(loop),
      connection_(&connection),
      head_(std::move(head)),
      body_(loop.limits().max_message_bytes, EncodingOf(head_),
            LengthOf(head_)),
      arriving_(loop.limits().stall_limit, loop.limits().progress_bytes) {
  loop_.CountAwaited();
}

HttpExchange::~HttpExchange() {
  // It may hold what its own end gives back.
  handler_.reset();
  loop_.CountOff();
}

std::shared_ptr<Peer> HttpExchange::peer() {
  return connection_ != nullptr ? connection_->peer()
                                : std::make_shared<Peer>();
}

bool HttpExchange::Begin(const MakeHttpHandler& make_handler) {
  self_ = std::static_pointer_cast<HttpExchange>(shared_from_this());
  handler_ = make_handler(*this);
  handler_->OnStart();
  if (answered_) return !head_.has_body();
  if (loop_.draining()) Stop();
  if (CodingOf(head_) == Coding::kUnknown) {
    Refuse({absl::StatusCode::kInvalidArgument,
            "expected Content-Encoding identity, deflate or gzip", ""});
    return !head_.has_body();
  }
  if (!head_.has_body()) return true;
  const CallStatus bad =
      body_.Begin([this](size_t size) { return ReserveFor(size); });
  if (!bad.ok()) {
    Refuse(bad);
    return false;
  }
  arriving_.Begin(loop_.now());
  return true;
}

bool HttpExchange::OnBody(std::string_view bytes) {
  if (answered_) return false;
  arriving_.Add(bytes.size(), loop_.now());
  const CallStatus bad =
      body_.Add(bytes, [this](size_t size) { return ReserveFor(size); });
  if (bad.ok()) return true;
  Refuse(bad);
  return false;
}

void HttpExchange::OnEnd() {
  arrived_ = true;
  arriving_.End();
  if (answered_) return;
  const CallStatus bad =
      body_.End([this](size_t size) { return ReserveFor(size); });
  if (!bad.ok()) return Refuse(bad);
  if (!body_.inflating()) GiveBody();
}

bool HttpExchange::Step() {
  if (answered_ || !arrived_ || !body_.inflating()) return false;
  const CallStatus bad =
      body_.Step([this](size_t size) { return ReserveFor(size); });
  if (!bad.ok()) {
    Refuse(bad);
    return false;
  }
  if (body_.inflating()) return true;
  GiveBody();
  return false;
}

void HttpExchange::GiveBody() {
  given_ = true;
  handler_->OnBody(body_.Take());
}

void HttpExchange::Refuse(const CallStatus& why) {
  arriving_.End();
  if (why.too_long) loop_.metrics().Count(CallEnd::kTooLong);
  handler_->OnBadBody(why);
}

void HttpExchange::Tick(MonotonicTime now) {
  if (!arriving_.Stalled(now) || answered_) return;
  loop_.CountStall();
  Refuse({absl::StatusCode::kDeadlineExceeded,
          absl::StrCat("expected a whole request within ",
                       absl::FormatDuration(loop_.limits().stall_limit)),
          ""});
}

void HttpExchange::Stop() {
  if (!answered_) handler_->OnStop();
}

void HttpExchange::OnClosed() {
  connection_ = nullptr;
  arriving_.End();
  if (answered_) return;
  loop_.Run([self = self_] {
    if (!self->answering_.load()) self->handler_->OnCancel();
    // Nobody will bring it a body any more.
    if (!self->given_ && !self->answering_.load()) {
      self->handler_->OnBadBody(
          {absl::StatusCode::kCancelled, "the client has gone", ""});
    }
  });
}

void HttpExchange::Answer(const HttpAnswer& answer) {
  if (answering_.exchange(true)) return;
  if (loop_.OnThread()) return StartAnswer(answer);
  loop_.Run([keep = shared_from_this(), this, answer] { StartAnswer(answer); });
}

void HttpExchange::StartAnswer(const HttpAnswer& answer) {
  answered_ = true;
  arriving_.End();
  std::shared_ptr<HttpExchange> keep = std::move(self_);
  if (connection_ != nullptr) return connection_->Send(*this, answer);
  // This may be its end, and its handler's method may be running.
  loop_.Run([keep = std::move(keep)] {});
}

}  // namespace stoker
