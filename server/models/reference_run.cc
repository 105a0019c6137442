#include "models/reference_run.h"

#include <filesystem>
#include <memory>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/communicate.h"
#include "base/status_macros.h"
#include "base/subprocess.h"
#include "compile_broker/worker_environment.h"
#include "tensor/tensor_file.h"

namespace stoker {
namespace {

// The first line of what the tensor's bytes say.
std::string TextOf(const Tensor& bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data),
                              bytes.byte_size);
  return std::string(text.substr(0, text.find('\n')));
}

}  // namespace

absl::StatusOr<std::vector<Tensor>> ReferenceRun::Run(
    const std::string& program, absl::Span<const Tensor> inputs,
    const std::stop_token& stop) const {
  if (options_.argv.empty()) {
    return absl::UnavailableError("there is no Python here");
  }
  ASSIGN_OR_RETURN(const std::string request,
                   TensorFileBytes(Numbered(inputs)));
  Subprocess::Options child_options;
  child_options.argv = options_.argv;
  child_options.argv.push_back(std::filesystem::absolute(program).string());
  child_options.working_folder = options_.working_folder;
  child_options.inherit = WorkerVariables();
  auto child = Subprocess::Start(child_options);
  if (!child.ok()) return absl::UnavailableError(child.status().message());
  const std::stop_callback kill(stop, [&child] { (*child)->Kill(); });
  const Conversation heard = Communicate(**child, request, options_.time_limit);
  if (stop.stop_requested()) return absl::CancelledError("stopping");
  if (heard.reply.empty()) {
    return absl::InternalError(
        absl::StrCat(heard.end, ": ", LastLine(heard.log)));
  }
  const absl::StatusOr<NamedTensors> parsed = ParseTensorFile(heard.reply);
  if (!parsed.ok()) {  // cut short
    return absl::InternalError(
        absl::StrCat(heard.end, ": ", parsed.status().message()));
  }
  const NamedTensors& named = *parsed;
  if (const auto refused = named.find("refused"); refused != named.end()) {
    return absl::FailedPreconditionError(TextOf(refused->second));
  }
  return InOrder(named);
}

}  // namespace stoker
