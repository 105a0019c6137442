#include "loadtest/generator/messages.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "loadtest/generator/input_values.h"

namespace stoker::loadtest {
namespace {

// One input: where each of its axes gets its size from.
struct InputPlan {
  std::string name;
  DataType dtype = DataType::kFp32;
  std::string datatype;
  Shape shape;                 // constant axes as they are
  std::vector<int> dimension;  // per axis: index, or -1 for a constant
  std::optional<ValueRange> range;
};

std::string AxisName(const std::string& input, int axis) {
  return absl::StrCat(input, ".", axis);
}

absl::StatusOr<InputPlan> PlanInput(
    const inference::ModelMetadataResponse::TensorMetadata& input,
    const Scenario& scenario, std::map<std::string, int>* axes) {
  InputPlan plan{input.name(), DataType::kFp32, input.datatype(), {}, {}, {}};
  const auto dtype = ParseDataType(input.datatype());
  if (!dtype) {
    return absl::InvalidArgumentError(
        absl::StrCat("input ", input.name(),
                     ": expected a datatype of the Open Inference Protocol, "
                     "got ",
                     input.datatype()));
  }
  plan.dtype = *dtype;
  for (int axis = 0; axis < input.shape_size(); ++axis) {
    const auto found = axes->find(AxisName(input.name(), axis));
    int dimension = -1;
    if (found != axes->end()) {
      dimension = found->second;
      axes->erase(found);
    } else if (input.shape(axis) < 0 && axis > 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          "input ", input.name(),
          ": expected a size for every dynamic axis, got none for ",
          AxisName(input.name(), axis), " (name it in a dimension's axes)"));
    }
    plan.dimension.push_back(dimension);
    plan.shape.push_back(input.shape(axis) < 0 ? 1 : input.shape(axis));
  }
  const auto range = scenario.ranges.find(input.name());
  if (range != scenario.ranges.end()) {
    const absl::Status fits = CheckRange(*dtype, range->second);
    if (!fits.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("input ", input.name(), ": ", fits.message()));
    }
    plan.range = range->second;
  }
  return plan;
}

absl::StatusOr<std::vector<InputPlan>> PlanInputs(
    const Scenario& scenario, const inference::ModelMetadataResponse& model) {
  std::map<std::string, int> axes;
  for (size_t i = 0; i < scenario.dimensions.size(); ++i) {
    for (const std::string& axis : scenario.dimensions[i].axes)
      axes[axis] = static_cast<int>(i);
  }
  std::vector<InputPlan> plans;
  std::vector<std::string> names;
  for (const auto& input : model.inputs()) {
    ASSIGN_OR_RETURN(InputPlan plan, PlanInput(input, scenario, &axes));
    plans.push_back(std::move(plan));
    names.push_back(input.name());
  }
  const auto unknown = [&](const std::string& what, const std::string& name) {
    return absl::InvalidArgumentError(absl::StrCat(
        "model ", model.name(), ": expected ", what, " of its inputs ",
        absl::StrJoin(names, ", "), ", got ", name));
  };
  if (!axes.empty()) return unknown("axes", axes.begin()->first);
  for (const auto& [name, range] : scenario.ranges) {
    if (std::find(names.begin(), names.end(), name) == names.end())
      return unknown("ranges", name);
  }
  return plans;
}

void SetParameters(const Scenario& scenario,
                   inference::ModelInferRequest* request) {
  for (const auto& [name, value] : scenario.parameters) {
    inference::InferParameter& to = (*request->mutable_parameters())[name];
    if (const auto* flag = std::get_if<bool>(&value)) to.set_bool_param(*flag);
    if (const auto* number = std::get_if<int64_t>(&value))
      to.set_int64_param(*number);
    if (const auto* number = std::get_if<double>(&value))
      to.set_double_param(*number);
    if (const auto* text = std::get_if<std::string>(&value))
      to.set_string_param(*text);
  }
}

