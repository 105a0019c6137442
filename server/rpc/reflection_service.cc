#include "rpc/reflection_service.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>

#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error_text.h"
#include "rpc/status_mapping.h"
#include "rpc/unary_method.h"
#include "wire/call.h"

namespace stoker {
namespace {

using google::protobuf::DescriptorPool;
using ProtoFile = google::protobuf::FileDescriptor;
using grpc::reflection::v1alpha::FileDescriptorResponse;
using grpc::reflection::v1alpha::ServerReflectionRequest;
using grpc::reflection::v1alpha::ServerReflectionResponse;

// The file and what it imports, each once.
void AddFiles(const ProtoFile& file, std::set<const ProtoFile*>& seen,
              FileDescriptorResponse& response) {
  if (!seen.insert(&file).second) return;
  google::protobuf::FileDescriptorProto description;
  file.CopyTo(&description);
  response.add_file_descriptor_proto(description.SerializeAsString());
  for (int i = 0; i < file.dependency_count(); ++i) {
    AddFiles(*file.dependency(i), seen, response);
  }
}

void SetFile(const ProtoFile* file, std::string_view what,
             ServerReflectionResponse& response) {
  if (file == nullptr) {
    auto& error = *response.mutable_error_response();
    error.set_error_code(static_cast<int>(absl::StatusCode::kNotFound));
    error.set_error_message(absl::StrCat("not found: '", Excerpt(what), "'"));
    return;
  }
  std::set<const ProtoFile*> seen;
  AddFiles(*file, seen, *response.mutable_file_descriptor_response());
}

// One call: an answer for each request before the next is read.
class Reflection final : public CallHandler {
 public:
  Reflection(Call& call, const std::vector<std::string>& services,
             Admission* admission)
      : call_(call), services_(services) {
    if (admission != nullptr) ticket_.emplace(*admission);
  }

  void OnStart() override {
    if (ticket_.has_value()) {
      const absl::Status full =
          ticket_->TakeIdle(Admission::Idle::kStreams, Admission::kCallBytes);
      if (!full.ok()) return call_.Finish(ToCallStatus(full));
    }
    call_.Read();
  }
  CallStatus Reserve(size_t bytes) override { return SmallMessage(bytes); }
  void OnMessage(const ByteChain& message) override {
    ServerReflectionRequest request;
    if (const absl::Status status = ParseMessage(message, request);
        !status.ok()) {
      call_.Finish(ToCallStatus(status));
      return;
    }
    writing_ = true;
    call_.Write(SerialisedMessage(Reflect(request, services_)));
  }
  void OnWritten(bool ok) override {
    writing_ = false;
    if (stopping_) {
      OnStop();
    } else if (ok) {
      call_.Read();
    } else {
      call_.Finish({absl::StatusCode::kCancelled, "", ""});
    }
  }
  void OnEndOfMessages() override { call_.Finish(CallStatus()); }
  void OnStop() override {
    stopping_ = true;
    if (writing_) return;
    call_.Finish(ToCallStatus(absl::UnavailableError("Server exiting")));
  }

 private:
  // Touched on the call's loop only.
  Call& call_;
  const std::vector<std::string>& services_;
  std::optional<Admission::Ticket> ticket_;
  bool writing_ = false;
  bool stopping_ = false;
};

}  // namespace

ServerReflectionResponse Reflect(const ServerReflectionRequest& request,
                                 const std::vector<std::string>& services) {
  const DescriptorPool& pool = *DescriptorPool::generated_pool();
  ServerReflectionResponse response;
  response.set_valid_host(request.host());
  *response.mutable_original_request() = request;
  switch (request.message_request_case()) {
    case ServerReflectionRequest::kListServices:
      for (const std::string& service : services) {
        response.mutable_list_services_response()->add_service()->set_name(
            service);
      }
      break;
    case ServerReflectionRequest::kFileByFilename:
      SetFile(pool.FindFileByName(request.file_by_filename()),
              request.file_by_filename(), response);
      break;
    case ServerReflectionRequest::kFileContainingSymbol:
      SetFile(pool.FindFileContainingSymbol(request.file_containing_symbol()),
              request.file_containing_symbol(), response);
      break;
    case ServerReflectionRequest::kFileContainingExtension:
      SetFile(nullptr, request.file_containing_extension().containing_type(),
              response);
      break;
    case ServerReflectionRequest::kAllExtensionNumbersOfType:
      SetFile(nullptr, request.all_extension_numbers_of_type(), response);
      break;
    case ServerReflectionRequest::MESSAGE_REQUEST_NOT_SET: {
      auto& error = *response.mutable_error_response();
      error.set_error_code(
          static_cast<int>(absl::StatusCode::kInvalidArgument));
      error.set_error_message("expected one of the requests, got none");
      break;
    }
  }
  return response;
}

void AddReflection(MethodTable& methods,
                   const std::vector<std::string>& services,
                   Admission* admission) {
  for (const char* package : {"v1", "v1alpha"}) {
    // The table owns the names and outlives the calls.
    methods.Add(absl::StrCat("/grpc.reflection.", package,
                             ".ServerReflection/ServerReflectionInfo"),
                [services, admission](Call& call) {
                  return std::make_unique<Reflection>(call, services,
                                                      admission);
                });
  }
}

}  // namespace stoker
