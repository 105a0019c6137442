#include "rpc/admission.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "metrics/catalog.h"
#include "rpc/status_mapping.h"

namespace stoker {
namespace {

// Bounds of a retry hint: no busy loop, nobody sent away for ever.
constexpr absl::Duration kShortestHint = absl::Milliseconds(10);
constexpr absl::Duration kLongestHint = absl::Seconds(10);

// Weight of the newest answer in the moving average.
constexpr double kNewest = 1.0 / 16;

std::string ReasonName(Refusal reason) {
  switch (reason) {
    case Refusal::kMemory:
      return "memory";
    case Refusal::kModelMemory:
      return "model_memory";
    case Refusal::kQueue:
      return "queue";
    case Refusal::kQueueTimeout:
      return "queue_timeout";
    case Refusal::kStalled:
      return "stalled";
  }
  return "unknown";
}

}  // namespace

Admission::Admission(size_t max_bytes, MetricRegistry& metrics)
    : max_bytes_(max_bytes),
      metrics_(metrics),
      gauge_(metrics.Gauge(metric::kRequestMemory)),
      all_(*accounts_.emplace("", std::make_unique<Account>()).first->second) {}

size_t Admission::bytes() const {
  absl::MutexLock lock(&mu_);
  return all_.bytes;
}

size_t Admission::max_message_bytes() const {
  // A message may be held twice for a moment, as it came and as one tensor.
  return max_bytes_ / 2 - std::min(max_bytes_ / 2, kCallBytes);
}

Admission::Account& Admission::AccountOf(std::string_view model) {
  const auto found = accounts_.find(model);
  if (found != accounts_.end()) return *found->second;
  auto account = std::make_unique<Account>();
  account->model = model;
  return *accounts_.emplace(account->model, std::move(account)).first->second;
}

void Admission::CountLocked(Account& account, Refusal reason) {
  auto counter = account.refusals.find(reason);
  if (counter == account.refusals.end()) {
    counter =
        account.refusals
            .emplace(reason, metrics_.Counter(metric::kRefusedRequests,
                                              {{"model", account.model},
                                               {"reason", ReasonName(reason)}}))
            .first;
  }
  counter->second.Add();
}

void Admission::CountRefusal(std::string_view model, Refusal reason) {
  absl::MutexLock lock(&mu_);
  CountLocked(AccountOf(model), reason);
}

absl::Status Admission::Ticket::Take(size_t bytes) {
  absl::MutexLock lock(&admission_.mu_);
  absl::Status status = CheckLocked(bytes);
  if (status.ok()) ResizeLocked(bytes_ + bytes);
  return status;
}

absl::Status Admission::Ticket::TakeIdle(Idle kind, size_t bytes) {
  absl::MutexLock lock(&admission_.mu_);
  RETURN_IF_ERROR(CheckLocked(bytes));
  size_t& idle = admission_.idle_[static_cast<size_t>(kind)];
  const size_t free = admission_.max_bytes_ - admission_.all_.bytes - bytes;
  if (idle > idle_ && idle + bytes > free) {
    return RefuseLocked(
        Refusal::kMemory,
        absl::ResourceExhaustedError(absl::StrCat(
            kind == Idle::kMessages ? "messages that are not whole yet"
                                    : "open streams",
            " hold ", idle, " bytes, which is their share of the ",
            admission_.max_bytes_, " of all requests: try again later")));
  }
  ResizeLocked(bytes_ + bytes);
  idle_kind_ = kind;
  idle_ += bytes;
  idle += bytes;
  return absl::OkStatus();
}

void Admission::Ticket::Busy() {
  if (idle_ == 0) return;
  absl::MutexLock lock(&admission_.mu_);
  admission_.idle_[static_cast<size_t>(idle_kind_)] -= idle_;
  idle_ = 0;
}

absl::Status Admission::Ticket::Assign(std::string_view model) {
  absl::MutexLock lock(&admission_.mu_);
  account_ = &admission_.AccountOf(model);
  account_->bytes += bytes_;
  return CheckLocked(0);
}

absl::Status Admission::Ticket::CheckLocked(size_t more) {
  const size_t max = admission_.max_bytes_;
  const size_t all = admission_.all_.bytes;
  if (more > max - std::min(max, bytes_)) {
    return absl::ResourceExhaustedError(
        absl::StrCat("this request takes ", bytes_ + more,
                     " bytes of memory, expected at most the ", max,
                     " that all requests together may hold"));
  }
  if (more > max - std::min(max, all)) {
    return RefuseLocked(
        Refusal::kMemory,
        absl::ResourceExhaustedError(absl::StrCat(
            "requests hold ", all, " of at most ", max,
            " bytes, and this one takes ", more, " more: try again later")));
  }
  if (account_ == nullptr) return absl::OkStatus();
  const size_t of_others = account_->bytes - bytes_;
  if (of_others == 0 || account_->bytes + more <= max - all - more) {
    return absl::OkStatus();
  }
  return RefuseLocked(Refusal::kModelMemory,
                      absl::ResourceExhaustedError(absl::StrCat(
                          "requests for model '", account_->model, "' hold ",
                          of_others, " bytes, which is their share of the ",
                          max, " of all models: try again later")));
}

void Admission::Ticket::ResizeLocked(size_t bytes) {
  admission_.all_.bytes += bytes - bytes_;  // modulo 2^64, as all sizes here
  if (account_ != nullptr) account_->bytes += bytes - bytes_;
  bytes_ = bytes;
  admission_.gauge_.Set(static_cast<double>(admission_.all_.bytes));
}

void Admission::Ticket::Resize(size_t bytes) {
  if (bytes == bytes_) return;
  absl::MutexLock lock(&admission_.mu_);
  ResizeLocked(bytes);
}

bool Admission::Ticket::Alone() const {
  absl::MutexLock lock(&admission_.mu_);
  return admission_.all_.bytes == bytes_;
}

absl::Status Admission::Ticket::Refuse(Refusal reason, absl::Status status) {
  absl::MutexLock lock(&admission_.mu_);
  return RefuseLocked(reason, std::move(status));
}

absl::Status Admission::Ticket::RefuseLocked(Refusal reason,
                                             absl::Status status) {
  Account& account = account_ != nullptr ? *account_ : admission_.all_;
  admission_.CountLocked(account, reason);
  SetRetryHint(status,
               std::clamp(account.answer_time, kShortestHint, kLongestHint));
  return status;
}

void Admission::Ticket::RecordAnswer(absl::Duration time) {
  absl::MutexLock lock(&admission_.mu_);
  for (Account* account : {account_, &admission_.all_}) {
    if (account == nullptr) continue;
    account->answer_time += (time - account->answer_time) * kNewest;
  }
}

}  // namespace stoker
