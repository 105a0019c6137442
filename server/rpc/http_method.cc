#include "rpc/http_method.h"

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

}  // namespace

// What gRPC's handler takes for its call.
class HttpMethod::MethodCall final : public Call {
 public:
  MethodCall(HttpCall& http, std::string method, Translate translate)
      : http_(http),
        method_(std::move(method)),
        translate_(std::move(translate)) {}

  const std::string& method() const override { return method_; }
  MonotonicTime deadline() const override {
    return MonotonicTime::InfiniteFuture();
  }
  const std::string* FindHeader(std::string_view name) const override {
    return http_.head().Find(name);
  }
  std::shared_ptr<Peer> peer() override { return http_.peer(); }
  // The message is brought when it is there.
  void Read() override {}
  void ReadSoon() override {}
  // No method of one answer writes another.
  void Write(const ByteChain&) override {}
  void Finish(const CallStatus& status) override {
    const auto keep = http_.shared_from_this();
    http_.Answer(ErrorAnswer(status));
  }
  void Answer(const ByteChain& message) override {
    const auto keep = http_.shared_from_this();
    http_.Answer(translate_(message.Joined()));
  }

 private:
  HttpCall& http_;  // lives until it is answered
  const std::string method_;
  const Translate translate_;
};

HttpMethod::HttpMethod(HttpCall& http, const MethodTable& methods,
                       std::string method, Request request, Translate translate)
    : http_(http),
      methods_(methods),
      request_(std::move(request)),
      call_(std::make_shared<MethodCall>(http, std::move(method),
                                         std::move(translate))) {}

HttpMethod::~HttpMethod() = default;

CallStatus HttpMethod::Reserve(size_t bytes) {
  reserved_ += bytes;
  if (reserved_ <= kTimesTaken * kMaxBody) return {};
  return {absl::StatusCode::kResourceExhausted,
          absl::StrCat("expected a body of at most ", kMaxBody, " bytes, got ",
                       reserved_),
          ""};
}

void HttpMethod::OnBody(const ByteChain& body) {
  if (body.size() > kMaxBody) {
    return OnBadBody({absl::StatusCode::kResourceExhausted,
                      absl::StrCat("expected a body of at most ", kMaxBody,
                                   " bytes, got ", body.size()),
                      ""});
  }
  const absl::StatusOr<std::string> request = request_(body.Joined());
  if (!request.ok()) return OnBadBody(ToCallStatus(request.status()));
  handler_ = methods_.NewHandler(*call_);
  handler_->OnStart();
  handler_->OnMessage(ByteChain::Copy(*request));
}

void HttpMethod::OnBadBody(const CallStatus& why) {
  HttpAnswer answer = ErrorAnswer(why);
  if (why.code == absl::StatusCode::kDeadlineExceeded) answer.status = 408;
  http_.Answer(answer);
}

void HttpMethod::OnCancel() {
  if (handler_ != nullptr) handler_->OnCancel();
}

void HttpMethod::OnStop() {
  if (handler_ != nullptr) handler_->OnStop();
}

}  // namespace stoker
