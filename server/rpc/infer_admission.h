// What one inference holds while its message arrives, and from then on.
//
// Used by one thread at a time.
#pragma once

#include <cstddef>

#include "rpc/admission.h"
#include "rpc/infer_call.h"
#include "rpc/infer_caller.h"
#include "wire/call.h"

namespace stoker {

class InferAdmission {
 public:
  // Both outlive it.
  InferAdmission(const InferCall::Services& services, const InferCaller& caller)
      : services_(services), caller_(caller), ticket_(services.admission) {}

  // Memory for the message, or for the next piece of it. What is refused is
  // counted and told.
  CallStatus Reserve(size_t bytes);
  // The message is whole.
  void Busy() { ticket_.Busy(); }

  Admission::Ticket& ticket() { return ticket_; }
  // In it, for the message.
  size_t reserved() const { return reserved_; }

 private:
  const InferCall::Services& services_;
  const InferCaller& caller_;
  Admission::Ticket ticket_;
  size_t reserved_ = 0;
};

}  // namespace stoker
