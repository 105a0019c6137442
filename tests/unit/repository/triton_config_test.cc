#include "repository/triton_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model_config.pb.h"
#include "repository/config_meaning.h"
#include "repository/pipeline_spec.h"
#include "tests/unit/repository/minilm_spec.h"

namespace stoker {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr char kPath[] = "models/minilm/config.pbtxt";

// What a client of Triton's says of MiniLmSpec.
constexpr char kTensors[] = R"(
input [
  { name: "INPUT__0" data_type: TYPE_INT64 dims: [ -1 ] },
  { name: "INPUT__1" data_type: TYPE_INT64 dims: [ -1 ] }
]
output [
  { name: "OUTPUT__0" data_type: TYPE_FP32 dims: [ -1, 384 ] },
  { name: "OUTPUT__1" data_type: TYPE_FP32 dims: [ 384 ] }
]
)";

ModelSpec Program() {
  ModelSpec spec = MiniLmSpec();
  spec.name = "minilm";
  return spec;
}

TritonConfig Parsed(const std::string& text) {
  auto config = TritonConfig::Parse(text, kPath);
  EXPECT_TRUE(config.ok()) << config.status();
  return *std::move(config);
}

// The whole YAML, or what is wrong.
std::string Yaml(const std::string& text) {
  const auto config = TritonConfig::Parse(text, kPath);
  if (!config.ok()) return std::string(config.status().message());
  const auto yaml = config->ToYaml(Program());
  return yaml.ok() ? yaml->text : std::string(yaml.status().message());
}

std::string Applied(const std::string& text, ModelSpec& spec) {
  const auto config = TritonConfig::Parse(text, kPath);
  if (!config.ok()) return std::string(config.status().message());
  const auto ignored = config->Apply(spec);
  return ignored.ok() ? "OK" : std::string(ignored.status().message());
}

std::vector<std::string> Ignored(const std::string& text) {
  const auto yaml = Parsed(text).ToYaml(Program());
  EXPECT_TRUE(yaml.ok()) << yaml.status();
  return yaml.ok() ? yaml->ignored : std::vector<std::string>();
}

TEST(TritonConfigTest, EveryFieldHasAMeaning) {
  for (const auto* message :
       {triton::ModelConfig::descriptor(), triton::ModelInput::descriptor(),
        triton::ModelOutput::descriptor(),
        triton::ModelInstanceGroup::descriptor(),
        triton::BatchInput::descriptor(), triton::BatchOutput::descriptor(),
        triton::ModelRateLimiter::descriptor(),
        triton::ModelRateLimiter::Resource::descriptor(),
        triton::ModelDynamicBatching::descriptor(),
        triton::ModelTransactionPolicy::descriptor(),
        triton::ModelWarmup::descriptor()}) {
    for (int i = 0; i < message->field_count(); ++i) {
      const std::string& field = message->field(i)->name();
      EXPECT_NE(MeaningOf(message->name(), field).why,
                MeaningOf("", "nothing").why)
          << message->name() << "." << field;
    }
  }
}

