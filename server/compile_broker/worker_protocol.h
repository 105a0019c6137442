// The lines that stokerd and its compile worker exchange;
// compiler/job/protocol.py describes them. Private to this room; pure
// functions.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "compile_broker/compile_broker.h"

namespace stoker {

// The phases that a worker reports, in their order. Metrics have no others.
inline constexpr std::string_view kWorkerPhases[] = {
    "load", "specialise", "lower", "build", "package"};

struct WorkerReply {
  enum class Event { kReady, kPhase, kDone, kFailed, kUnknown };
  Event event = Event::kUnknown;
  int64_t id = 0;                        // of the job; not with kReady
  std::string phase;                     // kPhase
  std::string kind;                      // kFailed
  std::string message;                   // kFailed
  std::map<std::string, double> phases;  // kDone: seconds, known phases only
  std::map<std::string, std::string> attest;  // kDone: what was compiled
  double seconds = 0;
  std::string torch;  // kReady
};

// The request for one job, with its newline.
std::string CompileLine(int64_t id, const CompileRequest& request,
                        const std::string& staging_folder,
                        const std::string& scratch_folder,
                        const CompileWorkerOptions& options);

// INVALID_ARGUMENT, saying what was expected and what came, for a line that no
// worker writes. An event of another name is kUnknown: a newer worker may know
// more.
absl::StatusOr<WorkerReply> ParseReply(std::string_view line);

// DATA_LOSS when the worker has compiled another program than it was asked to,
// or by something else; the message says what was expected and what came.
absl::Status CheckAttested(const CompileRequest& request,
                           const WorkerReply& reply);

// The code that Submit documents for a failure of this kind. The message names
// the model and bucket and ends with the worker's.
absl::Status FailureStatus(const CompileRequest& request, std::string_view kind,
                           std::string_view message);
// The label of stoker_compile_seconds for it.
std::string_view OutcomeOfKind(std::string_view kind);

}  // namespace stoker
