#include "loadtest/generator/client.h"

#include <chrono>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "tensor/tensor.h"

namespace stoker::loadtest {
namespace {

constexpr absl::Duration kCallTimeout = absl::Seconds(60);

std::chrono::system_clock::time_point After(absl::Duration duration) {
  return std::chrono::system_clock::now() +
         absl::ToChronoMilliseconds(duration);
}

constexpr char kTls[] = "tls:";

absl::Status FromGrpc(const grpc::Status& status, const std::string& what) {
  if (status.ok()) return absl::OkStatus();
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()),
                      absl::StrCat(what, ": ", status.error_message()));
}

std::unique_ptr<inference::GRPCInferenceService::Stub> StubOf(
    const std::shared_ptr<grpc::Channel>& channel) {
  return inference::GRPCInferenceService::NewStub(channel);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Client>> Client::Connect(
    const std::string& address, int connections, absl::Duration timeout) {
  std::vector<std::shared_ptr<grpc::Channel>> channels;
  for (int i = 0; i < connections; ++i) {
    grpc::ChannelArguments arguments;
    // Channels with equal arguments share a connection otherwise.
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    arguments.SetMaxReceiveMessageSize(-1);
    arguments.SetMaxSendMessageSize(-1);
    const bool tls = absl::StartsWith(address, kTls);
    channels.push_back(grpc::CreateCustomChannel(
        std::string(absl::StripPrefix(address, kTls)),
        tls ? grpc::SslCredentials({}) : grpc::InsecureChannelCredentials(),
        arguments));
  }
  const auto deadline = After(timeout);
  for (const auto& channel : channels) {
    if (!channel->WaitForConnected(deadline)) {
      return absl::UnavailableError(absl::StrCat(
          "expected a gRPC server at ", address, ", got no connection within ",
          absl::FormatDuration(timeout)));
    }
  }
  return std::unique_ptr<Client>(new Client(address, std::move(channels)));
}

absl::StatusOr<inference::ModelMetadataResponse> Client::ModelMetadata(
    const std::string& model, const std::string& version) const {
  inference::ModelMetadataRequest request;
  request.set_name(model);
  request.set_version(version);
  inference::ModelMetadataResponse response;
  grpc::ClientContext context;
  context.set_deadline(After(kCallTimeout));
  RETURN_IF_ERROR(FromGrpc(
      StubOf(channels_[0])->ModelMetadata(&context, request, &response),
      absl::StrCat("ModelMetadata of ", model, " at ", address_)));
  return response;
}

inference::ServerMetadataResponse Client::ServerMetadata() const {
  inference::ServerMetadataResponse response;
  grpc::ClientContext context;
  context.set_deadline(After(kCallTimeout));
  const grpc::Status status =
      StubOf(channels_[0])->ServerMetadata(&context, {}, &response);
  if (!status.ok()) response.Clear();
  return response;
}

void Client::Unregister() const {
  inference::SystemSharedMemoryUnregisterRequest request;
  request.set_name(SharedInputs::kRegion);
  inference::SystemSharedMemoryUnregisterResponse response;
  grpc::ClientContext context;
  context.set_deadline(After(kCallTimeout));
  // A server that is gone has forgotten it.
  StubOf(channels_[0])
      ->SystemSharedMemoryUnregister(&context, request, &response);
}

absl::Status Client::Register(const SharedInputs& inputs) const {
  Unregister();
  inference::SystemSharedMemoryRegisterRequest request;
  request.set_name(SharedInputs::kRegion);
  request.set_key(inputs.key());
  request.set_byte_size(inputs.size());
  inference::SystemSharedMemoryRegisterResponse response;
  grpc::ClientContext context;
  context.set_deadline(After(kCallTimeout));
  return FromGrpc(
      StubOf(channels_[0])
          ->SystemSharedMemoryRegister(&context, request, &response),
      "registering shared memory at " + address_);
}

absl::Status Client::TryOnce(const grpc::ByteBuffer& message,
                             bool stream) const {
  grpc::ByteBuffer copy = message;
  inference::ModelInferRequest request;
  const grpc::Status parsed =
      grpc::SerializationTraits<inference::ModelInferRequest>::Deserialize(
          &copy, &request);
  RETURN_IF_ERROR(FromGrpc(parsed, "the request"));
  const std::string what =
      absl::StrCat("trying one request of ", request.model_name());
  grpc::ClientContext context;
  context.set_deadline(After(kCallTimeout));
  if (!stream) {
    inference::ModelInferResponse answer;
    RETURN_IF_ERROR(FromGrpc(
        StubOf(channels_[0])->ModelInfer(&context, request, &answer), what));
    return CheckAnswer(answer);
  }
  inference::ModelStreamInferResponse answer;
  const auto call = StubOf(channels_[0])->ModelStreamInfer(&context);
  call->Write(request);
  call->WritesDone();
  const bool came = call->Read(&answer);
  inference::ModelStreamInferResponse more;
  while (call->Read(&more)) {
  }
  RETURN_IF_ERROR(FromGrpc(call->Finish(), what));
  if (!came)
    return absl::InternalError(what + ": expected an answer, got none");
  if (!answer.error_message().empty())
    return absl::InternalError(
        absl::StrCat(what, ": ", answer.error_message()));
  return CheckAnswer(answer.infer_response());
}

absl::Status CheckAnswer(const inference::ModelInferResponse& answer) {
  // Typed contents are few servers' way; their sizes are not checked.
  if (answer.raw_output_contents().empty()) return absl::OkStatus();
  if (answer.raw_output_contents_size() != answer.outputs_size()) {
    return absl::InternalError(absl::StrCat(
        "expected one raw entry for each of ", answer.outputs_size(),
        " outputs, got ", answer.raw_output_contents_size()));
  }
  for (int i = 0; i < answer.outputs_size(); ++i) {
    const auto& output = answer.outputs(i);
    const auto dtype = ParseDataType(output.datatype());
    const Shape shape(output.shape().begin(), output.shape().end());
    const auto count = ElementCount(shape);
    if (dtype == DataType::kBytes) continue;
    if (!dtype || !count ||
        answer.raw_output_contents(i).size() !=
            static_cast<size_t>(*count) * DataTypeSize(*dtype)) {
      return absl::InternalError(
          absl::StrCat("output ", output.name(), ": expected the bytes of ",
                       output.datatype(), " ", ShapeString(shape), ", got ",
                       answer.raw_output_contents(i).size()));
    }
  }
  return absl::OkStatus();
}

}  // namespace stoker::loadtest
