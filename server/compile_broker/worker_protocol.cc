#include "compile_broker/worker_protocol.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/absl_view.h"
#include "base/json_field.h"
#include "base/json_text.h"

namespace stoker {

namespace {

using Json = nlohmann::json;

std::string Excerpt(std::string_view line) {
  constexpr size_t kMaxBytes = 120;
  // Through the JSON writer: quotes, and no control or broken characters.
  std::string text = JsonText(line.substr(0, kMaxBytes), {.ascii = true});
  if (line.size() > kMaxBytes) {
    absl::StrAppend(&text, " and ", line.size() - kMaxBytes, " bytes more");
  }
  return text;
}

absl::Status Malformed(std::string_view expected, std::string_view line) {
  return absl::InvalidArgumentError(absl::StrCat("compile worker: expected ",
                                                 Absl(expected), ", got ",
                                                 Absl(Excerpt(line))));
}

bool IsPhase(std::string_view name) {
  return std::find(std::begin(kWorkerPhases), std::end(kWorkerPhases), name) !=
         std::end(kWorkerPhases);
}

// The member `name` when it is there and a plausible duration, else 0.
double Seconds(const Json& object, const char* name) {
  const Json& field = Field(object, name);
  if (!field.is_number()) return 0;
  const double value = field.get<double>();
  return std::isfinite(value) && value > 0 ? value : 0;
}

std::map<std::string, double> Phases(const Json& object) {
  std::map<std::string, double> phases;
  const Json& listed = Field(object, "phases");
  if (!listed.is_object()) return phases;
  for (const auto& item : listed.items()) {
    if (IsPhase(item.key()) && item.value().is_number()) {
      phases[item.key()] = Seconds(listed, item.key().c_str());
    }
  }
  return phases;
}

// Text members only.
std::map<std::string, std::string> Texts(const Json& object) {
  std::map<std::string, std::string> texts;
  if (!object.is_object()) return texts;
  for (const auto& item : object.items()) {
    if (item.value().is_string()) {
      texts[item.key()] = item.value().get<std::string>();
    }
  }
  return texts;
}

WorkerReply::Event EventOf(const std::string& name) {
  if (name == "ready") return WorkerReply::Event::kReady;
  if (name == "phase") return WorkerReply::Event::kPhase;
  if (name == "done") return WorkerReply::Event::kDone;
  if (name == "failed") return WorkerReply::Event::kFailed;
  return WorkerReply::Event::kUnknown;
}

}  // namespace

std::string CompileLine(int64_t id, const CompileRequest& request,
                        const std::string& staging_folder,
                        const std::string& scratch_folder,
                        const CompileWorkerOptions& options) {
  const Json line = {
      {"op", "compile"},
      {"id", id},
      {"key", request.key.hex()},
      {"factors", Json(request.factors)},
      {"model", request.model},
      {"bucket", request.bucket},
      {"program", request.program_path},
      {"passes", request.passes_path},
      {"operators", Json(request.operator_libraries)},
      {"sizes", Json(request.sizes)},
      {"march", request.march},
      {"simdlen", request.simdlen},
      {"device", request.device},
      {"stage", staging_folder},
      {"scratch", scratch_folder},
      {"timeout_seconds",
       std::max<int64_t>(1, absl::ToInt64Seconds(options.job_timeout))},
      {"memory_bytes", options.job_memory_bytes}};
  return JsonText(line) + "\n";
}

absl::StatusOr<WorkerReply> ParseReply(std::string_view line) {
  const Json object = ReadJson(line);
  if (!object.is_object()) return Malformed("a JSON object", line);
  WorkerReply reply;
  reply.event = EventOf(TextField(object, "event"));
  if (TextField(object, "event").empty()) {
    return Malformed("a text member \"event\"", line);
  }
  if (reply.event == WorkerReply::Event::kUnknown) return reply;
  if (reply.event != WorkerReply::Event::kReady) {
    const auto id = object.find("id");
    if (id == object.end() || !id->is_number_integer()) {
      return Malformed("an integer member \"id\"", line);
    }
    reply.id = id->get<int64_t>();
  }
  reply.phase = TextField(object, "phase");
  if (reply.event == WorkerReply::Event::kPhase && !IsPhase(reply.phase)) {
    return Malformed("a known name in \"phase\"", line);
  }
  reply.kind = TextField(object, "kind");
  if (reply.event == WorkerReply::Event::kFailed && reply.kind.empty()) {
    return Malformed("a text member \"kind\"", line);
  }
  reply.message = TextField(object, "message");
  reply.phases = Phases(object);
  reply.attest = Texts(Field(object, "attest"));
  reply.seconds = Seconds(object, "seconds");
  reply.torch = TextField(object, "torch");
  return reply;
}

absl::Status CheckAttested(const CompileRequest& request,
                           const WorkerReply& reply) {
  for (const auto& [name, expected] : request.attest) {
    const auto found = reply.attest.find(name);
    if (found != reply.attest.end() && found->second == expected) continue;
    return absl::DataLossError(absl::StrCat(
        "compile of ", request.model, " [", request.bucket,
        "]: what was compiled is not what the key describes: ", name, " is ",
        found == reply.attest.end() ? "not said" : Excerpt(found->second),
        ", expected ", expected));
  }
  return absl::OkStatus();
}

absl::Status FailureStatus(const CompileRequest& request, std::string_view kind,
                           std::string_view message) {
  std::string text =
      absl::StrCat("compile of ", request.model, " [", request.bucket,
                   "]: ", Absl(kind), ": ", Absl(message));
  if (!request.program_name.empty()) {
    absl::StrReplaceAll({{request.program_path, request.program_name}}, &text);
  }
  if (kind == "refused") return absl::FailedPreconditionError(text);
  if (kind == "timeout") return absl::DeadlineExceededError(text);
  // ENOSPC's text is the one trace of a full disk that comes through g++.
  if (kind == "memory" || absl::StrContains(text, "No space left on device")) {
    return absl::ResourceExhaustedError(text);
  }
  return absl::InternalError(text);
}

std::string_view OutcomeOfKind(std::string_view kind) {
  for (std::string_view outcome : {"refused", "timeout", "memory", "crashed"}) {
    if (kind == outcome) return outcome;
  }
  return "failed";
}

}  // namespace stoker