TEST(TritonConfigTest, WhatEachFieldBecomes) {
  const struct {
    const char* text;
    const char* yaml;
  } cases[] = {
      {"", "max_batch_size: 0\n"},
      {"name: 'minilm'", "max_batch_size: 0\n"},
      {"platform: 'torch_aoti' backend: 'pytorch'", "max_batch_size: 0\n"},
      {"default_model_filename: 'model.pt2'", "max_batch_size: 0\n"},
      {"max_batch_size: 4", "max_batch_size: 4\nbuckets:\n  batch: [1, 4]\n"},
      {"max_batch_size: 32", "buckets:\n  batch: [1, 8, 32]\n"},
      {"max_batch_size: 8 dynamic_batching { preferred_batch_size: [ 2, 4 ] }",
       "buckets:\n  batch: [1, 2, 4, 8]\ndynamic_batching:\n"
       "  preferred_batch_size: [2, 4]\n"},
      {"version_policy { latest { num_versions: 2 } }",
       "versions: {latest: 2}\n"},
      {"version_policy { all {} }", "versions: all\n"},
      {"version_policy { specific { versions: [ 1, 3 ] } }",
       "versions: [1, 3]\n"},
      {"instance_group { count: 2 kind: KIND_CPU }",
       "device: cpu\ninstances: 2\n"},
      {"instance_group { count: 2 }", "max_batch_size: 0\ninstances: 2\n"},
      {"instance_group [ { kind: KIND_CPU }, { count: 3 kind: KIND_CPU } ]",
       "instances: 4\n"},
      {"instance_group { count: 2 kind: KIND_GPU gpus: [ 0, 1 ] }",
       "device: [cuda:0, cuda:1]\ninstances: 2\n"},
      {"instance_group [ { gpus: 0 kind: KIND_GPU }, "
       "{ gpus: 1 kind: KIND_GPU } ]",
       "device: [cuda:0, cuda:1]\ninstances: 1\n"},
      {"instance_group { count: 2 rate_limiter { priority: 4 resources [ "
       "{ name: 'R1' global: true count: 4 }, { name: 'R2' count: 1 } ] } }",
       "instances: 2\nweight: 0.25\nresources:\n"
       "  R1: {count: 4, global: true}\n  R2: {count: 1, global: false}\n"},
      {"instance_group [ { rate_limiter { priority: 1 } }, { count: 1 } ]",
       "max_batch_size: 0\ninstances: 2\n"},
      {"instance_group { kind: KIND_GPU }",
       "device: cuda:auto\ninstances: 1\n"},
      {"parameters { key: 'INTRA_OP_THREAD_COUNT' value { string_value: '4' } "
       "}",
       "threads: 4\n"},
      {"dynamic_batching { max_queue_delay_microseconds: 100 }",
       "  max_queue_delay_microseconds: 100\n"},
      {"dynamic_batching { preserve_ordering: true }",
       "  preserve_ordering: true\n"},
      {"dynamic_batching { priority_levels: 3 default_priority_level: 2 }",
       "  priority_levels: 3\n  default_priority_level: 2\n"},
      {"dynamic_batching { default_queue_policy { timeout_action: DELAY "
       "default_timeout_microseconds: 9 max_queue_size: 7 } }",
       "  default_queue_policy:\n    timeout_action: DELAY\n"
       "    default_timeout_microseconds: 9\n"
       "    allow_timeout_override: false\n    max_queue_size: 7\n"},
      {"dynamic_batching { priority_levels: 2 default_priority_level: 1 "
       "priority_queue_policy { key: 2 value { max_queue_size: 3 } } }",
       "  priority_queue_policy:\n    2:\n      timeout_action: REJECT\n"},
      {"max_batch_size: 8 model_warmup { name: 'w' batch_size: 3 }",
       "  batch: [1, 3, 8]\n"},
  };
  for (const auto& c : cases) {
    EXPECT_THAT(Yaml(c.text), HasSubstr(c.yaml)) << c.text;
    ModelSpec spec = Program();
    EXPECT_EQ(Applied(c.text, spec), "OK") << c.text;
  }
}

TEST(TritonConfigTest, ClientsSeeItsNames) {
  ModelSpec spec = Program();
  ASSERT_EQ(Applied(std::string("max_batch_size: 8") + kTensors, spec), "OK");
  EXPECT_EQ(spec.inputs[0].name, "INPUT__0");
  EXPECT_EQ(spec.inputs[1].name, "INPUT__1");
  EXPECT_EQ(spec.outputs[0].name, "OUTPUT__0");
  EXPECT_EQ(spec.outputs[1].name, "OUTPUT__1");
  EXPECT_EQ(spec.max_batch_size, 8);
  EXPECT_EQ(spec.batch_dimension, 0);
}

