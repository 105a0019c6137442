// One ModelStreamInfer call: a request per message, answers in the order of the
// requests. Requests of one stream run side by side, up to kMaxInFlight of
// them; then no more are read, and HTTP/2's flow control holds the client back.
//
// Thread-safe.
#pragma once

#include <deque>
#include <memory>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "rpc/infer_call.h"
#include "rpc/infer_caller.h"
#include "wire/byte_chain.h"
#include "wire/call.h"

namespace stoker {

class StreamInfer final : public CallHandler {
 public:
  static constexpr size_t kMaxInFlight = 64;

  StreamInfer(const InferCall::Services& services, Call& call);

 private:
  // A request's place in the order of answers; guarded by mu_.
  struct Slot {
    explicit Slot(Admission& admission) : ticket(admission) {}
    Admission::Ticket ticket;         // held until the answer is sent
    CallerPass pass;                  // likewise
    size_t reserved = 0;              // in it, for the message
    std::shared_ptr<InferCall> call;  // null once answered
    // Set once answered; not OK: the stream ends with it.
    std::optional<absl::Status> status;
    ByteChain answer;
  };

  void OnStart() override ABSL_LOCKS_EXCLUDED(mu_);
  CallStatus Reserve(size_t bytes) override ABSL_LOCKS_EXCLUDED(mu_);
  void OnMessage(const ByteChain& message) override ABSL_LOCKS_EXCLUDED(mu_);
  void OnEndOfMessages() override ABSL_LOCKS_EXCLUDED(mu_);
  void OnWritten(bool ok) override ABSL_LOCKS_EXCLUDED(mu_);
  void OnCancel() override ABSL_LOCKS_EXCLUDED(mu_);
  CallStatus MayGoOn() override;
  // Reads no more; the stream ends with UNAVAILABLE after the answers that are
  // due.
  void OnStop() override ABSL_LOCKS_EXCLUDED(mu_);

  std::shared_ptr<Slot> OpenSlot() ABSL_LOCKS_EXCLUDED(mu_);
  void SetAnswer(Slot& slot, InferCall::Answer& answer)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Starts what is due: a write, a read, the end. What comes of them is told on
  // the call's loop only, so starting them under the lock is safe.
  void AdvanceLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void WriteLocked(std::shared_ptr<Slot> slot)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Reads no more and ends with `status`; a failure replaces an earlier OK.
  void StopReadingLocked(absl::Status status)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const InferCall::Services& services_;
  Call& call_;
  const InferCaller caller_;
  const bool errors_end_stream_;  // the client sent "triton_grpc_error: true"
  Admission::Ticket ticket_;      // of the stream itself

  absl::Mutex mu_;
  std::deque<std::shared_ptr<Slot>> slots_
      ABSL_GUARDED_BY(mu_);  // in request order
  // Of the message that is arriving; null while nothing is reserved for it.
  std::shared_ptr<Slot> arriving_ ABSL_GUARDED_BY(mu_);
  bool reading_ ABSL_GUARDED_BY(mu_) =
      false;  // until the message has been parsed
  std::shared_ptr<Slot> writing_ ABSL_GUARDED_BY(mu_);
  bool deaf_ ABSL_GUARDED_BY(mu_) = false;  // answers reach nobody any more
  bool finished_ ABSL_GUARDED_BY(mu_) = false;
  std::optional<absl::Status> end_
      ABSL_GUARDED_BY(mu_);  // set: nothing more is read
};

}  // namespace stoker
