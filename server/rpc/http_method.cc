#include "rpc/http_method.h"

#include <atomic>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rpc/http_answer.h"
#include "rpc/status_mapping.h"

namespace stoker {
namespace {

// What is read on a loop in less than a millisecond; no request for these
// methods needs more.
constexpr size_t kMaxBody = 64 << 10;
// A compressed body takes its own size first, and a step more than it needs.
constexpr size_t kTimesTaken = 3;
// Of a large body, in memory at a time: as it came, as its JSON was read, and
// as the message that is made of it.
constexpr size_t kCopies = 4;

}  // namespace

// What gRPC's handler takes for its call.
class HttpMethod::MethodCall final : public Call {
 public:
  MethodCall(HttpCall& http, std::string method, Translate translate)
      : http_(http),
        method_(std::move(method)),
        translate_(std::move(translate)),
        peer_(http.peer()) {}

  const std::string& method() const override { return method_; }
  MonotonicTime deadline() const override {
    return MonotonicTime::InfiniteFuture();
  }
  const std::string* FindHeader(std::string_view name) const override {
    return http_.head().Find(name);
  }
  std::shared_ptr<Peer> peer() override { return peer_; }
  // The message is brought when it is there.
  void Read() override {}
  void ReadSoon() override {}
  // No method of one answer writes another.
  void Write(const ByteChain&) override {}
  void Finish(const CallStatus& status) override {
    answered_ = true;
    const auto keep = http_.shared_from_this();
    http_.Answer(ErrorAnswer(status));
  }
  void Answer(const ByteChain& message) override {
    answered_ = true;
    const auto keep = http_.shared_from_this();
    http_.Answer(translate_(message.Joined()));
  }
  bool answered() const { return answered_; }

 private:
  HttpCall& http_;  // lives until it is answered
  const std::string method_;
  const Translate translate_;
  const std::shared_ptr<Peer> peer_;
  std::atomic<bool> answered_ = false;
};

HttpMethod::HttpMethod(HttpCall& http, const MethodTable& methods,
                       std::string method, Request request, Translate translate,
                       const Large* large)
    : http_(http),
      methods_(methods),
      request_(std::move(request)),
      large_(large),
      ticket_(large == nullptr
                  ? nullptr
                  : std::make_unique<Admission::Ticket>(large->admission)),
      call_(std::make_shared<MethodCall>(http, std::move(method),
                                         std::move(translate))) {}

HttpMethod::~HttpMethod() = default;

size_t HttpMethod::max_body() const {
  return large_ == nullptr ? kMaxBody : large_->max_bytes;
}

void HttpMethod::OnStart() {
  const absl::MutexLock lock(&mu_);
  handler_ = methods_.NewHandler(*call_);
  handler_->OnStart();
}

CallStatus HttpMethod::Reserve(size_t bytes) {
  reserved_ += bytes;
  if (reserved_ > kTimesTaken * max_body()) return TooLarge(reserved_);
  if (ticket_ == nullptr || reserved_ <= kTimesTaken * kMaxBody) return {};
  return ToCallStatus(ticket_->TakeIdle(
      Admission::Idle::kMessages, kCopies * reserved_ - ticket_->bytes()));
}

void HttpMethod::OnBody(const ByteChain& body) {
  if (body.size() > max_body()) return OnBadBody(TooLarge(body.size()));
  if (body.size() <= kMaxBody) return Proceed(body.Joined());
  ticket_->Busy();
  large_->thread.Run([this, keep = http_.shared_from_this(),
                      body = ByteChain(body)]() mutable {
    Proceed(std::exchange(body, {}).Joined());
    ticket_.reset();
  });
}

void HttpMethod::Proceed(const std::string& body) {
  const absl::StatusOr<std::string> request = request_(body);
  if (!request.ok()) return OnBadBody(ToCallStatus(request.status()));
  const absl::MutexLock lock(&mu_);
  if (call_->answered()) return;
  const CallStatus reserved = handler_->Reserve(request->size());
  if (!reserved.ok()) return OnBadBody(reserved);
  handler_->OnMessage(ByteChain::Copy(*request));
}

CallStatus HttpMethod::TooLarge(size_t bytes) const {
  return {absl::StatusCode::kResourceExhausted,
          absl::StrCat("expected a body of at most ", max_body(),
                       " bytes, got ", bytes),
          ""};
}

void HttpMethod::OnBadBody(const CallStatus& why) {
  HttpAnswer answer = ErrorAnswer(why);
  if (why.code == absl::StatusCode::kDeadlineExceeded) answer.status = 408;
  http_.Answer(answer);
}

void HttpMethod::OnCancel() {
  const absl::MutexLock lock(&mu_);
  handler_->OnCancel();
}

void HttpMethod::OnStop() {
  const absl::MutexLock lock(&mu_);
  handler_->OnStop();
}

}  // namespace stoker
