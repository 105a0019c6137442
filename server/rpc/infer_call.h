// One inference on its way through the server: from the message's bytes to the
// answer's bytes. Used by the unary call and, once per message, by the stream.
//
// Thread-safe. Keeps itself and the request's bytes alive until it is done.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "access/gate.h"
#include "base/clock.h"
#include "batching/infer_task.h"
#include "metrics/metrics.h"
#include "models/model_manager.h"
#include "rpc/admission.h"
#include "rpc/completion_thread.h"
#include "rpc/grpc_form.h"
#include "rpc/infer_caller.h"
#include "rpc/infer_form.h"
#include "rpc/response_encoder.h"
#include "rpc/shared_memory.h"
#include "rpc/tensor_codec.h"
#include "telemetry/request_record.h"
#include "telemetry/telemetry.h"
#include "wire/byte_chain.h"

namespace stoker {

class InferCall : public std::enable_shared_from_this<InferCall>,
                  private TaskMemory {
 public:
  // What all calls share; outlives them.
  struct Services {
    ModelManager& manager;
    Clock& clock;
    MetricRegistry& metrics;
    CompletionThread& completion;
    std::atomic<int>&
        submitted;  // requests of all models whose run has not ended
    Admission& admission;
    // Where messages are read that would keep a call's loop for too long.
    CompletionThread& reader;
    // Of clients; null: not allowed.
    const SharedMemoryRegions* shared_memory = nullptr;
    // Null: there is no policy.
    Gate* gate = nullptr;
    // Null: nobody wants to know of single requests.
    Telemetry* telemetry = nullptr;
  };

  struct Answer {
    absl::Status status;
    ByteChain message;  // on OK, in the form that was asked for
    // The request's, of an error in a stream; valid during the call of Done.
    std::string_view id;
  };
  // May take the answer apart.
  using Done = std::function<void(Answer&)>;

  // Starts a call; `done` is called exactly once: before Start returns when the
  // request is refused or its run is a quick one (batching/batcher.h), else on
  // the completion thread, a device thread or, where the message takes long to
  // read, the reader's.
  // `deadline` is the client's. The ticket holds what the request takes, and
  // its answer from `done` on; it must live until then. `reserved`: bytes of
  // the message that it holds already. `pass`: counts the request among its
  // caller's, unless it is so already, and lives as long as the ticket.
  static std::shared_ptr<InferCall> Start(
      const Services& services, const ByteChain& request,
      MonotonicTime deadline, AnswerForm form, Admission::Ticket& ticket,
      size_t reserved, Done done, const InferCaller* caller = nullptr,
      CallerPass* pass = nullptr);
  // The same in another form, which outlives the call of Done.
  static std::shared_ptr<InferCall> Start(const Services& services,
                                          InferForm& form,
                                          MonotonicTime deadline,
                                          Admission::Ticket& ticket,
                                          size_t reserved, Done done,
                                          const InferCaller* caller = nullptr);

  // For Start. `other` null: the request is a message of gRPC's.
  InferCall(const Services& services, const ByteChain& request,
            AnswerForm answer, InferForm* other, MonotonicTime deadline,
            Admission::Ticket& ticket, size_t reserved, Done done,
            const InferCaller* caller, CallerPass* pass);

  // A request that reached no version has none to be counted under. It is told
  // of, where somebody wants to know.
  static void Refused(const Services& services, const absl::Status& status,
                      const InferCaller* caller);

  // The client went away: a request that still waits in a queue ends now.
  void Cancel() ABSL_LOCKS_EXCLUDED(mu_);

 private:
  using Result = absl::StatusOr<InferResult>;

  // TaskMemory, between the submission and the run's end.
  absl::Status Take(size_t bytes) override ABSL_LOCKS_EXCLUDED(memory_mu_);
  void Give(size_t bytes) override ABSL_LOCKS_EXCLUDED(memory_mu_);

  void Begin() ABSL_LOCKS_EXCLUDED(mu_);
  absl::Status Scan();
  void GoOn(const absl::Status& parsed) ABSL_LOCKS_EXCLUDED(mu_);
  absl::Status Parse();
  absl::Status Submit(const ModelHandle& handle);
  void HandOver(Result result);
  // Whether writing the answer would keep a loop for too long.
  bool WritesLong(const Result& result) const;
  void End(Result result) ABSL_LOCKS_EXCLUDED(mu_);
  // The answer's bytes, of a run that gave outputs; some may go to clients'
  // memory.
  absl::Status WriteAnswer(const ModelSpec& spec, InferResult& result,
                           ByteChain& message);
  void Refuse(const absl::Status& status);
  static void CountRefusal(const Services& services,
                           const absl::Status& status);
  // Of a request that ended so just now. While its id is at hand.
  RequestRecord NewRecord(const absl::Status& status, MonotonicTime now);
  // Tells who wants to know; the same.
  void Tell(const Answer& answer, const Result& result,
            const ModelHandle& handle, MonotonicTime now);
  void Deliver(Answer& answer);
  absl::Status ClientStatus(const absl::Status& status);
  void ReleaseRequest(bool keep_id);

  const Services& services_;
  const MonotonicTime arrival_;
  const MonotonicTime deadline_;
  Admission::Ticket& ticket_;
  const size_t reserved_;
  const Done done_;
  const InferCaller* const caller_;
  CallerPass* const pass_;  // null: it is counted
  std::atomic<bool> cancelled_ = false;

  // Written before the task is submitted, constant from then on.
  std::optional<GrpcForm> grpc_;  // empty: another form, of the caller's
  InferForm& form_;
  std::optional<std::string> id_;  // set: the rest of the request is gone
  bool queued_ = false;
  size_t bytes_in_ = 0;
  OutputIndices outputs_;
  std::vector<SharedMemoryRange> shared_outputs_;
  std::vector<size_t> classes_;
  int64_t rows_ = 1;
  // The call itself while its task is with the batcher, which gets no more than
  // a pointer: that much a std::function holds without memory of its own.
  std::shared_ptr<InferCall> self_;
  std::optional<Result> result_;  // on its way to the completion thread

  absl::Mutex memory_mu_;  // the ticket is one thread's at a time
  absl::Mutex mu_;
  // Until the answer is written: what its version has in memory, and its
  // figures, stay until then, also when it is unloaded meanwhile.
  std::optional<ModelHandle> handle_ ABSL_GUARDED_BY(mu_);
};

}  // namespace stoker