absl::Status Fill(const std::vector<InputPlan>& plans,
                  const std::vector<int64_t>& sizes, Random& random,
                  size_t bytes_before, inference::ModelInferRequest* request) {
  size_t bytes = bytes_before;
  for (const InputPlan& plan : plans) {
    Shape shape = plan.shape;
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      if (plan.dimension[axis] >= 0) shape[axis] = sizes[plan.dimension[axis]];
    }
    const auto count = ElementCount(shape);
    const size_t element = std::max<size_t>(DataTypeSize(plan.dtype), 1);
    if (!count ||
        static_cast<size_t>(*count) > (kMaxMessageBytes - bytes) / element) {
      return absl::InvalidArgumentError(absl::StrCat(
          "expected at most ", kMaxMessageBytes,
          " bytes for all requests together, got more: lower `messages`, or "
          "the sizes"));
    }
    bytes += static_cast<size_t>(*count) * element;
    auto* tensor = request->add_inputs();
    tensor->set_name(plan.name);
    tensor->set_datatype(plan.datatype);
    for (const int64_t size : shape) tensor->add_shape(size);
    *request->add_raw_input_contents() =
        RawValues(plan.dtype, *count, plan.range, random);
  }
  return absl::OkStatus();
}

// Maps in the order of their keys: one seed gives the same bytes every time.
std::string Serialise(const inference::ModelInferRequest& request) {
  std::string bytes;
  google::protobuf::io::StringOutputStream stream(&bytes);
  google::protobuf::io::CodedOutputStream coded(&stream);
  coded.SetSerializationDeterministic(true);
  request.SerializeToCodedStream(&coded);
  coded.Trim();
  return bytes;
}

}  // namespace

size_t Messages::total_bytes() const {
  size_t bytes = 0;
  for (const grpc::ByteBuffer& buffer : buffers) bytes += buffer.Length();
  return bytes;
}

absl::StatusOr<Trace> DrawSizes(const Scenario& scenario) {
  if (scenario.trace) {
    std::vector<std::string> names;
    for (const MixedDimension& dimension : scenario.dimensions)
      names.push_back(dimension.name);
    return ReadTrace(scenario.trace->path, names);
  }
  Trace drawn;
  Random random(scenario.seed);
  for (int i = 0; i < scenario.messages; ++i) {
    std::vector<int64_t>& sizes = drawn.sizes.emplace_back();
    for (const MixedDimension& dimension : scenario.dimensions)
      sizes.push_back(DrawSize(dimension.sizes, random));
  }
  return drawn;
}

absl::StatusOr<Messages> MakeMessages(
    const Scenario& scenario, const inference::ModelMetadataResponse& model) {
  ASSIGN_OR_RETURN(const std::vector<InputPlan> plans,
                   PlanInputs(scenario, model));
  ASSIGN_OR_RETURN(Trace trace, DrawSizes(scenario));
  Messages messages;
  messages.offsets_ns = std::move(trace.offsets_ns);
  if (scenario.shared_memory) {
    ASSIGN_OR_RETURN(messages.shared, SharedInputs::Make());
  }
  // Values of their own: another mix leaves them as they are.
  Random random(scenario.seed ^ 0x76616c756573);
  // A trace may be long, and says nothing about values: one message for each
  // distinct row.
  std::map<std::vector<int64_t>, uint32_t> known;
  size_t bytes = 0;
  for (const std::vector<int64_t>& sizes : trace.sizes) {
    const auto next = static_cast<uint32_t>(messages.buffers.size());
    if (scenario.trace) {
      const auto [found, added] = known.emplace(sizes, next);
      messages.order.push_back(found->second);
      if (!added) continue;
    } else {
      messages.order.push_back(next);
    }
    inference::ModelInferRequest request;
    request.set_model_name(scenario.model);
    request.set_model_version(scenario.version);
    SetParameters(scenario, &request);
    RETURN_IF_ERROR(Fill(plans, sizes, random, bytes, &request));
    if (messages.shared != nullptr) {
      RETURN_IF_ERROR(messages.shared->Move(request));
      bytes = messages.shared->size();
    }
    const grpc::Slice slice(Serialise(request));
    bytes += slice.size();
    messages.buffers.emplace_back(&slice, 1);
    messages.sizes.push_back(sizes);
  }
  return messages;
}

}  // namespace stoker::loadtest