TEST(TritonConfigTest, PositionsMayBeInAnyOrderAndNamesTheProgramsOwn) {
  ModelSpec spec = Program();
  ASSERT_EQ(Applied(R"(max_batch_size: 8
      input { name: "mask__1" data_type: TYPE_INT64 dims: -1 }
      input { name: "ids__0" data_type: TYPE_INT64 dims: -1 })",
                    spec),
            "OK");
  EXPECT_EQ(spec.inputs[0].name, "ids__0");
  EXPECT_EQ(spec.inputs[1].name, "mask__1");
  spec = Program();
  ASSERT_EQ(Applied(R"(max_batch_size: 8
      input { name: "attention_mask" data_type: TYPE_INT64 dims: -1 }
      input { name: "input_ids" data_type: TYPE_INT64 dims: -1 }
      output { name: "sentence_embedding" data_type: TYPE_FP32 dims: 384 })",
                    spec),
            "OK");
  EXPECT_EQ(spec.inputs[0].name, "input_ids");
}

TEST(TritonConfigTest, WithoutABatchTheFirstAxisIsAsAnyOther) {
  ModelSpec spec = Program();
  ASSERT_EQ(Applied(R"(
      input { name: "input_ids" data_type: TYPE_INT64 dims: [ -1, -1 ] }
      input { name: "attention_mask" data_type: TYPE_INT64 dims: [ 2, 16 ] })",
                    spec),
            "OK");
  EXPECT_EQ(spec.batch_dimension, std::nullopt);
  EXPECT_EQ(spec.max_batch_size, 0);
  EXPECT_FALSE(spec.dimensions[0].padding);
  // Sizes that it names are what is compiled.
  ASSERT_EQ(spec.buckets.size(), 1u);
  EXPECT_THAT(spec.buckets[0].sizes, ElementsAre(2, 16));
}

TEST(TritonConfigTest, WarmUpSizesBecomeBuckets) {
  ModelSpec spec = Program();
  ASSERT_EQ(Applied(std::string("max_batch_size: 4") + kTensors + R"(
      model_warmup {
        name: "short" batch_size: 1
        inputs { key: "INPUT__0" value { data_type: TYPE_INT64 dims: 16 } }
      })",
                    spec),
            "OK");
  ASSERT_EQ(spec.buckets.size(), 2u);
  EXPECT_THAT(spec.buckets[0].sizes, ElementsAre(1, 16));
  EXPECT_THAT(spec.buckets[1].sizes, ElementsAre(4, 16));
}

TEST(TritonConfigTest, InputsThatMayBeLeftOut) {
  ModelSpec spec = Program();
  const std::string text = R"(max_batch_size: 8
      input { name: "ids__0" data_type: TYPE_INT64 dims: -1 }
      input { name: "mask__1" data_type: TYPE_INT64 dims: -1 optional: true }
      parameters { key: "default.mask__1" value { string_value: "1" } })";
  ASSERT_EQ(Applied(text, spec), "OK");
  EXPECT_EQ(spec.inputs[0].default_value, std::nullopt);
  EXPECT_EQ(spec.inputs[1].default_value, 1);
  EXPECT_EQ(spec.inputs[1].name, "mask__1");
  EXPECT_THAT(Yaml(text), HasSubstr("  attention_mask: {name: mask__1,\n"
                                    "    default: 1}\n"));
  EXPECT_THAT(Ignored(text), IsEmpty());
}

TEST(TritonConfigTest, RowsOfBytesAreStrings) {
  ModelSpec spec = Program();
  for (InputSpec& input : spec.inputs) input.dtype = DataType::kUint8;
  spec.outputs[1].dtype = DataType::kUint8;
  ASSERT_EQ(Applied(R"(max_batch_size: 8
      input { name: "ids__0" data_type: TYPE_STRING dims: 1 reshape { } }
      input { name: "mask__1" data_type: TYPE_UINT8 dims: -1 }
      output { name: "out__1" data_type: TYPE_STRING dims: [ ] })",
                    spec),
            "OK");
  EXPECT_TRUE(spec.inputs[0].is_bytes);
  EXPECT_THAT(spec.inputs[0].reshape->dims, ElementsAre(-1, 1));
  EXPECT_THAT(spec.inputs[0].reshape->shape, ElementsAre(-1));
  EXPECT_FALSE(spec.inputs[1].is_bytes);
  EXPECT_TRUE(spec.outputs[1].is_bytes);
  spec = Program();
  EXPECT_THAT(Applied(R"(max_batch_size: 8
      output { name: "out__1" data_type: TYPE_STRING dims: [ ] })",
                      spec),
              HasSubstr("expected the program's TYPE_FP32, got TYPE_STRING"));
}

