#include "rpc/shared_tensors.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error_text.h"
#include "base/status_macros.h"
#include "repository/model_spec.h"
#include "rpc/request_parameters.h"

namespace stoker {
namespace {

// The tensor's range is put into `ranges`, which have room for `count` then.
absl::Status FindOne(absl::string_view kind, std::string_view name,
                     const ParameterMap* parameters,
                     const SharedMemoryRegions* regions, size_t position,
                     size_t count, std::vector<SharedMemoryRange>& ranges) {
  if (parameters == nullptr) return absl::OkStatus();
  const std::string tensor = absl::StrCat(kind, " '", Excerpt(name), "'");
  ASSIGN_OR_RETURN(const TensorParameters parsed,
                   ParseTensorParameters(tensor, *parameters));
  if (!parsed.shared_memory.has_value()) return absl::OkStatus();
  if (regions == nullptr) {
    return absl::UnimplementedError(absl::StrCat(
        tensor, ": shared memory of clients is not allowed by this server"));
  }
  const SharedMemoryParameters& place = *parsed.shared_memory;
  ASSIGN_OR_RETURN(SharedMemoryRange range,
                   regions->Find(place.region, place.offset, place.byte_size));
  ranges.resize(count);
  ranges[position] = std::move(range);
  return absl::OkStatus();
}

}  // namespace

const SharedMemoryRange* SharedTensors::Input(size_t position) const {
  const bool shared =
      position < inputs.size() && inputs[position].region != nullptr;
  return shared ? &inputs[position] : nullptr;
}

size_t SharedTensors::InMessage(size_t count) const {
  size_t in_message = 0;
  for (size_t i = 0; i < count; ++i) in_message += Input(i) == nullptr;
  return in_message;
}

size_t SharedTensors::input_bytes() const {
  size_t bytes = 0;
  for (const SharedMemoryRange& range : inputs) bytes += range.byte_size;
  return bytes;
}

absl::StatusOr<SharedTensors> FindSharedTensors(
    const RequestView& request, const SharedMemoryRegions* regions) {
  SharedTensors shared;
  for (size_t i = 0; i < request.inputs.size(); ++i) {
    const RequestView::Input& input = request.inputs[i];
    RETURN_IF_ERROR(FindOne("input", input.name, input.parameters, regions, i,
                            request.inputs.size(), shared.inputs));
    if (input.contents != nullptr && shared.Input(i) != nullptr) {
      return absl::InvalidArgumentError(absl::StrCat(
          "unexpected 'content' provided when using shared memory for input "
          "tensor '",
          Excerpt(input.name), "'"));
    }
  }
  for (size_t i = 0; i < request.outputs.size(); ++i) {
    const RequestView::Output& output = request.outputs[i];
    RETURN_IF_ERROR(FindOne("output", output.name, output.parameters, regions,
                            i, request.outputs.size(), shared.outputs));
  }
  return shared;
}

absl::Status WriteSharedOutputs(const ModelSpec& spec,
                                absl::Span<const SharedMemoryRange> places,
                                absl::Span<const int> indices,
                                absl::Span<Tensor> outputs) {
  for (size_t i = 0; i < places.size(); ++i) {
    const SharedMemoryRange& place = places[i];
    if (place.region == nullptr) continue;
    const auto index = static_cast<size_t>(indices[i]);
    Tensor& output = outputs[index];
    if (output.byte_size > place.byte_size) {
      return absl::InvalidArgumentError(absl::StrCat(
          "shared memory size specified with the request for output '",
          spec.outputs[index].name, "' (", place.byte_size,
          " bytes) should be at least ", output.byte_size,
          " bytes to hold the results"));
    }
    RETURN_IF_ERROR(
        place.region->Write(place.offset, output.data, output.byte_size));
    output.data = nullptr;
    output.byte_size = 0;
    output.owner.reset();
  }
  return absl::OkStatus();
}

}  // namespace stoker
