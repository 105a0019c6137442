#include "rpc/model_service.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/absl_view.h"
#include "base/error_text.h"
#include "base/utf8.h"
#include "repository/model_spec.h"
#include "repository/pipeline_spec.h"
#include "repository/snapshot_source.h"

namespace stoker {
namespace {

// What names the kind of model to clients; "ensemble" and others have a meaning
// there.
constexpr char kPlatform[] = "stoker_pt2";
constexpr char kEnsemble[] = "ensemble";
constexpr char kPipeline[] = "stoker_pipeline";
constexpr char kBackend[] = "stoker";

// Clients ask for the models of an ensemble, and a tokenizer is none.
std::string_view PlatformOf(const ModelSpec& spec) {
  if (spec.pipeline == nullptr) return kPlatform;
  const bool of_models =
      std::none_of(spec.pipeline->steps.begin(), spec.pipeline->steps.end(),
                   [](const auto& step) { return step.is_tokenizer(); });
  return of_models ? kEnsemble : kPipeline;
}

void FillSteps(const PipelineSpec& pipeline, inference::ModelEnsembling* out) {
  for (const PipelineStep& step : pipeline.steps) {
    inference::ModelEnsembling::Step& added = *out->add_step();
    added.set_model_name(step.model);
    added.set_model_version(step.version > 0 ? step.version : -1);
    for (const StepTensor& in : step.inputs) {
      (*added.mutable_input_map())[in.own] = in.tensor;
    }
    for (const StepTensor& made : step.outputs) {
      (*added.mutable_output_map())[made.own] = made.tensor;
    }
  }
}

inference::DataType ConfigType(DataType dtype) {
  switch (dtype) {
    case DataType::kBool:
      return inference::TYPE_BOOL;
    case DataType::kUint8:
      return inference::TYPE_UINT8;
    case DataType::kUint16:
      return inference::TYPE_UINT16;
    case DataType::kUint32:
      return inference::TYPE_UINT32;
    case DataType::kUint64:
      return inference::TYPE_UINT64;
    case DataType::kInt8:
      return inference::TYPE_INT8;
    case DataType::kInt16:
      return inference::TYPE_INT16;
    case DataType::kInt32:
      return inference::TYPE_INT32;
    case DataType::kInt64:
      return inference::TYPE_INT64;
    case DataType::kFp16:
      return inference::TYPE_FP16;
    case DataType::kFp32:
      return inference::TYPE_FP32;
    case DataType::kFp64:
      return inference::TYPE_FP64;
    case DataType::kBf16:
      return inference::TYPE_BF16;
    case DataType::kBytes:
      return inference::TYPE_STRING;
  }
  return inference::TYPE_INVALID;
}

// As clients have it.
template <typename TensorSpec>
DataType WireType(const TensorSpec& spec) {
  return spec.is_bytes ? DataType::kBytes : spec.dtype;
}

template <typename TensorSpec>
absl::Span<const DimExpr> WireDims(const TensorSpec& spec) {
  return absl::MakeConstSpan(spec.dims).first(spec.dims.size() -
                                              (spec.is_bytes ? 1 : 0));
}

int64_t WireSize(const DimExpr& dim) {
  return dim.is_constant() ? dim.constant() : -1;
}

template <typename TensorSpec>
void FillTensorMetadata(const TensorSpec& spec,
                        inference::ModelMetadataResponse::TensorMetadata* out) {
  out->set_name(spec.name);
  out->set_datatype(std::string(DataTypeName(WireType(spec))));
  if (spec.reshape.has_value()) {
    for (const int64_t size : spec.reshape->dims) out->add_shape(size);
    return;
  }
  for (const DimExpr& dim : WireDims(spec)) out->add_shape(WireSize(dim));
}

template <typename TensorSpec, typename ConfigTensor>
void FillConfigTensor(const TensorSpec& spec, bool batched, ConfigTensor* out) {
  out->set_name(spec.name);
  out->set_data_type(ConfigType(WireType(spec)));
  const size_t first = batched ? 1 : 0;
  if (spec.reshape.has_value()) {
    const auto own = [first](const Shape& shape) {
      return absl::MakeConstSpan(shape).subspan(first);
    };
    out->mutable_dims()->Add(own(spec.reshape->dims).begin(),
                             own(spec.reshape->dims).end());
    out->mutable_reshape()->mutable_shape()->Add(
        own(spec.reshape->shape).begin(), own(spec.reshape->shape).end());
    return;
  }
  for (const DimExpr& dim : WireDims(spec).subspan(first)) {
    out->add_dims(WireSize(dim));
  }
}

void FillDuration(const DurationStat& stat, inference::StatisticDuration* out) {
  out->set_count(stat.count);
  out->set_ns(stat.ns);
}

std::string IndexState(VersionState state) {
  switch (state) {
    case VersionState::kNew:
    case VersionState::kLoading:
    case VersionState::kWarming:
      return "LOADING";
    case VersionState::kServing:
      return "READY";
    case VersionState::kDraining:
      return "UNLOADING";
    case VersionState::kResting:
    case VersionState::kUnloaded:
    case VersionState::kFailed:
      return "UNAVAILABLE";
  }
  return "UNKNOWN";
}

void FillQueuePolicy(const QueuePolicySpec& policy,
                     inference::ModelQueuePolicy* out) {
  using inference::ModelQueuePolicy;
  out->set_timeout_action(policy.delay_on_timeout ? ModelQueuePolicy::DELAY
                                                  : ModelQueuePolicy::REJECT);
  if (policy.default_timeout != absl::InfiniteDuration()) {
    out->set_default_timeout_microseconds(static_cast<uint64_t>(
        absl::ToInt64Microseconds(policy.default_timeout)));
  }
  out->set_allow_timeout_override(policy.allow_timeout_override);
  out->set_max_queue_size(static_cast<uint32_t>(policy.max_queue_size));
}

void FillDynamicBatching(const DynamicBatchingSpec& spec,
                         inference::ModelDynamicBatching* out) {
  for (const int size : spec.preferred_batch_sizes) {
    out->add_preferred_batch_size(size);
  }
  out->set_max_queue_delay_microseconds(
      static_cast<uint64_t>(absl::ToInt64Microseconds(spec.max_queue_delay)));
  out->set_preserve_ordering(spec.preserve_ordering);
  out->set_priority_levels(spec.policies.size());
  out->set_default_priority_level(
      static_cast<uint64_t>(spec.default_priority_level));
  const size_t usual = static_cast<size_t>(spec.default_priority_level) - 1;
  FillQueuePolicy(spec.policies[usual], out->mutable_default_queue_policy());
  for (size_t level = 0; level < spec.policies.size(); ++level) {
    FillQueuePolicy(spec.policies[level],
                    &(*out->mutable_priority_queue_policy())[level + 1]);
  }
}

}  // namespace

absl::StatusOr<WantedVersion> ParseVersion(std::string_view version) {
  if (version.empty()) return WantedVersion();
  if (IsAlias(version)) return WantedVersion{.alias = version};
  int64_t value = 0;
  const bool digits =
      std::all_of(version.begin(), version.end(), absl::ascii_isdigit);
  if (!digits || !absl::SimpleAtoi(Absl(version), &value) || value <= 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "failed to get model version from specified version string '",
        Excerpt(version), "': version should be an integral value > 0"));
  }
  return WantedVersion{.number = value};
}