TEST(TritonConfigTest, ClientsSeeItsShapes) {
  ModelSpec spec = Program();
  const std::string text = R"(max_batch_size: 4
      input { name: "IDS__0" data_type: TYPE_INT64 dims: [ 1, -1 ]
              reshape { shape: [ -1 ] } }
      input { name: "MASK__1" data_type: TYPE_INT64 dims: [ 4, 4 ]
              reshape { shape: [ 16 ] } }
      output { name: "sentence_embedding" data_type: TYPE_FP32
               dims: [ 2, 192 ] reshape { shape: [ 384 ] } }
      output { name: "token_embeddings" data_type: TYPE_FP32
               dims: [ -1, 384 ] reshape { shape: [ -1, 384 ] } })";
  ASSERT_EQ(Applied(text, spec), "OK");
  EXPECT_EQ(spec.inputs[0].name, "IDS__0");
  ASSERT_TRUE(spec.inputs[0].reshape.has_value());
  EXPECT_THAT(spec.inputs[0].reshape->dims, ElementsAre(-1, 1, -1));
  EXPECT_THAT(spec.inputs[0].reshape->shape, ElementsAre(-1, -1));
  EXPECT_THAT(spec.inputs[1].reshape->dims, ElementsAre(-1, 4, 4));
  EXPECT_THAT(spec.inputs[1].reshape->shape, ElementsAre(-1, 16));
  EXPECT_THAT(spec.outputs[1].reshape->dims, ElementsAre(-1, 2, 192));
  EXPECT_FALSE(spec.outputs[0].reshape.has_value());  // it changes nothing
  // The number in place of a dynamic size is what is compiled.
  ASSERT_EQ(spec.buckets.size(), 2u);
  EXPECT_THAT(spec.buckets[0].sizes, ElementsAre(1, 16));
  EXPECT_THAT(Yaml(text), HasSubstr("input_ids: {name: IDS__0, dims: [1, -1], "
                                    "reshape: [-1]}"));
}

TEST(TritonConfigTest, WithoutABatchAReshapeHasAllDims) {
  ModelSpec spec = Program();
  ASSERT_EQ(Applied(R"(
      input { name: "input_ids" data_type: TYPE_INT64 dims: [ -1, 1, -1 ]
              reshape { shape: [ -1, -1 ] } }
      input { name: "attention_mask" data_type: TYPE_INT64 dims: [ -1, -1 ] })",
                    spec),
            "OK");
  EXPECT_THAT(spec.inputs[0].reshape->dims, ElementsAre(-1, 1, -1));
  EXPECT_THAT(spec.inputs[0].reshape->shape, ElementsAre(-1, -1));
}

// As requests do, they have the clients' dims.
TEST(TritonConfigTest, WarmUpSizesOfAReshapedInput) {
  const std::string text = R"(max_batch_size: 4
      input { name: "IDS__0" data_type: TYPE_INT64 dims: [ 1, -1 ]
              reshape { shape: [ -1 ] } }
      input { name: "MASK__1" data_type: TYPE_INT64 dims: [ -1 ] })";
  ModelSpec spec = Program();
  ASSERT_EQ(Applied(text + R"(model_warmup { name: "w" batch_size: 1
      inputs { key: "IDS__0"
               value { data_type: TYPE_INT64 dims: [ 1, 16 ] } } })",
                    spec),
            "OK");
  EXPECT_THAT(spec.buckets[0].sizes, ElementsAre(1, 16));
  EXPECT_THAT(Applied(text + R"(model_warmup { name: "w" batch_size: 1
      inputs { key: "IDS__0" value { data_type: TYPE_INT64 dims: 16 } } })",
                      spec),
              HasSubstr("model_warmup[0].inputs: expected IDS__0 of the shape "
                        "[1, -1], got [16]"));
}

