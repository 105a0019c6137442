#include "rpc/unary_method.h"

#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "rpc/status_mapping.h"

namespace stoker {
namespace {

constexpr size_t kMaxBytes = 1 << 20;

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

using Begin = std::function<void(const ByteChain&, AnswerLater)>;

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

class LaterHandler final : public CallHandler {
 public:
  LaterHandler(Call& call, const Begin& begin) : call_(call), begin_(begin) {}

  void OnStart() override { call_.ReadSoon(); }
  CallStatus Reserve(size_t bytes) override {
    reserved_ += bytes;
    return SmallMessage(reserved_ / kTimesReserved);
  }

  void OnMessage(const ByteChain& message) override {
    unanswered_->Hold(call_.shared_from_this());
    begin_(message,
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
  void End(const absl::Status& status) {
    const std::shared_ptr<Call> held = unanswered_->LetGo();
    call_.Finish(ToCallStatus(status));
  }

  Call& call_;
  const Begin& begin_;
  size_t reserved_ = 0;
  const std::shared_ptr<Unanswered> unanswered_ =
      std::make_shared<Unanswered>();
};

}  // namespace

CallStatus SmallMessage(size_t bytes) {
  if (bytes <= kMaxBytes) return {};
  return ToCallStatus(absl::InvalidArgumentError(absl::StrCat(
      "expected a message of at most ", kMaxBytes, " bytes, got ", bytes)));
}

absl::Status ParseMessage(const ByteChain& bytes,
                          google::protobuf::Message& message) {
  const size_t size = bytes.size();
  if (size > kMaxBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected at most ", kMaxBytes, " bytes of ",
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

void AddUnaryLater(MethodTable& methods, const std::string& path, Begin begin) {
  methods.Add(path, [begin = std::move(begin)](Call& call) {
    return std::make_unique<LaterHandler>(call, begin);
  });
}

}  // namespace stoker
