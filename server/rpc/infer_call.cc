#include "rpc/infer_call.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "access/audit_log.h"
#include "base/status_macros.h"
#include "batching/queue_timeout.h"
#include "metrics/catalog.h"
#include "metrics/outcome.h"
#include "rpc/call_record.h"
#include "rpc/client_outputs.h"
#include "rpc/model_service.h"
#include "rpc/request_parameters.h"
#include "rpc/shared_tensors.h"
#include "telemetry/request_record.h"

namespace stoker {
namespace {

// Of an answer that is written without another thread: less than a millisecond
// of work.
constexpr size_t kQuickAnswer = 64 << 10;

const TraceParent* Parent(const InferCaller* caller) {
  return caller == nullptr ? nullptr : caller->parent();
}

}  // namespace

std::shared_ptr<InferCall> InferCall::Start(
    const Services& services, const ByteChain& request, MonotonicTime deadline,
    AnswerForm form, Admission::Ticket& ticket, size_t reserved, Done done,
    const InferCaller* caller, CallerPass* pass) {
  auto call = std::make_shared<InferCall>(services, request, form, nullptr,
                                          deadline, ticket, reserved,
                                          std::move(done), caller, pass);
  call->Begin();
  return call;
}

std::shared_ptr<InferCall> InferCall::Start(const Services& services,
                                            InferForm& form,
                                            MonotonicTime deadline,
                                            Admission::Ticket& ticket,
                                            size_t reserved, Done done,
                                            const InferCaller* caller) {
  auto call = std::make_shared<InferCall>(
      services, ByteChain(), AnswerForm::kUnary, &form, deadline, ticket,
      reserved, std::move(done), caller, nullptr);
  call->Begin();
  return call;
}

InferCall::InferCall(const Services& services, const ByteChain& request,
                     AnswerForm answer, InferForm* other,
                     MonotonicTime deadline, Admission::Ticket& ticket,
                     size_t reserved, Done done, const InferCaller* caller,
                     CallerPass* pass)
    : services_(services),
      arrival_(services.clock.Now()),
      deadline_(deadline),
      ticket_(ticket),
      reserved_(reserved),
      done_(std::move(done)),
      caller_(caller),
      pass_(pass),
      form_(other != nullptr ? *other : grpc_.emplace(request, answer)) {}

absl::Status InferCall::Scan() {
  const size_t size = form_.request_bytes();
  bytes_in_ = size;
  if (size > reserved_) {
    RETURN_IF_ERROR(ticket_.Take(size - reserved_));
  } else {
    ticket_.Resize(ticket_.bytes() - (reserved_ - size));
  }
  RETURN_IF_ERROR(form_.Scan());
  return ticket_.Take(form_.copied_bytes());
}

absl::Status InferCall::Take(size_t bytes) {
  absl::MutexLock lock(&memory_mu_);
  return ticket_.Take(bytes);
}

void InferCall::Give(size_t bytes) {
  absl::MutexLock lock(&memory_mu_);
  ticket_.Resize(ticket_.bytes() - std::min(bytes, ticket_.bytes()));
}

absl::Status InferCall::Parse() {
  if (form_.parse_limit() == 0) return absl::OkStatus();
  const size_t held = ticket_.bytes();
  RETURN_IF_ERROR(ticket_.Take(form_.parse_limit()));
  absl::Status parsed = form_.Parse();
  ticket_.Resize(held + form_.parsed_memory());
  return parsed;
}

void InferCall::Begin() {
  absl::Status status = Scan();
  if (status.ok() && form_.TakesLong()) {
    services_.reader.Run(
        [self = shared_from_this()] { self->GoOn(self->Parse()); });
    return;
  }
  if (status.ok()) status = Parse();
  GoOn(status);
}

void InferCall::GoOn(const absl::Status& parsed) {
  if (!parsed.ok()) {
    Refuse(parsed);
    return;
  }
  const RequestView& view = form_.view();
  if (caller_ != nullptr) {
    absl::Status may = caller_->Check(Target::Of(view.model_name));
    if (may.ok() && pass_ != nullptr) may = caller_->Enter(*pass_);
    if (!may.ok()) return Refuse(may);
  }
  absl::StatusOr<WantedVersion> version = ParseVersion(view.model_version);
  absl::StatusOr<ModelHandle> handle =
      version.ok() ? services_.manager.AcquireForRun(view.model_name, *version)
                   : version.status();
  if (!handle.ok()) {
    Refuse(handle.status());
    return;
  }
  {
    absl::MutexLock lock(&mu_);
    handle_ = *handle;
  }
  if (absl::Status status = Submit(*handle); !status.ok())
    End(std::move(status));
}

void InferCall::ReleaseRequest(bool keep_id) {
  if (id_.has_value()) return;
  id_.emplace(keep_id ? form_.view().id : std::string_view());
  form_.Release();
}

absl::Status InferCall::Submit(const ModelHandle& handle) {
  RETURN_IF_ERROR(ticket_.Assign(handle.spec().name));
  ASSIGN_OR_RETURN(
      DecodedRequest decoded,
      DecodeRequest(form_.view(), handle.spec(), services_.shared_memory,
                    shared_from_this(),
                    [this](size_t bytes) { return ticket_.Take(bytes); }));
  outputs_ = std::move(decoded.outputs);
  shared_outputs_ = std::move(decoded.shared_outputs);
  classes_ = std::move(decoded.classes);
  rows_ = decoded.rows;
  const bool copied = std::none_of(
      decoded.inputs.begin(), decoded.inputs.end(),
      [this](const Tensor& input) { return input.owner.get() == this; });
  if (copied) {
    const size_t released = form_.request_bytes() + form_.copied_bytes();
    ReleaseRequest(/*keep_id=*/true);
    ticket_.Resize(ticket_.bytes() - released + id_->size());
  }

  auto task = std::make_unique<InferTask>();
  task->inputs = std::move(decoded.inputs);
  task->sizes = std::move(decoded.sizes);
  task->rows = decoded.rows;
  task->deadline = deadline_;
  task->timeout = decoded.timeout;
  const DynamicBatchingSpec& batching = handle.spec().dynamic_batching;
  task->priority = PriorityFor(
      decoded.priority, caller_ == nullptr ? 0 : caller_->priority(),
      batching.policies.size(),
      static_cast<uint64_t>(batching.default_priority_level));
  task->cancelled =
      std::shared_ptr<std::atomic<bool>>(shared_from_this(), &cancelled_);
  task->alone = ticket_.Alone();
  task->memory = this;
  task->on_done = [this](Result result) { HandOver(std::move(result)); };
  self_ = shared_from_this();
  queued_ = true;
  services_.submitted.fetch_add(1);
  absl::Status submitted = handle.Submit(task);
  if (!submitted.ok()) {
    services_.submitted.fetch_sub(1);
    queued_ = false;
    self_.reset();
  }
  return submitted;
}

// With other requests waiting, the device thread goes on with them, and another
// thread serialises and writes. Without any, waking that thread (about 15 us)
// would only delay the answer; unless one that was there before is still with
// it.
void InferCall::HandOver(Result result) {
  std::shared_ptr<InferCall> self = std::move(self_);
  const bool others_wait = services_.submitted.fetch_sub(1) > 1;
  const bool takes_long = WritesLong(result);
  if (!others_wait && !takes_long && !services_.completion.busy()) {
    End(std::move(result));
    return;
  }
  result_ = std::move(result);
  CompletionThread& thread =
      takes_long ? services_.reader : services_.completion;
  thread.Run(
      [self = std::move(self)] { self->End(*std::move(self->result_)); });
}

bool InferCall::WritesLong(const Result& result) const {
  return result.ok() &&
         form_.AnswerLimit(outputs_, result->outputs) > kQuickAnswer;
}

absl::Status InferCall::WriteAnswer(const ModelSpec& spec, InferResult& result,
                                    ByteChain& message) {
  RETURN_IF_ERROR(
      ToClients(spec, outputs_, classes_, absl::MakeSpan(result.outputs)));
  RETURN_IF_ERROR(WriteSharedOutputs(spec, shared_outputs_, outputs_,
                                     absl::MakeSpan(result.outputs)));
  RETURN_IF_ERROR(ticket_.Take(form_.AnswerLimit(outputs_, result.outputs)));
  return form_.Write(spec, id_.has_value() ? *id_ : form_.view().id, outputs_,
                     result.outputs, message);
}

void InferCall::End(Result result) {
  std::optional<ModelHandle> handle;
  {
    absl::MutexLock lock(&mu_);
    handle.swap(handle_);
  }
  Answer answer;
  if (result.ok()) {
    answer.status = WriteAnswer(handle->spec(), *result, answer.message);
  } else {
    answer.status = ClientStatus(result.status());
  }
  const MonotonicTime now = services_.clock.Now();
  if (answer.status.ok()) {
    handle->stats().RecordSuccess(*result, rows_, now - arrival_,
                                  services_.clock.WallNow());
    ticket_.RecordAnswer(now - arrival_);
  } else {
    handle->stats().RecordFailure(answer.status, queued_, now - arrival_);
  }
  if (services_.telemetry != nullptr) Tell(answer, result, *handle, now);
  handle.reset();
  Deliver(answer);
}

// The request was refused, or its batch is over: nobody looks at its bytes any
// more.
void InferCall::Deliver(Answer& answer) {
  ReleaseRequest(/*keep_id=*/form_.keeps_id() && !answer.status.ok());
  answer.id = *id_;
  ticket_.Resize(Admission::kCallBytes + answer.message.size());
  done_(answer);
}

void InferCall::Cancel() {
  cancelled_.store(true);
  std::optional<ModelHandle> handle;
  {
    absl::MutexLock lock(&mu_);
    handle = handle_;
  }
  if (handle.has_value()) handle->SweepCancelled();
}

// A queue ends what waited too long with UNAVAILABLE, "try again later". When
// it was the client's own deadline that passed, the code is the one that gRPC
// has for it.
absl::Status InferCall::ClientStatus(const absl::Status& status) {
  if (!absl::IsUnavailable(status)) return status;
  if (!queued_) return ticket_.Refuse(Refusal::kQueue, status);
  if (services_.clock.Now() >= deadline_) {
    return absl::DeadlineExceededError(status.message());
  }
  return ticket_.Refuse(
      IsQueueTimeout(status) ? Refusal::kQueueTimeout : Refusal::kQueue,
      status);
}

RequestRecord InferCall::NewRecord(const absl::Status& status,
                                   MonotonicTime now) {
  RequestRecord record;
  if (caller_ != nullptr) caller_->Describe(record);
  record.id = ShownName(id_.has_value() ? *id_ : form_.view().id);
  record.bytes_in = bytes_in_;
  record.total = now - arrival_;
  record.arrived = services_.clock.WallNow() - record.total;
  DescribeStatus(status, record);
  return record;
}

void InferCall::Tell(const Answer& answer, const Result& result,
                     const ModelHandle& handle, MonotonicTime now) {
  const Telemetry::Listeners listeners = services_.telemetry->Choose(
      !answer.status.ok(), now - arrival_, Parent(caller_));
  if (!listeners.any()) return;
  RequestRecord record = NewRecord(answer.status, now);
  record.model = handle.spec().name;
  record.version = handle.spec().version;
  record.rows = rows_;
  record.bytes_out = answer.message.size();
  if (result.ok()) DescribeRun(handle, *result, arrival_, record);
  services_.telemetry->Tell(listeners, std::move(record));
}

void InferCall::Refuse(const absl::Status& status) {
  CountRefusal(services_, status);
  if (services_.telemetry != nullptr) {
    const MonotonicTime now = services_.clock.Now();
    const Telemetry::Listeners listeners = services_.telemetry->Choose(
        /*failed=*/true, now - arrival_, Parent(caller_));
    if (listeners.any()) {
      RequestRecord record = NewRecord(status, now);
      record.model = ShownName(form_.view().model_name);
      services_.telemetry->Tell(listeners, std::move(record));
    }
  }
  Answer answer{status, {}, {}};
  Deliver(answer);
}

void InferCall::Refused(const Services& services, const absl::Status& status,
                        const InferCaller* caller) {
  CountRefusal(services, status);
  if (services.telemetry == nullptr) return;
  const Telemetry::Listeners listeners = services.telemetry->Choose(
      /*failed=*/true, absl::ZeroDuration(), Parent(caller));
  if (!listeners.any()) return;
  RequestRecord record;
  if (caller != nullptr) caller->Describe(record);
  record.arrived = services.clock.WallNow();
  DescribeStatus(status, record);
  services.telemetry->Tell(listeners, std::move(record));
}

void InferCall::CountRefusal(const Services& services,
                             const absl::Status& status) {
  services.metrics
      .Counter(metric::kRequests, {{"model", ""},
                                   {"version", ""},
                                   {"outcome", OutcomeName(status.code())}})
      .Add();
}

}  // namespace stoker