TEST(TritonConfigTest, RaggedBatchesAreRead) {
  const auto config = Parsed(
      "max_batch_size: 4\n"
      "input { name: 'x' data_type: TYPE_FP32 dims: -1 allow_ragged_batch: "
      "true }\n"
      "output [ { name: 'sum' data_type: TYPE_FP32 dims: [] },\n"
      "  { name: 'each' data_type: TYPE_FP32 dims: -1 } ]\n"
      "batch_input { kind: BATCH_ACCUMULATED_ELEMENT_COUNT_WITH_ZERO\n"
      "  target_name: 'marks' data_type: TYPE_INT64 source_input: 'x' }\n"
      "batch_output { kind: BATCH_SCATTER_WITH_INPUT_SHAPE\n"
      "  target_name: 'each' source_input: 'x' }\n");
  ModelSpec spec = RaggedSpec();
  const auto yaml = config.ToYaml(spec);
  ASSERT_TRUE(yaml.ok()) << yaml.status();
  EXPECT_THAT(yaml->text,
              HasSubstr("ragged:\n  marks: {kind: "
                        "BATCH_ACCUMULATED_ELEMENT_COUNT_WITH_ZERO, source: "
                        "x}\n"));
  ASSERT_TRUE(config.Apply(spec).ok());
  EXPECT_EQ(spec.max_ragged_requests, 4);
}

TEST(TritonConfigTest, WhatHasNoMeaningIsListedWithItsLine) {
  EXPECT_THAT(Ignored(std::string("max_batch_size: 8") + kTensors), IsEmpty());
  EXPECT_THAT(
      Ignored("\noptimization { cuda { graphs: true } }"),
      ElementsAre(HasSubstr(
          "config.pbtxt:2: optimization has no meaning here: what is")));
  EXPECT_THAT(Ignored("response_cache { enable: true }"),
              ElementsAre(HasSubstr(":1: response_cache has no meaning here")));
  EXPECT_THAT(
      Ignored("instance_group {\n kind: KIND_CPU\n host_policy: 'a'\n}"),
      ElementsAre(HasSubstr(":3: instance_group[0].host_policy has no")));
  EXPECT_THAT(
      Ignored("parameters { key: 'A' value { string_value: '1' } }\n"
              "parameters { key: 'B' value { string_value: '2' } }"),
      ElementsAre(HasSubstr(":1: parameters[0] has no meaning here: A is"),
                  HasSubstr(":2: parameters[1] has no meaning here: B is")));
  EXPECT_THAT(Ignored("instance_group { kind: KIND_GPU }"),
              ElementsAre(HasSubstr("without gpus it is one GPU")));
}

constexpr char kEnsemble[] =
    "platform: 'ensemble'\n"
    "max_batch_size: 4\n"
    "input { name: 'x' data_type: TYPE_FP32 dims: [ 16 ] }\n"
    "output { name: 'y' data_type: TYPE_STRING dims: [ 1 ] }\n"
    "ensemble_scheduling {\n"
    "  step { model_name: 'a' model_version: -1\n"
    "    input_map { key: 'in' value: 'x' }\n"
    "    output_map { key: 'out' value: 't' } }\n"
    "  step { model_name: 'a' model_version: 2\n"
    "    input_map { key: 'in' value: 't' }\n"
    "    output_map { key: 'out' value: 'y' } }\n"
    "}\n";

TEST(TritonConfigTest, AnEnsembleIsAPipeline) {
  const auto config = TritonConfig::Parse(kEnsemble, "e/config.pbtxt");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_TRUE(config->is_ensemble());
  const auto yaml = config->EnsembleYaml("e");
  ASSERT_TRUE(yaml.ok()) << yaml.status();
  EXPECT_EQ(yaml->text,
            "max_batch_size: 4\n"
            "pipeline:\n"
            "  inputs:\n"
            "    x: {datatype: FP32, dims: [-1, 16]}\n"
            "  outputs:\n"
            "    \"y\": {datatype: BYTES, dims: [-1, 1]}\n"
            "  steps:\n"
            "  - model: a\n"
            "    inputs: {in: x}\n"
            "    outputs: {out: t}\n"
            "  - model: a\n"
            "    name: \"a-2\"\n"
            "    version: 2\n"
            "    inputs: {in: t}\n"
            "    outputs: {out: \"y\"}\n");
  const auto pipeline = config->ReadEnsemble("e", "e");
  ASSERT_TRUE(pipeline.ok()) << pipeline.status();
  EXPECT_EQ((*pipeline)->steps[1].version, 2);
  EXPECT_EQ((*pipeline)->max_batch_size, 4);
}

