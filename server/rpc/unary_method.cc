#include "rpc/unary_method.h"

#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "rpc/status_mapping.h"

namespace stoker {
namespace {

using Answer = std::function<absl::StatusOr<ByteChain>(const ByteChain&)>;

// A compressed message takes its own size first, and a step more than it needs.
constexpr size_t kTimesReserved = 3;

class UnaryHandler final : public CallHandler {
 public:
  UnaryHandler(Call& call, const Answer& answer)
      : call_(call), answer_(answer) {}

  void OnStart() override { call_.ReadSoon(); }

  // A compressed one comes in pieces, and each is told of.
  CallStatus Reserve(size_t bytes) override {
    reserved_ += bytes;
    return SmallMessage(reserved_ / kTimesReserved);
  }

  void OnMessage(const ByteChain& message) override {
    const absl::StatusOr<ByteChain> answer = answer_(message);
    if (answer.ok()) {
      call_.Answer(*answer);
    } else {
      call_.Finish(ToCallStatus(answer.status()));
    }
  }

  void OnEndOfMessages() override { call_.Finish(NoMessageStatus()); }

 private:
  Call& call_;
  const Answer& answer_;
  size_t reserved_ = 0;
};

absl::Status TooLarge(size_t most, size_t bytes) {
  return absl::InvalidArgumentError(absl::StrCat(
      "expected a message of at most ", most, " bytes, got ", bytes));
}

// The call of an answer that is still to come. It is let go of when the call
// ends, which may be before: a server that stops waits for its calls.
class Unanswered {
 public:
  void Hold(std::shared_ptr<Call> call) ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    call_ = std::move(call);
  }
  // Null once it was let go of.
  std::shared_ptr<Call> LetGo() ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    return std::exchange(call_, nullptr);
  }

 private:
  absl::Mutex mu_;
  std::shared_ptr<Call> call_ ABSL_GUARDED_BY(mu_);
};

// A call that is answered later, by whatever Begin begins.
class LaterHandler : public CallHandler {
 public:
  explicit LaterHandler(Call& call) : call_(call) {}

  void OnStart() override { call_.ReadSoon(); }
  void OnMessage(const ByteChain& message) override {
    unanswered_->Hold(call_.shared_from_this());
    Begin(message,
          [unanswered = unanswered_](const absl::StatusOr<ByteChain>& answer) {
            const std::shared_ptr<Call> call = unanswered->LetGo();
            if (call == nullptr) return;
            if (answer.ok()) {
              call->Answer(*answer);
            } else {
              call->Finish(ToCallStatus(answer.status()));
            }
          });
  }

  void OnEndOfMessages() override { call_.Finish(NoMessageStatus()); }
  void OnCancel() override { End(absl::CancelledError("the client has gone")); }
  void OnStop() override { End(absl::UnavailableError("Server exiting")); }

 private:
  virtual void Begin(const ByteChain& message, const AnswerLater& answer) = 0;

  void End(const absl::Status& status) {
    const std::shared_ptr<Call> held = unanswered_->LetGo();
    call_.Finish(ToCallStatus(status));
  }

  Call& call_;
  const std::shared_ptr<Unanswered> unanswered_ =
      std::make_shared<Unanswered>();
};

class SmallLaterHandler final : public LaterHandler {
 public:
  using BeginSmall = std::function<void(const ByteChain&, AnswerLater)>;
  SmallLaterHandler(Call& call, const BeginSmall& begin)
      : LaterHandler(call), begin_(begin) {}

  CallStatus Reserve(size_t bytes) override {
    reserved_ += bytes;
    return SmallMessage(reserved_ / kTimesReserved);
  }

 private:
  void Begin(const ByteChain& message, const AnswerLater& answer) override {
    begin_(message, answer);
  }

  const BeginSmall& begin_;
  size_t reserved_ = 0;
};

struct LargeMethod {
  Admission& admission;
  const size_t max_bytes;
  const std::function<void(const ByteChain&, HeldMemory, AnswerLater)> begin;
};

class LargeLaterHandler final : public LaterHandler {
 public:
  LargeLaterHandler(Call& call, const LargeMethod& method)
      : LaterHandler(call),
        method_(method),
        ticket_(std::make_shared<Admission::Ticket>(method.admission)) {}

  CallStatus Reserve(size_t bytes) override {
    constexpr size_t kCopies = 2;
    if (ticket_ == nullptr) {
      return ToCallStatus(
          absl::InvalidArgumentError("expected one message, got another"));
    }
    reserved_ += bytes;
    if (reserved_ / kTimesReserved > method_.max_bytes) {
      return ToCallStatus(TooLarge(method_.max_bytes, reserved_));
    }
    if (reserved_ <= kSmallMessageBytes) return {};  // as any other method's
    return ToCallStatus(ticket_->TakeIdle(
        Admission::Idle::kMessages, kCopies * reserved_ - ticket_->bytes()));
  }

 private:
  void Begin(const ByteChain& message, const AnswerLater& answer) override {
    ticket_->Busy();
    HeldMemory memory = std::exchange(ticket_, nullptr);
    if (message.size() > method_.max_bytes) {
      return answer(TooLarge(method_.max_bytes, message.size()));
    }
    method_.begin(message, std::move(memory), answer);
  }

  const LargeMethod& method_;
  std::shared_ptr<Admission::Ticket> ticket_;  // null: it was handed on
  size_t reserved_ = 0;
};

}  // namespace

CallStatus SmallMessage(size_t bytes) {
  if (bytes <= kSmallMessageBytes) return {};
  return ToCallStatus(TooLarge(kSmallMessageBytes, bytes));
}

absl::Status ParseMessage(const ByteChain& bytes,
                          google::protobuf::Message& message) {
  const size_t size = bytes.size();
  if (size > kSmallMessageBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected at most ", kSmallMessageBytes, " bytes of ",
                     message.GetTypeName(), ", got ", size));
  }
  const MessageBytes slices(bytes);
  MessageStream stream(slices, 0, size);
  if (message.ParseFromBoundedZeroCopyStream(&stream, static_cast<int>(size))) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("expected a serialised ", message.GetTypeName(), ", got ",
                   size, " bytes that are none"));
}

ByteChain SerialisedMessage(const google::protobuf::Message& message) {
  return ByteChain::Copy(message.SerializeAsString());
}

void AddUnaryBytes(MethodTable& methods, const std::string& path,
                   Answer answer) {
  // The table owns the function and outlives the calls.
  methods.Add(path, [answer = std::move(answer)](Call& call) {
    return std::make_unique<UnaryHandler>(call, answer);
  });
}

void AddUnaryLater(MethodTable& methods, const std::string& path,
                   std::function<void(const ByteChain&, AnswerLater)> begin) {
  methods.Add(path, [begin = std::move(begin)](Call& call) {
    return std::make_unique<SmallLaterHandler>(call, begin);
  });
}

void AddLargeUnaryLater(
    MethodTable& methods, const std::string& path, Admission& admission,
    size_t max_bytes,
    std::function<void(const ByteChain&, HeldMemory, AnswerLater)> begin) {
  methods.Add(path, [method = LargeMethod{admission, max_bytes,
                                          std::move(begin)}](Call& call) {
    return std::make_unique<LargeLaterHandler>(call, method);
  });
}

}  // namespace stoker
