// One ModelStreamInfer call: a request per message, answers in the order of the
// requests. Requests of one stream run side by side, up to kMaxInFlight of
// them; then no more are read, and HTTP/2's flow control holds the client back.
//
// Thread-safe. Lives in the service's set of streams until gRPC is through with
// it, and for as long as one of its requests runs.
#pragma once

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include <deque>
#include <functional>
#include <memory>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "rpc/infer_call.h"

namespace stoker {

class StreamInfer final
    : public grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>,
      public std::enable_shared_from_this<StreamInfer> {
 public:
  static constexpr size_t kMaxInFlight = 64;

  // `on_done` is the last thing that happens to a stream; its owner lets go of
  // it there.
  StreamInfer(const InferCall::Services& services,
              const grpc::CallbackServerContext& context,
              std::function<void(const StreamInfer*)> on_done);

  // Begins to read. Call once, when the owner holds the stream.
  void Start() ABSL_LOCKS_EXCLUDED(mu_);

  // Reads no more; the stream ends with UNAVAILABLE after the answers that are
  // due.
  void End() ABSL_LOCKS_EXCLUDED(mu_);

 private:
  // A request's place in the order of answers.
  struct Slot {
    std::shared_ptr<InferCall> call;  // guarded by mu_, like the answer
    std::optional<InferCall::Answer> answer;
  };

  void OnReadDone(bool ok) override ABSL_LOCKS_EXCLUDED(mu_);
  void OnWriteDone(bool ok) override ABSL_LOCKS_EXCLUDED(mu_);
  void OnCancel() override ABSL_LOCKS_EXCLUDED(mu_);
  void OnDone() override;

  std::shared_ptr<Slot> OpenSlot() ABSL_LOCKS_EXCLUDED(mu_);
  void SetAnswer(Slot& slot, InferCall::Answer answer) ABSL_LOCKS_EXCLUDED(mu_);

  // Starts what is due: a write, a read, the end. gRPC never calls a reaction
  // from inside the call that starts an operation, so these are safe under the
  // lock.
  void AdvanceLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void WriteLocked(InferCall::Answer answer) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Reads no more and ends with `status`; a failure replaces an earlier OK.
  void StopReadingLocked(absl::Status status)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const InferCall::Services services_;
  const absl::Time deadline_;
  const bool errors_end_stream_;  // the client sent "triton_grpc_error: true"
  const std::function<void(const StreamInfer*)> on_done_;

  // Each belongs to the one read or write that is under way.
  grpc::ByteBuffer incoming_;
  grpc::ByteBuffer outgoing_;

  absl::Mutex mu_;
  std::deque<std::shared_ptr<Slot>> slots_
      ABSL_GUARDED_BY(mu_);  // in request order
  bool reading_ ABSL_GUARDED_BY(mu_) =
      false;  // until incoming_ has been parsed
  bool writing_ ABSL_GUARDED_BY(mu_) = false;
  bool deaf_ ABSL_GUARDED_BY(mu_) = false;  // answers reach nobody any more
  bool finished_ ABSL_GUARDED_BY(mu_) = false;
  std::optional<absl::Status> end_
      ABSL_GUARDED_BY(mu_);  // set: nothing more is read
};

}  // namespace stoker
