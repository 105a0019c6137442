#include "rpc/infer_call.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "metrics/catalog.h"
#include "rpc/model_service.h"
#include "rpc/status_mapping.h"

namespace stoker {

std::shared_ptr<InferCall> InferCall::Start(const Services& services,
                                            const grpc::ByteBuffer& request,
                                            absl::Time deadline,
                                            AnswerForm form, Done done) {
  auto call = std::make_shared<InferCall>(services, request, deadline, form,
                                          std::move(done));
  call->Begin();
  return call;
}

InferCall::InferCall(const Services& services, const grpc::ByteBuffer& request,
                     absl::Time deadline, AnswerForm form, Done done)
    : services_(services),
      arrival_(services.clock.Now()),
      deadline_(deadline),
      form_(form),
      done_(std::move(done)),
      request_(request) {}

void InferCall::Begin() {
  request_.Scan();
  if (request_.bytes_to_parse() > 0 && !request_.Parse()) {
    Refuse(absl::InvalidArgumentError(
        absl::StrCat("expected a serialised inference.ModelInferRequest, got ",
                     request_.bytes().size(), " bytes that are none")));
    return;
  }
  const RequestView& view = request_.view();
  absl::StatusOr<int64_t> version = ParseVersion(view.model_version);
  absl::StatusOr<ModelHandle> handle =
      version.ok() ? services_.manager.Acquire(view.model_name, *version)
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

absl::Status InferCall::Submit(const ModelHandle& handle) {
  ASSIGN_OR_RETURN(
      DecodedRequest decoded,
      DecodeRequest(request_.view(), handle.spec(), shared_from_this()));
  outputs_ = std::move(decoded.outputs);
  rows_ = decoded.rows;

  auto task = std::make_unique<InferTask>();
  task->inputs = std::move(decoded.inputs);
  task->sizes = std::move(decoded.sizes);
  task->rows = decoded.rows;
  task->deadline = deadline_;
  task->timeout = decoded.timeout;
  task->priority = decoded.priority;
  task->cancelled =
      std::shared_ptr<std::atomic<bool>>(shared_from_this(), &cancelled_);
  task->on_done = [this](Result result) { HandOver(std::move(result)); };
  self_ = shared_from_this();
  services_.submitted.fetch_add(1);
  absl::Status submitted = handle.Submit(task);
  if (!submitted.ok()) {
    services_.submitted.fetch_sub(1);
    self_.reset();
  }
  return submitted;
}

// With other requests waiting, the device thread goes on with them, and another
// thread serialises and writes. Without any, waking that thread (about 15 us)
// would only delay the answer.
void InferCall::HandOver(Result result) {
  std::shared_ptr<InferCall> self = std::move(self_);
  const bool others_wait = services_.submitted.fetch_sub(1) > 1;
  if (!others_wait) {
    End(result);
    return;
  }
  result_ = std::move(result);
  services_.completion.Run(
      [self = std::move(self)] { self->End(*self->result_); });
}

void InferCall::End(const Result& result) {
  std::optional<ModelHandle> handle;
  {
    absl::MutexLock lock(&mu_);
    handle.swap(handle_);
  }
  Answer answer;
  answer.id = request_.view().id;
  answer.status = result.ok()
                      ? EncodeResponse(handle->spec(), answer.id, outputs_,
                                       result->outputs, form_, answer.message)
                      : ClientStatus(result.status());
  const absl::Time now = services_.clock.Now();
  if (answer.status.ok()) {
    handle->stats().RecordSuccess(*result, rows_, now - arrival_, now);
  } else {
    handle->stats().RecordFailure(answer.status, now - arrival_);
  }
  handle.reset();
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
absl::Status InferCall::ClientStatus(const absl::Status& status) const {
  if (!absl::IsUnavailable(status) || services_.clock.Now() < deadline_)
    return status;
  return absl::DeadlineExceededError(status.message());
}

// A request that reached no version has none to be counted under.
void InferCall::Refuse(const absl::Status& status) {
  services_.metrics
      .Counter(metric::kRequests, {{"model", ""},
                                   {"version", ""},
                                   {"outcome", OutcomeName(status.code())}})
      .Add();
  Answer answer{status, {}, request_.view().id};
  done_(answer);
}

}  // namespace stoker