TEST(TritonConfigTest, MistakesInAnEnsembleAreToldWithTheirLine) {
  const struct {
    const char* from;
    const char* to;
    const char* message;
  } cases[] = {
      {"value: 't' }\n    output_map", "value: 'u' }\n    output_map",
       "e/config.pbtxt:10: pipeline.steps[1].inputs.in: expected a tensor that "
       "the pipeline takes or a step makes, got 'u'"},
      {"model_version: 2", "model_version: 2 model_namespace: 'n'",
       "config.pbtxt:9: ensemble_scheduling.step[1].model_namespace: expected"},
      {"dims: [ 16 ]", "dims: [ 16 ] optional: true",
       "input[0].optional: expected false"},
      {"max_batch_size: 4", "name: 'f'", "name: expected the folder's, e"},
  };
  for (const auto& [from, to, message] : cases) {
    std::string text = kEnsemble;
    text.replace(text.find(from), std::string(from).size(), to);
    const auto config = TritonConfig::Parse(text, "e/config.pbtxt");
    ASSERT_TRUE(config.ok()) << config.status();
    EXPECT_THAT(config->ReadEnsemble("e", "e").status().message(),
                HasSubstr(message));
  }
}

TEST(TritonConfigTest, WhatCannotBeHonouredIsRefusedWithItsLine) {
  const struct {
    const char* text;
    const char* message;
  } cases[] = {
      {"max_batch_size: 8\nsequence_batching {}",
       "config.pbtxt:2: sequence_batching: expected nothing, got a model that "
       "keeps state"},
      {"ensemble_scheduling {}", "got a model that is made of others"},
      {"model_transaction_policy {\n decoupled: true }",
       ":2: model_transaction_policy.decoupled: expected nothing"},
      {"model_repository_agents {}", "model_repository_agents: expected"},
      {"batch_input {}",
       "batch_input[0].source_input: expected the name of one input with "
       "allow_ragged_batch, got none"},
      {"name: 'other'", "name: expected the folder's, minilm, got other"},
      {"backend: 'onnxruntime'", "backend: expected pytorch, got onnxruntime"},
      {"platform: 'tensorrt_plan'", "platform: expected torch_aoti"},
      {"default_model_filename: 'x.pt'", "expected model.pt2, got x.pt"},
      {"input { name: 'x' }",
       "input[0].name: expected a name of the program's "
       "(input_ids, attention_mask), or NAME__0"},
      {"input { name: 'A__2' }", "got A__2"},
      {"input { name: 'A__-1' }", "got A__-1"},
      {"input { name: 'A__99999999999999999999' }", "got A__9999"},
      {"input { name: 'A__0' data_type: TYPE_INT64 dims: [ 1, 1 ] }",
       "input: expected the program's 2, got 1"},
      {"input { name: 'A__0' }\ninput { name: 'B__0' }",
       ":2: input[1].name: expected each of the program's once, got B__0"},
      {"output { name: 'O__1' data_type: TYPE_FP16 dims: [ -1, 384 ] }",
       "output[0].data_type: expected the program's TYPE_FP32, got TYPE_FP16"},
      {"output {\nname: 'O__1'\ndata_type: TYPE_FP32\ndims: [ 384 ] }",
       ":4: output[0].dims: expected the program's [-1, 384], with the batch "
       "(max_batch_size is 0), got [384]"},
      {"max_batch_size: 1 output { name: 'O__1' data_type: TYPE_FP32 "
       "dims: [ 383 ] }",
       "expected the program's [384], without the batch, got [383]"},
      {"max_batch_size: 1 output { name: 'O__0' data_type: TYPE_FP32 "
       "dims: [ 513, 384 ] }",
       "got [513, 384]"},  // above the dimension's bound
      {"max_batch_size: 1 output { name: 'O__1' data_type: TYPE_FP32\n"
       "dims: [ 384 ]\nreshape { shape: [ 1, 384 ] } }",
       ":3: output[0].reshape: expected the program's [384], without the "
       "batch, got [1, 384]"},
      {"max_batch_size: 1 output { name: 'O__1' data_type: TYPE_FP32 "
       "dims: [ 2, 190 ] reshape { shape: 384 } }",
       "output[0].reshape: expected as many elements as dims [2, 190], got "
       "[384]"},
      {"max_batch_size: 1 output { name: 'O__0' data_type: TYPE_FP32 "
       "dims: [ -1, 2, 192 ] reshape { shape: [ 16, 384 ] } }",
       "expected as many -1 as dims [-1, 2, 192], got [16, 384]"},
      {"max_batch_size: 1 output { name: 'O__0' data_type: TYPE_FP32 "
       "dims: [ 384, -1 ] reshape { shape: [ -1, 384 ] } }",
       "expected as many elements as dims [384, -1] before, between and behind "
       "its -1, got [-1, 384]"},
      {"max_batch_size: 1 output { name: 'O__1' data_type: TYPE_FP32 "
       "dims: [ 0 ] reshape { shape: 384 } }",
       "expected dims of 1 or more, or -1, got [384]"},
      {"max_batch_size: 1 output { name: 'O__1' data_type: TYPE_FP32 "
       "dims: 384 reshape {} }",
       "reshape: expected as many elements as dims [384], got []"},
      {"max_batch_size: 1 input { name: 'A__0'\noptional: true }",
       ":2: input[0].optional: expected parameters with the key default.A__0: "
       "the number that the program gets for it where a request leaves it out, "
       "got none"},
      {"parameters { key: 'default.x' value { string_value: '1' } }",
       "parameters[0]: expected default.NAME of an optional input, got "
       "default.x"},
      {"max_batch_size: 8 input { name: 'A__0' data_type: TYPE_INT64 dims: -1 }"
       "\ninput { name: 'B__1' data_type: TYPE_INT64 dims: -1 optional: true }"
       "\nparameters { key: 'default.B__1' value { string_value: 'x}' } }",
       "config.pbtxt:3: inputs.attention_mask.default: expected a number, got "
       "the text \"x}\""},
      {"max_batch_size: 1 input { name: 'A__0' data_type: TYPE_INT64 dims: "
       "[ -1, -1 ] allow_ragged_batch: true }",
       "batch_input: expected what tells the program where each request of a "
       "ragged batch ends, got none"},
      {"\nbatch_input { kind: BATCH_ITEM_SHAPE target_name: 'a' }",
       "config.pbtxt:2: batch_input[0].kind: expected a count of elements "},
      {"batch_input { kind: BATCH_ELEMENT_COUNT target_name: 'a' "
       "source_input: 'b' }",
       "batch_input[0].source_input: expected the name of one input with "
       "allow_ragged_batch, got b"},
      {"output { name: 'O__1' label_filename: 'names.txt' }",
       "label_filename: expected labels.txt"},
      {"instance_group { passive: true }", "instances that never run"},
      {"instance_group [ { count: 2 rate_limiter { priority: 2 } }, { } ]",
       ":1: instance_group: expected the same rate_limiter in each, got "
       "others"},
      {"instance_group {\n rate_limiter {\n resources {\n name: 'R' count: 0 "
       "}}}",
       "config.pbtxt:3: resources.R.count: expected an integer from 1"},
      {"instance_group { rate_limiter { resources [ { name: 'R' count: 1 }, "
       "{ name: 'R' count: 2 } ] } }",
       "rate_limiter.resources[1].name: expected each resource once, got R"},
      {"instance_group [ { kind: KIND_CPU }, { kind: KIND_GPU gpus: 0 } ]",
       "instance_group: expected instances on the processor or on GPUs"},
      {"instance_group [ { count: 2 gpus: 0 }, { count: 1 gpus: 1 } ]",
       "as many on each"},
      {"model_warmup { inputs { key: 'x' value {} } }",
       "model_warmup[0].inputs: expected names of inputs, got x"},
      {"parameters { key: 'INTRA_OP_THREAD_COUNT' value { string_value: 'x' } "
       "}",
       "parameters[0]: expected a number as INTRA_OP_THREAD_COUNT, got x"},
      // Values that model.yaml has limits for.
      {"\nmax_batch_size: 65",
       "config.pbtxt:2: max_batch_size: expected an integer from 1 to 64, got "
       "65"},
      {"max_batch_size: -1", ":1: max_batch_size: expected an integer"},
      {"\n\ninstance_group { count: 65 kind: KIND_CPU }",
       "config.pbtxt:3: instances: expected an integer from 1 to 64, got 65"},
      {"max_batch_size: 8\ndynamic_batching {\n preferred_batch_size: [ 4, 16 "
       "]\n}",
       "config.pbtxt:3: dynamic_batching.preferred_batch_size[1]: expected an "
       "integer from 1 to 8, got 16"},
      {"dynamic_batching {\n priority_levels: 17\n default_priority_level: 1 }",
       "config.pbtxt:2: dynamic_batching.priority_levels: expected an integer "
       "from 1 to 16, got 17"},
      {"instance_group { count: 2 }\ndynamic_batching { preserve_ordering: "
       "true }",
       "dynamic_batching: expected preserve_ordering: false with more"},
      {"max_batch_size: 8\nmodel_warmup { batch_size: 9 }",
       "config.pbtxt:2: buckets.batch[2]: expected at most max_batch_size, 8"},
      // What is no configuration.
      {"max_batch_size: 'many'", "config.pbtxt:1: Expected integer"},
      {"\nmax_batch: 8",
       "config.pbtxt:2: Message type \"triton.ModelConfig\" "
       "has no field named \"max_batch\""},
      {"input [", "config.pbtxt:1: "},
      {"input { data_type: TYPE_FP128 }", "FP128"},
  };
  for (const auto& c : cases) {
    ModelSpec spec = Program();
    EXPECT_THAT(Applied(c.text, spec), HasSubstr(c.message)) << c.text;
    EXPECT_EQ(spec.max_batch_size, 0) << c.text;  // unchanged
  }
}

