#include "repository/config_meaning.h"

namespace stoker {
namespace {

struct Row {
  std::string_view message;
  std::string_view field;
  ConfigMeaning meaning;
};

constexpr ConfigMeaning Read() { return {ConfigMeaning::kRead, ""}; }
constexpr ConfigMeaning Ignored(std::string_view why) {
  return {ConfigMeaning::kIgnored, why};
}
constexpr ConfigMeaning Refused(std::string_view why) {
  return {ConfigMeaning::kRefused, why};
}

constexpr Row kRows[] = {
    {"ModelConfig", "name", Read()},
    {"ModelConfig", "platform", Read()},
    {"ModelConfig", "backend", Read()},
    {"ModelConfig", "runtime", Ignored("there is one runtime")},
    {"ModelConfig", "version_policy", Read()},
    {"ModelConfig", "max_batch_size", Read()},
    {"ModelConfig", "input", Read()},
    {"ModelConfig", "output", Read()},
    {"ModelConfig", "batch_input", Read()},
    {"ModelConfig", "batch_output", Read()},
    {"ModelConfig", "optimization",
     Ignored("what is compiled, and how, is decided by what was measured")},
    {"ModelConfig", "dynamic_batching", Read()},
    {"ModelConfig", "sequence_batching",
     Refused("a model that keeps state between requests")},
    {"ModelConfig", "ensemble_scheduling", Read()},
    {"ModelConfig", "instance_group", Read()},
    {"ModelConfig", "default_model_filename", Read()},
    {"ModelConfig", "cc_model_filenames",
     Ignored("one program is compiled for each GPU")},
    {"ModelConfig", "metric_tags",
     Ignored("metrics have the labels model and version")},
    {"ModelConfig", "parameters", Read()},
    {"ModelConfig", "model_warmup", Read()},
    {"ModelConfig", "model_operations",
     Ignored("operators come with stokerd's --operator-library")},
    {"ModelConfig", "model_transaction_policy", Read()},
    {"ModelConfig", "model_repository_agents",
     Refused("agents that change what is read of the repository")},
    {"ModelConfig", "response_cache", Ignored("there is no response cache")},
    {"ModelConfig", "model_metrics",
     Ignored("histograms have edges of their own")},

    {"ModelTransactionPolicy", "decoupled",
     Refused("several answers to a request")},

    {"ModelInput", "name", Read()},
    {"ModelInput", "data_type", Read()},
    {"ModelInput", "format", Ignored("dims say all of it")},
    {"ModelInput", "dims", Read()},
    {"ModelInput", "reshape", Read()},
    {"ModelInput", "is_shape_tensor", Refused("a shape tensor of TensorRT's")},
    {"ModelInput", "allow_ragged_batch", Read()},
    {"ModelInput", "optional", Read()},
    {"ModelInput", "is_non_linear_format_io",
     Refused("a format of TensorRT's")},

    {"ModelOutput", "name", Read()},
    {"ModelOutput", "data_type", Read()},
    {"ModelOutput", "dims", Read()},
    {"ModelOutput", "reshape", Read()},
    {"ModelOutput", "label_filename", Read()},
    {"ModelOutput", "is_shape_tensor", Refused("a shape tensor of TensorRT's")},
    {"ModelOutput", "is_non_linear_format_io",
     Refused("a format of TensorRT's")},

    {"ModelInstanceGroup", "name", Ignored("instances have no names")},
    {"ModelInstanceGroup", "kind", Read()},
    {"ModelInstanceGroup", "count", Read()},
    {"ModelInstanceGroup", "gpus", Read()},
    {"ModelInstanceGroup", "rate_limiter", Read()},
    {"ModelInstanceGroup", "secondary_devices", Refused("a second device")},
    {"ModelInstanceGroup", "profile", Ignored("it is TensorRT's")},
    {"ModelInstanceGroup", "passive", Refused("instances that never run")},
    {"ModelInstanceGroup", "host_policy",
     Ignored("cpus and numa_node of model.yaml say where instances run")},

    {"BatchInput", "kind", Read()},
    {"BatchInput", "target_name", Read()},
    {"BatchInput", "data_type", Read()},
    {"BatchInput", "source_input", Read()},
    {"BatchOutput", "target_name", Read()},
    {"BatchOutput", "kind", Read()},
    {"BatchOutput", "source_input", Read()},

    {"ModelRateLimiter", "resources", Read()},
    {"ModelRateLimiter", "priority", Read()},
    {"Resource", "name", Read()},
    {"Resource", "global", Read()},
    {"Resource", "count", Read()},

    {"ModelDynamicBatching", "preferred_batch_size", Read()},
    {"ModelDynamicBatching", "max_queue_delay_microseconds", Read()},
    {"ModelDynamicBatching", "preserve_ordering", Read()},
    {"ModelDynamicBatching", "priority_levels", Read()},
    {"ModelDynamicBatching", "default_priority_level", Read()},
    {"ModelDynamicBatching", "default_queue_policy", Read()},
    {"ModelDynamicBatching", "priority_queue_policy", Read()},

    {"ModelEnsembling", "step", Read()},
    {"ModelEnsembling", "max_inflight_requests",
     Ignored("the queues of the steps' models have limits of their own")},
    {"Step", "model_name", Read()},
    {"Step", "model_version", Read()},
    {"Step", "input_map", Read()},
    {"Step", "output_map", Read()},
    {"Step", "model_namespace", Refused("a namespace")},

    {"ModelWarmup", "name", Read()},
    {"ModelWarmup", "batch_size", Read()},
    {"ModelWarmup", "inputs", Read()},
    {"ModelWarmup", "count",
     Ignored("a bucket is run as often as it takes to judge it")},
};

}  // namespace

ConfigMeaning MeaningOf(std::string_view message, std::string_view field) {
  for (const Row& row : kRows) {
    if (row.message == message && row.field == field) return row.meaning;
  }
  return Refused("a field that nothing is known of");
}

}  // namespace stoker