void FillServerMetadata(std::string_view name, std::string_view version,
                        bool shared_memory,
                        inference::ServerMetadataResponse* response) {
  response->set_name(std::string(name));
  response->set_version(std::string(version));
  // model_repository: the index works, and refusing explicit loads is one of
  // the extension's modes.
  for (const char* extension :
       {"model_repository", "model_configuration", "binary_tensor_data",
        "parameters", "statistics", "classification", "trace", "logging"}) {
    response->add_extensions(extension);
  }
  if (shared_memory) response->add_extensions("system_shared_memory");
}

void FillModelMetadata(const ModelSpec& spec,
                       inference::ModelMetadataResponse* response) {
  response->set_name(spec.name);
  response->set_platform(std::string(PlatformOf(spec)));
  for (const InputSpec& input : spec.inputs) {
    if (input.batch_input.has_value()) continue;
    FillTensorMetadata(input, response->add_inputs());
  }
  for (const OutputSpec& output : spec.outputs) {
    FillTensorMetadata(output, response->add_outputs());
  }
}

void FillModelConfig(const ModelSpec& spec, inference::ModelConfig* config) {
  const bool batched =
      spec.batch_dimension.has_value() && spec.max_batch_size > 0;
  config->set_name(spec.name);
  config->set_platform(std::string(PlatformOf(spec)));
  if (batched) {
    config->set_max_batch_size(static_cast<int32_t>(std::min<int64_t>(
        spec.ragged() ? spec.max_ragged_requests : spec.max_batch_size,
        std::numeric_limits<int32_t>::max())));
  }
  for (const InputSpec& input : spec.inputs) {
    if (input.batch_input.has_value()) continue;
    inference::ModelInput* out = config->add_input();
    FillConfigTensor(input, batched && !spec.ragged(), out);
    out->set_optional(input.default_value.has_value());
    out->set_allow_ragged_batch(spec.ragged());
  }
  for (const OutputSpec& output : spec.outputs) {
    FillConfigTensor(output, batched, config->add_output());
  }
  if (spec.pipeline != nullptr) {
    if (PlatformOf(spec) == kEnsemble) {
      FillSteps(*spec.pipeline, config->mutable_ensemble_scheduling());
    }
    return;
  }
  config->set_backend(kBackend);
  config->set_default_model_filename("model.pt2");
  if (batched) {
    FillDynamicBatching(spec.dynamic_batching,
                        config->mutable_dynamic_batching());
  }
  inference::ModelInstanceGroup* group = config->add_instance_group();
  group->set_name(spec.name);
  group->set_kind(spec.on_gpu() ? inference::ModelInstanceGroup::KIND_GPU
                                : inference::ModelInstanceGroup::KIND_CPU);
  group->set_count(spec.instances);
  const std::vector<std::string> names = spec.DimensionNames();
  (*config->mutable_parameters())["buckets"].set_string_value(absl::StrJoin(
      spec.buckets, ";", [&](std::string* out, const ShapeBucket& bucket) {
        out->append(BucketName(bucket, names));
      }));
}

