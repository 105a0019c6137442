#include "rpc/repository_service.h"

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "open_inference.pb.h"
#include "rpc/error_text.h"
#include "rpc/model_service.h"
#include "rpc/unary_method.h"

namespace stoker {
namespace {

using inference::ModelRepositoryParameter;

absl::Status CheckRepositoryName(const std::string& name) {
  if (name.empty()) return absl::OkStatus();
  return absl::UnimplementedError(
      "'repository_name' specification is not supported by this server");
}

absl::Status CheckLoad(const inference::RepositoryModelLoadRequest& request) {
  for (const auto& [name, value] : request.parameters()) {
    if (name == "config") {
      return absl::UnimplementedError(absl::StrCat(
          "failed to load '", Excerpt(request.model_name()),
          "': a configuration in the request ('config') is not supported, "
          "expected it in the model's model.yaml"));
    }
    if (absl::StartsWith(name, "file:")) {
      return absl::UnimplementedError(absl::StrCat(
          "failed to load '", Excerpt(request.model_name()),
          "': files in the request ('", Excerpt(name),
          "') are not supported, expected them in the model repository"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckUnload(
    const inference::RepositoryModelUnloadRequest& request) {
  const auto found = request.parameters().find("unload_dependents");
  if (found == request.parameters().end() ||
      found->second.parameter_choice_case() ==
          ModelRepositoryParameter::kBoolParam) {
    return absl::OkStatus();  // no model has dependents
  }
  return absl::InvalidArgumentError(
      "invalid value type for 'unload_dependents' parameter, expected "
      "bool_param.");
}

absl::Status CheckControl(const ModelManager& manager) {
  if (manager.explicit_control()) return absl::OkStatus();
  return absl::UnavailableError(
      "explicit model load / unload is not allowed: the server follows its "
      "model repository, expected it to run with --model-control explicit");
}

// A load or an unload: `check` says whether the request is right.
template <typename Request, typename Response>
void AddChange(MethodTable& methods, const char* name, ModelManager& manager,
               absl::Status (*check)(const Request&),
               void (ModelManager::*change)(std::string, ModelManager::Done)) {
  AddUnaryLater(methods, InferencePath(name),
                [&manager, check, change](const ByteChain& bytes,
                                          const AnswerLater& answer) {
                  Request request;
                  absl::Status status = CheckControl(manager);
                  if (status.ok()) status = ParseMessage(bytes, request);
                  if (status.ok())
                    status = CheckRepositoryName(request.repository_name());
                  if (status.ok()) status = check(request);
                  if (!status.ok()) return answer(status);
                  (manager.*change)(request.model_name(),
                                    [answer](const absl::Status& done) {
                                      if (!done.ok()) return answer(done);
                                      answer(SerialisedMessage(Response()));
                                    });
                });
}

void AddIndex(MethodTable& methods, ModelManager& manager) {
  AddUnaryLater(methods, InferencePath("RepositoryIndex"),
                [&manager](const ByteChain& bytes, const AnswerLater& answer) {
                  inference::RepositoryIndexRequest request;
                  absl::Status status = ParseMessage(bytes, request);
                  if (status.ok())
                    status = CheckRepositoryName(request.repository_name());
                  if (!status.ok()) return answer(status);
                  const auto fill = [&manager, answer, ready = request.ready()](
                                        const absl::Status& looked) {
                    if (!looked.ok()) return answer(looked);
                    inference::RepositoryIndexResponse response;
                    FillRepositoryIndex(manager.Index(), ready, &response);
                    answer(SerialisedMessage(response));
                  };
                  // What a folder holds that is polled is known already.
                  if (manager.explicit_control()) {
                    manager.RefreshIndex(fill);
                  } else {
                    fill(absl::OkStatus());
                  }
                });
}

}  // namespace

void AddRepositoryMethods(MethodTable& methods, ModelManager& manager) {
  AddChange<inference::RepositoryModelLoadRequest,
            inference::RepositoryModelLoadResponse>(
      methods, "RepositoryModelLoad", manager, CheckLoad, &ModelManager::Load);
  AddChange<inference::RepositoryModelUnloadRequest,
            inference::RepositoryModelUnloadResponse>(
      methods, "RepositoryModelUnload", manager, CheckUnload,
      &ModelManager::Unload);
  AddIndex(methods, manager);
}

}  // namespace stoker