TEST(TritonConfigTest, SeveralMistakesAreALineEach) {
  ModelSpec spec = Program();
  const std::string message =
      Applied("name: 'other'\nbackend: 'x'\nbatch_input {}", spec);
  EXPECT_EQ(std::count(message.begin(), message.end(), '\n'), 2) << message;
}

TEST(TritonConfigTest, DeepNestingEnds) {
  std::string text;
  for (int i = 0; i < 100'000; ++i) text += "input { ";
  EXPECT_FALSE(TritonConfig::Parse(text, kPath).ok());
}

TEST(TritonConfigTest, Versions) {
  const auto chosen = [](const std::string& text) {
    return *Parsed(text).ChooseVersions({3, 1, 2});
  };
  EXPECT_THAT(chosen(""), ElementsAre(3));
  EXPECT_THAT(chosen("version_policy { latest {} }"), ElementsAre(3));
  EXPECT_THAT(chosen("version_policy { latest { num_versions: 2 } }"),
              ElementsAre(2, 3));
  EXPECT_THAT(chosen("version_policy { all {} }"), ElementsAre(1, 2, 3));
  EXPECT_THAT(chosen("version_policy { specific { versions: [ 1, 3 ] } }"),
              ElementsAre(1, 3));
  EXPECT_EQ(Parsed("\nversion_policy { specific { versions: [ 1, 1 ] } }")
                .ChooseVersions({1})
                .status()
                .message(),
            "models/minilm/config.pbtxt:2: versions[1]: expected every version "
            "once, got 1");
}

}  // namespace
}  // namespace stoker
