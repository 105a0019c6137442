#include "rpc/repository_service.h"

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "open_inference.pb.h"
#include "rpc/load_request.h"
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

// Whether the models go, too, that were loaded with it as its steps.
absl::StatusOr<bool> UnloadsSteps(
    const inference::RepositoryModelUnloadRequest& request) {
  const auto found = request.parameters().find("unload_dependents");
  if (found == request.parameters().end()) return false;
  if (found->second.parameter_choice_case() ==
      ModelRepositoryParameter::kBoolParam) {
    return found->second.bool_param();
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

// What a change is answered with.
ModelManager::Done Answering(const AnswerLater& answer,
                             const google::protobuf::Message& done) {
  return [answer, bytes = SerialisedMessage(done)](const absl::Status& status) {
    if (!status.ok()) return answer(status);
    answer(bytes);
  };
}

void AddLoad(MethodTable& methods, const RepositoryServices& services) {
  ModelManager& manager = services.manager;
  CompletionThread& loads = services.loads;
  const auto load = [&manager](const ByteChain& bytes,
                               const AnswerLater& answer) {
    absl::StatusOr<LoadRequest> request = ReadLoadRequest(bytes);
    absl::Status status = request.status();
    if (status.ok()) status = CheckRepositoryName(request->repository);
    if (!status.ok()) return answer(status);
    const ModelOverride override = std::move(request->override);
    manager.Load(request->model, override,
                 Answering(answer, inference::RepositoryModelLoadResponse()));
  };
  AddLargeUnaryLater(
      methods, InferencePath("RepositoryModelLoad"), services.admission,
      manager.explicit_control() ? services.max_load_bytes : kSmallMessageBytes,
      [&manager, &loads, load](const ByteChain& bytes, HeldMemory memory,
                               const AnswerLater& answer) {
        const absl::Status may = CheckControl(manager);
        if (!may.ok()) return answer(may);
        loads.Run([load, bytes = ByteChain(bytes), memory = std::move(memory),
                   answer] { load(bytes, answer); });
      });
}

void AddUnload(MethodTable& methods, ModelManager& manager) {
  AddUnaryLater(methods, InferencePath("RepositoryModelUnload"),
                [&manager](const ByteChain& bytes, const AnswerLater& answer) {
                  inference::RepositoryModelUnloadRequest request;
                  absl::Status status = CheckControl(manager);
                  if (status.ok()) status = ParseMessage(bytes, request);
                  if (status.ok())
                    status = CheckRepositoryName(request.repository_name());
                  if (!status.ok()) return answer(status);
                  const absl::StatusOr<bool> steps = UnloadsSteps(request);
                  if (!steps.ok()) return answer(steps.status());
                  const ModelManager::Done done = Answering(
                      answer, inference::RepositoryModelUnloadResponse());
                  if (*steps)
                    return manager.UnloadWithSteps(request.model_name(), done);
                  manager.Unload(request.model_name(), done);
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

void AddRepositoryMethods(MethodTable& methods,
                          const RepositoryServices& services) {
  AddLoad(methods, services);
  AddUnload(methods, services.manager);
  AddIndex(methods, services.manager);
}

}  // namespace stoker