void FillModelStatistics(const ModelSpec& spec, const StatsSnapshot& stats,
                         inference::ModelStatistics* out) {
  out->set_name(spec.name);
  out->set_version(absl::StrCat(spec.version));
  out->set_last_inference(stats.last_inference_ms);
  out->set_inference_count(stats.inference_count);
  out->set_execution_count(stats.execution_count);
  inference::InferStatistics& totals = *out->mutable_inference_stats();
  FillDuration(stats.success, totals.mutable_success());
  FillDuration(stats.fail, totals.mutable_fail());
  FillDuration(stats.queue, totals.mutable_queue());
  FillDuration(stats.compute_input, totals.mutable_compute_input());
  FillDuration(stats.compute_infer, totals.mutable_compute_infer());
  FillDuration(stats.compute_output, totals.mutable_compute_output());
  totals.mutable_cache_hit();
  totals.mutable_cache_miss();
  for (const auto& [size, batch] : stats.batches) {
    inference::InferBatchStatistics& line = *out->add_batch_stats();
    line.set_batch_size(size);
    FillDuration(batch.compute_input, line.mutable_compute_input());
    FillDuration(batch.compute_infer, line.mutable_compute_infer());
    FillDuration(batch.compute_output, line.mutable_compute_output());
  }
}

void FillRepositoryIndex(absl::Span<const VersionStatus> versions,
                         bool ready_only,
                         inference::RepositoryIndexResponse* response) {
  for (const VersionStatus& version : versions) {
    if (ready_only && !version.ready()) continue;
    inference::RepositoryIndexResponse::ModelIndex& line =
        *response->add_models();
    line.set_name(version.model);
    if (version.version > 0) line.set_version(absl::StrCat(version.version));
    line.set_state(version.ready() ? "READY" : IndexState(version.state));
    line.set_reason(version.state == VersionState::kUnloaded &&
                            version.reason.empty()
                        ? "unloaded"
                        : ValidUtf8(version.reason));
  }
}

}  // namespace stoker
