// The methods of proto/open_inference.proto. Every call but inference is
// answered at once on its loop; inference goes through InferCall.
//
// Thread-safe.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "open_inference.pb.h"
#include "rpc/infer_call.h"
#include "rpc/method_table.h"

namespace stoker {

class InferenceService {
 public:
  InferenceService(std::string version, const InferCall::Services& services);

  const InferCall::Services& services() const { return services_; }

  // The methods refer to this object, which outlives their calls.
  void AddMethods(MethodTable& methods) const;

 private:
  void AddInference(MethodTable& methods) const;
  void AddQueries(MethodTable& methods) const;

  // A method of this object for a method of the service.
  template <typename Request, typename Response>
  void Add(MethodTable& methods, const char* name,
           absl::Status (InferenceService::*answer)(const Request&, Response&)
               const) const;
  absl::Status ServerLive(const inference::ServerLiveRequest& request,
                          inference::ServerLiveResponse& response) const;
  absl::Status ServerReady(const inference::ServerReadyRequest& request,
                           inference::ServerReadyResponse& response) const;
  absl::Status ModelReady(const inference::ModelReadyRequest& request,
                          inference::ModelReadyResponse& response) const;
  absl::Status ServerMetadata(
      const inference::ServerMetadataRequest& request,
      inference::ServerMetadataResponse& response) const;
  absl::Status ModelMetadata(const inference::ModelMetadataRequest& request,
                             inference::ModelMetadataResponse& response) const;
  absl::Status ModelConfig(const inference::ModelConfigRequest& request,
                           inference::ModelConfigResponse& response) const;
  absl::Status ModelStatistics(
      const inference::ModelStatisticsRequest& request,
      inference::ModelStatisticsResponse& response) const;

  absl::StatusOr<ModelHandle> Acquire(const std::string& model,
                                      const std::string& version) const;

  const std::string version_;
  const InferCall::Services services_;
};

}  // namespace stoker
