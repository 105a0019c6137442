#include <grpcpp/generic/generic_stub.h>

#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "loadtest/generator/lane.h"

namespace stoker::loadtest {
namespace {

constexpr char kStreamMethod[] =
    "/inference.GRPCInferenceService/ModelStreamInfer";

// A stream goes through: kNone -start-> kStarting -> kOpen -> (a read fails)
// kFinishing -> kNone. Reads and writes go on side by side, one of each at a
// time.
class StreamLane final : public Lane {
 public:
  explicit StreamLane(const Wiring& wiring)
      : wiring_(wiring), stub_(wiring.channel) {}

  void Send(const grpc::ByteBuffer& message, int64_t intended_ns) override
      ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    waiting_.push_back({&message, intended_ns, 0});
    if (state_ == State::kNone) StartLocked();
    WriteLocked();
  }

  void Cancel() override ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    if (context_) context_->TryCancel();
  }

  void Close() override ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    closing_ = true;
    WriteLocked();
  }

  bool idle() override ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    return state_ == State::kNone && waiting_.empty();
  }

 private:
  enum class State { kNone, kStarting, kOpen, kFinishing };
  struct Message {
    const grpc::ByteBuffer* bytes;
    int64_t intended_ns;
    int64_t sent_ns;
  };
  struct Tag final : Event {
    using Handler = void (StreamLane::*)(bool);
    Tag(StreamLane& the_lane, Handler the_handler)
        : lane(the_lane), handler(the_handler) {}
    void OnEvent(bool ok) override { (lane.*handler)(ok); }
    StreamLane& lane;
    const Handler handler;
  };

  void StartLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    state_ = State::kStarting;
    context_.emplace();
    call_ = stub_.PrepareCall(&*context_, method_, &wiring_.queue);
    call_->StartCall(static_cast<Event*>(&started_));
  }

  void WriteLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (state_ != State::kOpen || writing_ || writes_done_) return;
    if (waiting_.empty() && !closing_) return;
    writing_ = true;
    if (waiting_.empty()) {
      writes_done_ = true;
      call_->WritesDone(static_cast<Event*>(&written_));
      return;
    }
    Message message = waiting_.front();
    waiting_.pop_front();
    message.sent_ns = NowNs();
    under_way_.push_back(message);
    call_->Write(*message.bytes, static_cast<Event*>(&written_));
  }

  void OnStarted(bool ok) ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    if (!ok) return FinishLocked();
    state_ = State::kOpen;
    call_->Read(&answer_, static_cast<Event*>(&read_));
    WriteLocked();
  }

  void OnWritten(bool) ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    writing_ = false;
    if (state_ == State::kOpen) return WriteLocked();
    // A write that fails is followed by a read that fails, and the read may be
    // first.
    if (state_ == State::kFinishing) FinishLocked();
  }

  void OnRead(bool ok) ABSL_LOCKS_EXCLUDED(mu_) {
    const int64_t now = NowNs();
    std::optional<Message> message;
    grpc::Status status;
    {
      absl::MutexLock lock(&mu_);
      if (!ok) {
        state_ = State::kFinishing;
        if (!writing_) FinishLocked();
        return;
      }
      if (!under_way_.empty()) {
        message = under_way_.front();
        under_way_.pop_front();
      }
      status = CheckStreamAnswer(answer_, wiring_.options.check_answers);
      answer_.Clear();
      call_->Read(&answer_, static_cast<Event*>(&read_));
    }
    // An answer that nobody asked for is none of ours.
    if (message) Tell(*message, status, now);
  }

  void FinishLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    state_ = State::kFinishing;
    call_->Finish(&status_, static_cast<Event*>(&finished_));
  }

  void OnFinished(bool) ABSL_LOCKS_EXCLUDED(mu_) {
    const int64_t now = NowNs();
    std::vector<Message> lost;
    grpc::Status status;
    {
      absl::MutexLock lock(&mu_);
      lost.assign(under_way_.begin(), under_way_.end());
      lost.insert(lost.end(), waiting_.begin(), waiting_.end());
      under_way_.clear();
      waiting_.clear();
      status = std::move(status_);
      status_ = {};
      call_.reset();
      context_.reset();
      writes_done_ = false;
      state_ = State::kNone;
    }
    // A server may end a stream with OK and owe answers.
    if (status.ok()) {
      status = {grpc::StatusCode::UNKNOWN,
                "the stream ended without an answer"};
    }
    for (Message& message : lost) {
      if (message.sent_ns == 0) message.sent_ns = now;
      Tell(message, status, now);
    }
  }

  void Tell(const Message& message, const grpc::Status& status, int64_t now) {
    wiring_.listener.OnOutcome(
        *this, {message.intended_ns, message.sent_ns, now, status.error_code(),
                status.error_message(), false});
  }

  const std::string method_ = kStreamMethod;
  const Wiring wiring_;
  grpc::GenericStub stub_;
  Tag started_{*this, &StreamLane::OnStarted};
  Tag written_{*this, &StreamLane::OnWritten};
  Tag read_{*this, &StreamLane::OnRead};
  Tag finished_{*this, &StreamLane::OnFinished};

  absl::Mutex mu_;
  State state_ ABSL_GUARDED_BY(mu_) = State::kNone;
  bool writing_ ABSL_GUARDED_BY(mu_) = false;  // a write is with gRPC
  bool closing_ ABSL_GUARDED_BY(mu_) = false;
  bool writes_done_ ABSL_GUARDED_BY(mu_) = false;
  std::optional<grpc::ClientContext> context_ ABSL_GUARDED_BY(mu_);
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> call_
      ABSL_GUARDED_BY(mu_);
  grpc::ByteBuffer answer_ ABSL_GUARDED_BY(mu_);
  grpc::Status status_ ABSL_GUARDED_BY(mu_);
  std::deque<Message> waiting_ ABSL_GUARDED_BY(mu_);    // not written yet
  std::deque<Message> under_way_ ABSL_GUARDED_BY(mu_);  // not answered yet
};

}  // namespace

std::unique_ptr<Lane> MakeStreamLane(const Lane::Wiring& wiring) {
  return std::make_unique<StreamLane>(wiring);
}

}  // namespace stoker::loadtest
