#include "rpc/infer_admission.h"

#include "absl/status/status.h"
#include "rpc/status_mapping.h"

namespace stoker {
namespace {

// What holds no more than the call itself does is not counted among the
// messages that may never be whole: it always finds room beside them.
constexpr size_t kAlwaysFits = Admission::kCallBytes;

}  // namespace

// A call takes memory when its message begins: one that has none yet costs
// little, and the transport bounds how many there are. It is refused before any
// of a large message is taken: no more than its first 64 KiB are read until
// memory is reserved for it.
CallStatus InferAdmission::Reserve(size_t bytes) {
  const size_t more =
      bytes + (ticket_.bytes() == 0 ? Admission::kCallBytes : 0);
  const absl::Status status =
      bytes > kAlwaysFits ? ticket_.TakeIdle(Admission::Idle::kMessages, more)
                          : ticket_.Take(more);
  if (status.ok()) {
    reserved_ += bytes;
  } else {
    InferCall::Refused(services_, status, &caller_);
  }
  return ToCallStatus(status);
}

}  // namespace stoker
