#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <sstream>

#include "minilm_spec.h"
#include "repository/default_buckets.h"
#include "repository/model_repository.h"

namespace stoker {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr char kPath[] = "models/minilm/model.yaml";

absl::StatusOr<ModelSpec> Apply(std::string_view yaml,
                                ModelSpec spec = MiniLmSpec()) {
  const absl::Status status = ApplyModelYaml(yaml, kPath, spec);
  if (!status.ok()) return status;
  return spec;
}

std::string Message(std::string_view yaml, ModelSpec spec = MiniLmSpec()) {
  const auto result = Apply(yaml, std::move(spec));
  return result.ok() ? "OK" : std::string(result.status().message());
}

std::vector<std::string> BucketNames(const ModelSpec& spec) {
  std::vector<std::string> names;
  for (const ShapeBucket& bucket : spec.buckets) {
    names.push_back(BucketName(bucket, spec.DimensionNames()));
  }
  return names;
}

ModelSpec StaticSpec() {
  ModelSpec spec;
  InputSpec& input = spec.inputs.emplace_back();
  input.name = "x";
  input.dims = {DimExpr::Constant(4)};
  return spec;
}

TEST(ModelYamlTest, DefaultsOfAnEmptyFile) {
  for (std::string_view yaml : {"", "# nothing\n", "---\n", "{}"}) {
    const auto spec = Apply(yaml);
    ASSERT_TRUE(spec.ok()) << spec.status();
    EXPECT_EQ(spec->ready_when, ReadyWhen::kWarm);
    EXPECT_EQ(spec->unmatched, Unmatched::kEager);
    EXPECT_TRUE(spec->compile.enabled);
    EXPECT_EQ(spec->max_batch_size, 8);
    EXPECT_EQ(spec->threads, 0);
    EXPECT_EQ(spec->instances, 1);
    EXPECT_EQ(spec->weight, 1);
    EXPECT_FALSE(spec->keep_in_memory);
    EXPECT_EQ(spec->dynamic_batching.policies[0].max_queue_size, 1024);
    EXPECT_EQ(spec->dynamic_batching.policies[0].default_timeout,
              absl::InfiniteDuration());
    EXPECT_THAT(
        BucketNames(*spec),
        ElementsAre("batch=1,input_ids.1=8", "batch=1,input_ids.1=32",
                    "batch=1,input_ids.1=128", "batch=1,input_ids.1=512",
                    "batch=8,input_ids.1=8", "batch=8,input_ids.1=32",
                    "batch=8,input_ids.1=128", "batch=8,input_ids.1=512"));
  }
}

TEST(ModelYamlTest, WorkedExample) {
  std::ifstream file("config/model.yaml");
  ASSERT_TRUE(file.good());
  std::stringstream text;
  text << file.rdbuf();
  const auto spec = Apply(text.str());
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->max_batch_size, 8);
  EXPECT_THAT(spec->DimensionNames(), ElementsAre("batch", "tokens"));
  EXPECT_TRUE(spec->dimensions[1].padding);
  EXPECT_EQ(spec->inputs[0].range, std::pair(0.0, 30521.0));
  EXPECT_EQ(spec->inputs[1].range, std::pair(0.0, 1.0));
  EXPECT_EQ(spec->buckets.size(), 8u);
  // Apart from what it adds, the example spells out the defaults.
  const auto defaults = Apply("");
  EXPECT_EQ(spec->ready_when, defaults->ready_when);
  EXPECT_EQ(spec->update, defaults->update);
  EXPECT_EQ(spec->unmatched, defaults->unmatched);
  EXPECT_EQ(spec->compile.enabled, defaults->compile.enabled);
  EXPECT_EQ(spec->threads, defaults->threads);
  EXPECT_EQ(spec->instances, defaults->instances);
  const DynamicBatchingSpec& batching = spec->dynamic_batching;
  EXPECT_EQ(batching.max_queue_delay, absl::ZeroDuration());
  EXPECT_TRUE(batching.preferred_batch_sizes.empty());
  EXPECT_FALSE(batching.preserve_ordering);
  ASSERT_EQ(batching.policies.size(), 1u);
  EXPECT_EQ(batching.policies[0].max_queue_size, 1024);
  EXPECT_TRUE(batching.policies[0].allow_timeout_override);
}

TEST(ModelYamlTest, EveryFieldIsTaken) {
  const auto spec = Apply(R"(
ready_when: eager
update: replace
versions: [1, 3]
max_batch_size: 16
unmatched: reject
compile: false
threads: 3
instances: 2
weight: 2.5
resources: {slots: 4, lanes: {count: 2, global: true}}
memory: {keep: true}
cpus: ["0-1", "2,5"]
dynamic_batching:
  preferred_batch_size: [4, 8]
  max_queue_delay_microseconds: 500
  priority_levels: 3
  default_priority_level: 2
  default_queue_policy: {max_queue_size: 7, default_timeout_microseconds: 250}
  priority_queue_policy:
    1: {timeout_action: DELAY, allow_timeout_override: false}
dimensions: {rows: {axis: attention_mask.0, padding: true}, t: {axis: input_ids.1, padding: true}}
inputs: {attention_mask: {pad_value: -1}}
buckets: [{rows: 4, t: 10}, {t: 3, rows: 1}]
)");
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->ready_when, ReadyWhen::kEager);
  EXPECT_EQ(spec->update, Update::kReplace);
  EXPECT_EQ(spec->max_batch_size, 16);
  EXPECT_EQ(spec->unmatched, Unmatched::kReject);
  EXPECT_FALSE(spec->compile.enabled);
  EXPECT_EQ(spec->threads, 3);
  EXPECT_EQ(spec->instances, 2);
  EXPECT_EQ(spec->weight, 2.5);
  EXPECT_EQ(spec->resources, (std::map<std::string, ResourceDemand>{
                                 {"lanes", {2, true}}, {"slots", {4}}}));
  EXPECT_TRUE(spec->keep_in_memory);
  EXPECT_EQ(spec->cpus, (std::vector<std::vector<int>>{{0, 1}, {2, 5}}));
  const DynamicBatchingSpec& batching = spec->dynamic_batching;
  EXPECT_EQ(batching.preferred_batch_sizes, (std::vector<int>{4, 8}));
  EXPECT_EQ(batching.max_queue_delay, absl::Microseconds(500));
  EXPECT_EQ(batching.default_priority_level, 2);
  ASSERT_EQ(batching.policies.size(), 3u);
  for (const QueuePolicySpec& policy : batching.policies) {
    EXPECT_EQ(policy.max_queue_size, 7);
    EXPECT_EQ(policy.default_timeout, absl::Microseconds(250));
  }
  EXPECT_TRUE(batching.policies[0].delay_on_timeout);
  EXPECT_FALSE(batching.policies[0].allow_timeout_override);
  EXPECT_FALSE(batching.policies[1].delay_on_timeout);
  EXPECT_TRUE(batching.policies[1].allow_timeout_override);
  EXPECT_EQ(spec->inputs[1].pad_value, -1);
  EXPECT_TRUE(spec->dimensions[1].padding);
  EXPECT_THAT(BucketNames(*spec), ElementsAre("rows=4,t=10", "rows=1,t=3"));
}

TEST(ModelYamlTest, CompileLevers) {
  const auto spec = Apply(R"(
compile:
  precision: bfloat16
  deterministic: true
  dynamic: true
  options: {epilogue_fusion: false, cpp.min_chunk_size: 4096, cpp.descriptive_names: torch}
)");
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_TRUE(spec->compile.enabled);
  EXPECT_EQ(spec->compile.precision, ComputePrecision::kBfloat16);
  EXPECT_TRUE(spec->compile.deterministic);
  EXPECT_EQ(spec->compile.dynamic, DynamicForms::kBeside);
  EXPECT_EQ(spec->compile.options,
            (std::map<std::string, std::string>{
                {"epilogue_fusion", "false"},
                {"cpp.min_chunk_size", "4096"},
                {"cpp.descriptive_names", "\"torch\""}}));
  EXPECT_EQ(spec->parity.rtol, 2e-1) << "against the float32 program";
  EXPECT_EQ(spec->parity.rms, 2e-2);
  EXPECT_EQ(
      Apply("compile: {precision: bfloat16}\nparity: {rtol: 0.5}")->parity.rtol,
      0.5);
}

TEST(ModelYamlTest, IntegersAreHeldToWhatTheirAnswersSay) {
  const auto spec = Apply("compile: {precision: int8}");
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->compile.precision, ComputePrecision::kInt8);
  EXPECT_EQ(spec->parity.rms, 7e-2);
  EXPECT_EQ(spec->parity.cosine, 0.997);
  EXPECT_EQ(spec->parity.argmax, 0);
  const auto own = Apply(
      "compile: {precision: int8}\nparity: {cosine: 0.9995, argmax: 0.98}");
  ASSERT_TRUE(own.ok()) << own.status();
  EXPECT_EQ(own->parity.cosine, 0.9995);
  EXPECT_EQ(own->parity.argmax, 0.98);
}

TEST(ModelYamlTest, DynamicFormsFirst) {
  EXPECT_EQ(Apply("compile: {dynamic: auto}")->compile.dynamic,
            DynamicForms::kFirst);
  // What is captured into CUDA graphs is buckets' own code.
  EXPECT_EQ(Apply("compile: {dynamic: auto}\ndevice: cuda:0")->compile.dynamic,
            DynamicForms::kNone);
  EXPECT_THAT(Message("compile: {dynamic: always}"), HasSubstr("or auto"));
}

TEST(ModelYamlTest, Buckets) {
  const struct {
    const char* yaml;
    std::vector<std::string> names;
    int64_t max_batch;
  } cases[] = {
      {"buckets: []", {}, 8},
      {"{buckets: [], max_batch_size: 3}", {}, 3},
      {"buckets: {batch: [2], input_ids.1: [7, 5]}",
       {"batch=2,input_ids.1=7", "batch=2,input_ids.1=5"},
       2},
      {"buckets: {input_ids.1: [7]}",
       {"batch=1,input_ids.1=7", "batch=8,input_ids.1=7"},
       8},
      {"{buckets: {input_ids.1: [7]}, max_batch_size: 4}",
       {"batch=1,input_ids.1=7", "batch=4,input_ids.1=7"},
       4},
      {"{buckets: {batch: [4], input_ids.1: [7]}, max_batch_size: 20}",
       {"batch=4,input_ids.1=7"},
       20},
  };
  for (const auto& c : cases) {
    const auto spec = Apply(c.yaml);
    ASSERT_TRUE(spec.ok()) << spec.status();
    EXPECT_EQ(BucketNames(*spec), c.names) << c.yaml;
    EXPECT_EQ(spec->max_batch_size, c.max_batch) << c.yaml;
  }
}

TEST(ModelYamlTest, AutomaticBucketsBeginWithTheDefaultOnes) {
  ModelSpec by_default = MiniLmSpec();
  ASSERT_TRUE(ApplyModelYaml("{}", "model.yaml", by_default).ok());
  EXPECT_FALSE(by_default.auto_buckets);
  ModelSpec automatic = MiniLmSpec();
  ASSERT_TRUE(ApplyModelYaml("buckets: auto", "model.yaml", automatic).ok());
  EXPECT_TRUE(automatic.auto_buckets);
  EXPECT_EQ(automatic.buckets, by_default.buckets);
  EXPECT_EQ(automatic.max_batch_size, by_default.max_batch_size);
}

TEST(ModelYamlTest, StaticProgram) {
  auto spec = Apply("", StaticSpec());
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_THAT(BucketNames(*spec), ElementsAre("static"));
  EXPECT_EQ(spec->max_batch_size, 0);
  spec = Apply("buckets: []", StaticSpec());
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_TRUE(spec->buckets.empty());
  EXPECT_THAT(Message("max_batch_size: 2", StaticSpec()),
              HasSubstr("max_batch_size: expected nothing"));
  EXPECT_THAT(Message("dimensions: {a: {axis: x.0}}", StaticSpec()),
              HasSubstr("expected no dimensions"));
  EXPECT_THAT(Message("buckets: {batch: [1]}", StaticSpec()),
              HasSubstr("buckets.batch: expected no field here"));
}

TEST(ModelYamlTest, PadValuesFitTheInput) {
  const auto with = [](DataType dtype, const std::string& value) {
    ModelSpec spec = MiniLmSpec();
    spec.inputs[0].dtype = dtype;
    return Apply("inputs: {input_ids: {pad_value: " + value + "}}", spec);
  };
  EXPECT_EQ(with(DataType::kFp32, "-1.5")->inputs[0].pad_value, -1.5);
  EXPECT_EQ(with(DataType::kFp32, "1e-3")->inputs[0].pad_value, 1e-3);
  EXPECT_TRUE(std::isinf(with(DataType::kFp32, "-.inf")->inputs[0].pad_value));
  EXPECT_EQ(with(DataType::kBool, "true")->inputs[0].pad_value, 1);
  EXPECT_EQ(with(DataType::kInt8, "-128")->inputs[0].pad_value, -128);
  for (const auto& [dtype, value] :
       std::vector<std::pair<DataType, std::string>>{
           {DataType::kInt8, "128"},
           {DataType::kInt64, "1.5"},
           {DataType::kInt64, ".inf"},
           {DataType::kUint8, "-1"},
           {DataType::kBool, "2"},
           {DataType::kFp16, "1e6"},
           {DataType::kFp32, "nan"},
           {DataType::kFp32, "0x10"},
           {DataType::kFp32, "[1]"}}) {
    EXPECT_FALSE(with(dtype, value).ok()) << DataTypeName(dtype) << value;
  }
}

TEST(ModelYamlTest, RequestsAreRaggedWhereTheBatchSaysWhereTheyEnd) {
  const auto spec = Apply(
      "ragged: {marks: {kind: BATCH_ACCUMULATED_ELEMENT_COUNT_WITH_ZERO, "
      "source: x}}\nmax_batch_size: 3\nbuckets: {x.0: [16, 64]}",
      RaggedSpec());
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->batch_dimension, 0);
  EXPECT_EQ(spec->max_ragged_requests, 3);
  EXPECT_EQ(spec->max_batch_size, 64);
  EXPECT_TRUE(spec->dimensions[1].padding);
  EXPECT_EQ(spec->inputs[1].batch_input->kind,
            BatchInput::Kind::kAccumulatedElementCountWithZero);
  EXPECT_THAT(BucketNames(*spec),
              ElementsAre("x.0=16,marks.0=3", "x.0=64,marks.0=3"));
}

TEST(ModelYamlTest, ARaggedBatchIsWithinTheProgramsBounds) {
  const std::string ragged =
      "ragged: {marks: {kind: BATCH_ACCUMULATED_ELEMENT_COUNT_WITH_ZERO, "
      "source: x}}\n";
  ModelSpec few = RaggedSpec();
  few.dimensions[1].max = 5;
  const auto spec = Apply(ragged, few);
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->max_ragged_requests, 5);
  EXPECT_THAT(Message(ragged + "max_batch_size: 6", few),
              HasSubstr("expected an integer from 1 to 5, got 6"));
  few.dimensions[1].min = 2;
  EXPECT_THAT(Message(ragged, few),
              HasSubstr("ragged: expected a program that takes one request, "
                        "marks of 2, got a least size of 2 of marks.0"));
}

TEST(ModelYamlTest, MistakesOfRaggedBatches) {
  const struct {
    const char* yaml;
    const char* message;
  } cases[] = {
      {"ragged: {marks: {kind: BATCH_ITEM_SHAPE, source: x}}",
       "1: ragged.marks.kind: expected one of BATCH_ELEMENT_COUNT, "},
      {"ragged: {marks: {kind: BATCH_ELEMENT_COUNT, source: y}}",
       "ragged.marks.source: expected an input of one dynamic axis"},
      {"ragged: {marks: {kind: BATCH_ELEMENT_COUNT, source: marks}}",
       "ragged: expected an input of one dynamic axis that requests bring, "
       "whose elements are counted, got marks"},
      {"ragged: {marks: {kind: BATCH_ELEMENT_COUNT}}",
       "ragged.marks: expected a kind and a source"},
      {"ragged: {}", "ragged: expected an input that is made of batches"},
      {"ragged: {x: {kind: BATCH_ELEMENT_COUNT, source: marks}}",
       "ragged: expected a dynamic dimension that is axis 0 of all other "
       "inputs"},
  };
  for (const auto& test : cases) {
    EXPECT_THAT(Message(test.yaml, RaggedSpec()), HasSubstr(test.message));
  }
}

TEST(ModelYamlTest, Mistakes) {
  const struct {
    const char* yaml;
    const char* message;  // after "models/minilm/model.yaml:"
  } cases[] = {
      {"\nready_when: worm",
       "2: ready_when: expected eager or warm, got worm (did you mean warm?)"},
      {"max_bach_size: 8",
       "1: max_bach_size: expected one of ready_when, versions, "
       "max_batch_size, "
       "dimensions, inputs, buckets, unmatched, compile, threads, instances, "
       "cpus, numa_node, weight, dynamic_batching, parity, device, graphs, "
       "unproved, outputs, update, memory, resources, ragged, got "
       "an unknown "
       "field (did "
       "you mean "
       "max_batch_size?)"},
      {"zzzzzzzzzzz: 8",
       "parity, device, graphs, unproved, outputs, update, memory, resources, "
       "ragged, got an unknown field"},
      {"update: later", "1: update: expected beside or replace, got later"},
      {"threads: 1\nthreads: 2", "2: threads: expected it once, got it again"},
      {"max_batch_size: 65",
       "1: max_batch_size: expected an integer from 1 to 64, got 65"},
      {"max_batch_size: -1",
       "1: max_batch_size: expected an integer from 1 to 64, got -1"},
      {"max_batch_size: \"8\"", "got the text \"8\""},
      {"max_batch_size: 8.0", "got 8.0"},
      {"max_batch_size:", "got nothing"},
      {"max_batch_size: [8]", "got a list of 1"},
      {"compile: yes",
       "1: compile: expected true, false or a map of levers, got yes"},
      {"compile: \"true\"", "got the text \"true\""},
      {"compile: {precision: fp16}",
       "1: compile.precision: expected float32 or bfloat16 or int8, got fp16"},
      {"device: cuda:0\ncompile: {precision: int8}",
       "2: compile.precision: expected float32, bfloat16, float16 or tf32 "
       "(this one is for CPUs), got int8"},
      {"compile: {deterministic: 1}",
       "1: compile.deterministic: expected true or false, got 1"},
      {"compile: {pays_back_within: 0}",
       "1: compile.pays_back_within: expected an integer from 1 to"},
      {"compile: {passes: passes.so}",
       "1: compile.passes: expected a Python file, from the folder of "
       "model.yaml, got passes.so"},
      {"compile: {passes: ../passes.py}",
       "1: compile.passes: expected a file in the folder of model.yaml, got "
       "../passes.py"},
      {"compile: {passes: /etc/passes.py}",
       "1: compile.passes: expected a file in the folder of model.yaml, got "
       "/etc/passes.py"},
      {"compile: {passes: none.py}",
       "1: compile.passes: expected a file that can be read, got"},
      {"compile: {options: {freezing: true}}",
       "1: compile.options.freezing: expected an option that is left to you, "
       "got freezing, which Stoker sets"},
      {"compile: {options: {epilogue_fusion: [1]}}",
       "1: compile.options.epilogue_fusion: expected true, false, a number or "
       "a text, got a list of 1"},
      {"threads: -1", "an integer from 0 to 1024, got -1"},
      {"cpus: 3-1", "1: cpus: expected CPUs such as \"0-3,8\", got 3-1"},
      {"instances: 3\ncpus: [\"0\", \"1\"]",
       "2: cpus: expected CPUs for all instances, or a list with those of "
       "each of the 3, got a list of 2"},
      {"cpus: 0\nnuma_node: 0", "2: numa_node: expected nothing beside cpus"},
      {"weight: 0", "a number from 0.001 to 1000, got 0"},
      {"weight: .nan", "weight: expected a number, got .nan"},
      {"resources: {slots: 0}",
       "1: resources.slots: expected an integer from 1 to 1000000, got 0"},
      {"resources: {slots: {count: 2, globl: true}}",
       "resources.slots.globl: expected one of count, global"},
      {"resources: {cpu: 1}", "expected a resource's name, of letters"},
      {"resources: {\"a:b\": 1}", "and not cpu, got a:b"},
      {"resources: [slots]", "resources: expected a map"},
      {"memory: {keep: 1G}", "expected true or false, got 1G"},
      {"memory: {least: 1}", "expected one of keep, got an unknown field"},
      {"instances: 0", "an integer from 1 to 64, got 0"},
      {"instances: 2\ndynamic_batching: {preserve_ordering: true}",
       "2: dynamic_batching: expected preserve_ordering: false with more than "
       "one instance, got true"},
      {"dynamic_batching: 5", "1: dynamic_batching: expected a map, got 5"},
      {"dynamic_batching: {max_queue_delay: 5}",
       "1: dynamic_batching.max_queue_delay: expected one of "
       "preferred_batch_size, max_queue_delay_microseconds, "},
      {"dynamic_batching:\n  default_queue_policy: {max_queue_size: 0}",
       "2: dynamic_batching.default_queue_policy.max_queue_size: expected"},
      {"dynamic_batching: {default_queue_policy: {timeout_action: WAIT}}",
       "timeout_action: expected REJECT or DELAY, got WAIT"},
      {"dynamic_batching: {preferred_batch_size: [99]}",
       "preferred_batch_size[0]: expected an integer from 1 to 8, got 99"},
      {"dynamic_batching: {priority_levels: 2, default_priority_level: 3}",
       "default_priority_level: expected an integer from 1 to 2, got 3"},
      {"dynamic_batching: {priority_levels: 2, priority_queue_policy: {3: {}}}",
       "expected a priority level from 1 to 2 (priority_levels), got 3"},
      {"versions: newest",
       "versions: expected latest, {latest: <number>}, all or a list"},
      {"versions: []",
       "versions: expected latest, {latest: <number>}, all or a list"},
      {"versions: [1, 1]", "versions[1]: expected every version once"},
      {"versions: [0]", "versions[0]: expected an integer from 1 up, got 0"},
      {"dimensions: [a]", "1: dimensions: expected a map, got a list of 1"},
      {"dimensions: {t: {}}", "dimensions.t: expected axis"},
      {"dimensions: {t: {axis: input_ids.2}}",
       "dimensions.t.axis: expected a dynamic axis (one of input_ids.0, "
       "input_ids.1, attention_mask.0, attention_mask.1), got input_ids.2"},
      {"dimensions: {t: {axis: input_ids.1}, u: {axis: attention_mask.1}}",
       "dimensions.u.axis: expected a dimension that has no other name, got "
       "attention_mask.1, which is t"},
      {"dimensions: {batch: {axis: input_ids.1}}",
       "dimensions: expected different names, got batch for two dimensions"},
      {"dimensions: {b: {axis: input_ids.0, padding: false}}",
       "dimensions.b.padding: expected true"},
      {"dimensions: {t: {axis: input_ids.1, pading: true}}",
       "did you mean padding?"},
      {"dimensions: {'a b': {axis: input_ids.1}}",
       "expected a name of letters"},
      {"inputs: {ids: {pad_value: 0}}",
       "inputs.ids: expected one of input_ids"},
      {"inputs: {input_ids: {pad: 0}}",
       "inputs.input_ids.pad: expected one of"},
      {"inputs: {input_ids: {range: [5, 1]}}",
       "inputs.input_ids.range: expected [least, most], got [5, 1]"},
      {"inputs: {input_ids: {range: [5]}}", "expected [least, most]"},
      {"inputs: {input_ids: {range: 5}}", "expected a list, got 5"},
      {"inputs: {input_ids: {range: [a, 1]}}",
       "inputs.input_ids.range[0]: expected a number, got a"},
      {"parity: 1", "parity: expected a map"},
      {"parity: {rtol: -1}", "parity.rtol: expected a number from 0 to 1"},
      {"parity: {atol: nan}", "parity.atol: expected a number, got nan"},
      {"parity: {cases: 0}", "parity.cases: expected an integer from 1 to 64"},
      {"parity: {seeds: 4}",
       "parity.seeds: expected one of rtol, atol, rms, cosine, argmax, cases"},
      {"buckets: 3", "expected auto, a map of dimensions to sizes, or a list"},
      {"buckets: {tokens: [1]}", "expected one of batch, input_ids.1"},
      {"buckets: {batch: []}", "buckets.batch: expected at least one size"},
      {"buckets: {batch: 1}", "buckets.batch: expected a list, got 1"},
      {"buckets: {batch: [1, 1]}",
       "buckets.batch[1]: expected every size once"},
      {"buckets: {batch: [65]}",
       "buckets.batch[0]: expected an integer from 1 to 64, got 65"},
      {"{max_batch_size: 4, buckets: {batch: [8]}}",
       "buckets.batch[0]: expected at most max_batch_size, 4, got 8"},
      {"buckets: [{batch: 1}]",
       "buckets[0]: expected a size for each of batch, input_ids.1"},
      {"buckets: [{batch: 1, input_ids.1: 0}]", "expected an integer from 1"},
      {"buckets: [{batch: 1, input_ids.1: 9}, {batch: 1, input_ids.1: 9}]",
       "buckets[1]: expected every bucket once, got batch=1,input_ids.1=9"},
      {"- 1", "1: expected a map of fields, got a list of 1"},
      {"just text", "1: expected a map of fields, got just text"},
      {"threads: 1\n---\nthreads: 2", "expected one document, got 2"},
      {"threads: [1\nx: 2", "expected YAML, got"},
      {"\tthreads: 1", "expected YAML, got"},
      {"a: *nowhere", "expected YAML, got"},
  };
  for (const auto& c : cases) {
    const std::string message = Message(c.yaml);
    EXPECT_THAT(message, testing::StartsWith("models/minilm/model.yaml:"))
        << c.yaml;
    EXPECT_THAT(message, HasSubstr(c.message)) << c.yaml;
  }
}

TEST(ModelYamlTest, AllMistakesAreReportedAtOnceAndNothingChanges) {
  ModelSpec spec = MiniLmSpec();
  const absl::Status status = ApplyModelYaml(
      "ready_when: eager\nthreads: x\nmax_batch_size: 65\ndynamic_batching: "
      "{a: "
      "1}\n",
      kPath, spec);
  const std::string message(status.message());
  EXPECT_THAT(message, HasSubstr("model.yaml:2: threads:"));
  EXPECT_THAT(message,
              HasSubstr("\nmodels/minilm/model.yaml:3: max_batch_size:"));
  EXPECT_THAT(message,
              HasSubstr("\nmodels/minilm/model.yaml:4: dynamic_batching.a:"));
  EXPECT_EQ(spec.ready_when, ReadyWhen::kWarm);
}

TEST(ModelYamlTest, TooManyBuckets) {
  std::string sizes = "1";
  for (int i = 2; i <= 64; ++i) sizes += ", " + std::to_string(i);
  EXPECT_THAT(Message("buckets: {batch: [" + sizes + "], input_ids.1: [" +
                      sizes + "]}"),
              HasSubstr("expected at most 256 buckets, got more"));
}

TEST(ModelYamlTest, HostileTextsEndInAnError) {
  EXPECT_NE(Message(std::string(100000, '[')), "OK");
  EXPECT_NE(Message(std::string(100000, '{')), "OK");
  std::string laughs = "a0: &a0 [x]\n";
  for (int i = 1; i < 40; ++i) {
    const std::string last = "*a" + std::to_string(i - 1);
    laughs += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [" +
              last + ", " + last + "]\n";
  }
  EXPECT_NE(Message(laughs), "OK");
}

TEST(ModelYamlTest, NamesForClients) {
  ModelSpec spec = MiniLmSpec();
  ASSERT_TRUE(ApplyModelYaml("inputs: {input_ids: {name: INPUT__0}, "
                             "attention_mask: {name: input_ids}}\n"
                             "outputs: {sentence_embedding: {name: o}}\n"
                             "dimensions: {tokens: {axis: input_ids.1}}\n",
                             kPath, spec)
                  .ok());
  EXPECT_EQ(spec.inputs[0].name, "INPUT__0");
  EXPECT_EQ(spec.inputs[1].name, "input_ids");
  EXPECT_EQ(spec.outputs[0].name, "token_embeddings");
  EXPECT_EQ(spec.outputs[1].name, "o");
  EXPECT_THAT(Message("inputs: {input_ids: {name: attention_mask}}"),
              HasSubstr("inputs: expected different names, got attention_mask "
                        "for two"));
  EXPECT_THAT(Message("outputs: {sentence_embedding: {name: ''}}"),
              HasSubstr("expected a name of 1 to 256 bytes"));
  EXPECT_THAT(Message("outputs: {nothing: {name: x}}"), HasSubstr("nothing"));
}

TEST(ModelYamlTest, InputsThatMayBeLeftOut) {
  const auto spec = Apply("inputs: {attention_mask: {default: 1}}");
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->inputs[0].default_value, std::nullopt);
  EXPECT_EQ(spec->inputs[1].default_value, 1);
  EXPECT_THAT(Message("inputs: {attention_mask: {default: 1.5}}"),
              HasSubstr("inputs.attention_mask.default: expected a whole "
                        "number from"));
  // Nothing would say what sizes they have.
  EXPECT_THAT(Message("inputs: {attention_mask: {default: 1}, "
                      "input_ids: {default: 0}}"),
              HasSubstr("inputs.attention_mask.default: expected inputs "
                        "without default that have the dimension batch, got "
                        "none"));
}

TEST(ModelYamlTest, ShapesForClients) {
  ModelSpec spec = MiniLmSpec();
  ASSERT_TRUE(ApplyModelYaml("inputs: {input_ids: {dims: [1, -1]}, "
                             "attention_mask: {dims: [4, 4], reshape: [16]}}\n"
                             "outputs: {sentence_embedding: {dims: [2, 192]}, "
                             "token_embeddings: {dims: [-1, 384]}}\n",
                             kPath, spec)
                  .ok());
  EXPECT_THAT(spec.inputs[0].reshape->dims, ElementsAre(-1, 1, -1));
  EXPECT_THAT(spec.inputs[0].reshape->shape, ElementsAre(-1, -1));
  EXPECT_THAT(spec.inputs[1].reshape->dims, ElementsAre(-1, 4, 4));
  EXPECT_THAT(spec.inputs[1].reshape->shape, ElementsAre(-1, 16));
  EXPECT_THAT(spec.outputs[1].reshape->dims, ElementsAre(-1, 2, 192));
  EXPECT_FALSE(spec.outputs[0].reshape.has_value());  // it changes nothing
  spec = MiniLmSpec();
  ASSERT_TRUE(ApplyModelYaml("max_batch_size: 0\n"
                             "inputs: {input_ids: {dims: [-1, 1, -1]}}\n",
                             kPath, spec)
                  .ok());
  EXPECT_THAT(spec.inputs[0].reshape->dims, ElementsAre(-1, 1, -1));
  const struct {
    const char* field;
    const char* message;
  } cases[] = {
      {"dims: [2, -1]",
       "inputs.input_ids.dims: expected as many elements as the program's [-1] "
       "before, between and behind its -1, got [2, -1]"},
      {"dims: [4, 4]", "expected as many -1 as the program's [-1], got [4, 4]"},
      {"dims: [4, 4], reshape: [15]",
       "inputs.input_ids.reshape: expected as many elements as dims [4, 4], "
       "got [15]"},
      {"dims: [513], reshape: [513]",
       "reshape: expected the program's [-1], without the batch, got [513]"},
      {"dims: [4, 4], reshape: [-1, 16]", "expected the program's [-1]"},
      {"reshape: [16]", "reshape: expected dims beside it, got none"},
      {"dims: [0]", "expected dims of 1 or more, or -1, got [0]"},
      {"dims: [-2]", "dims[0]: expected an integer from -1"},
      {"dims: 4", "dims: expected a list, got 4"},
  };
  for (const auto& c : cases) {
    EXPECT_THAT(Message(std::string("inputs: {input_ids: {") + c.field + "}}"),
                HasSubstr(c.message));
  }
}

TEST(ModelYamlTest, WithoutBatchesTheFirstAxisIsADimensionAsAnyOther) {
  ModelSpec spec = MiniLmSpec();
  ASSERT_TRUE(ApplyModelYaml("max_batch_size: 0", kPath, spec).ok());
  EXPECT_FALSE(spec.batch_dimension.has_value());
  EXPECT_EQ(spec.max_batch_size, 0);
  EXPECT_FALSE(spec.dimensions[0].padding);
}

TEST(ChooseVersionsTest, Table) {
  const struct {
    const char* yaml;
    std::vector<int64_t> found, chosen;
  } cases[] = {
      {"", {1, 2, 10}, {10}},
      {"", {}, {}},
      {"versions: latest", {2, 1}, {2}},
      {"versions: {latest: 2}", {3, 1, 2}, {2, 3}},
      {"versions: {latest: 9}", {3, 1}, {1, 3}},
      {"versions: all", {2, 1}, {1, 2}},
      {"versions: [2, 1]", {1, 2, 3}, {1, 2}},
      {"versions: [1, 7]", {1}, {1, 7}},
      // Other fields' mistakes are ApplyModelYaml's.
      {"threads: many", {1, 2}, {2}},
  };
  for (const auto& c : cases) {
    const auto chosen = ChooseVersions(c.yaml, kPath, c.found);
    ASSERT_TRUE(chosen.ok()) << chosen.status();
    EXPECT_EQ(*chosen, c.chosen) << c.yaml;
  }
  for (const char* yaml :
       {"versions: none", "versions: [x]", "versions: {latest: 0}",
        "versions: {newest: 2}", "versions: {}", "["}) {
    EXPECT_EQ(ChooseVersions(yaml, kPath, {1}).status().code(),
              absl::StatusCode::kInvalidArgument)
        << yaml;
  }
}

TEST(DefaultBucketsTest, SizesFollowTheBounds) {
  constexpr int64_t kUnbounded = std::numeric_limits<int64_t>::max();
  const struct {
    int64_t min, max;
    std::vector<int64_t> batch, other;
  } cases[] = {
      {1, 64, {1, 8}, {1, 4, 16, 64}},
      {1, 512, {1, 8}, {8, 32, 128, 512}},
      {1, kUnbounded, {1, 8}, {8, 32, 128, 512}},
      {1000, kUnbounded, {1000}, {1000}},
      {2, 5, {2, 5}, {5}},
      {1, 1, {1}, {1}},
      {1, 4, {1, 4}, {1, 4}},
  };
  for (const auto& c : cases) {
    ModelSpec spec = MiniLmSpec();
    for (DimensionSpec& dimension : spec.dimensions) {
      dimension.min = c.min;
      dimension.max = c.max;
    }
    const auto sizes = DefaultSizes(spec, std::nullopt);
    EXPECT_EQ(sizes[0], c.batch) << c.min << ".." << c.max;
    EXPECT_EQ(sizes[1], c.other) << c.min << ".." << c.max;
  }
}

TEST(DefaultBucketsTest, ManyDimensionsGetFewerSizesEach) {
  ModelSpec spec = MiniLmSpec();
  spec.dimensions.push_back(spec.dimensions[1]);
  const auto two = DefaultSizes(spec, std::nullopt);
  EXPECT_EQ(two[1].size(), 2u);
  for (int i = 0; i < 20; ++i) spec.dimensions.push_back(spec.dimensions[1]);
  const auto many = DefaultSizes(spec, std::nullopt);
  EXPECT_THAT(many[5], ElementsAre(512));
  EXPECT_EQ(Product(many)->size(), 2u);
}

TEST(DefaultBucketsTest, Product) {
  EXPECT_EQ(Product({})->size(), 1u);
  EXPECT_EQ(Product({{1, 2}, {}})->size(), 0u);
  EXPECT_THAT(*Product({{1, 2}, {3, 4}}),
              ElementsAre(ShapeBucket{{1, 3}}, ShapeBucket{{1, 4}},
                          ShapeBucket{{2, 3}}, ShapeBucket{{2, 4}}));
  const std::vector<int64_t> ten(10, 1);
  EXPECT_EQ(Product({ten, ten, ten}), std::nullopt);
}

TEST(ModelYamlTest, DevicesAndWhatFollowsFromThem) {
  EXPECT_FALSE(Apply("")->on_gpu());
  const auto gpu = Apply("device: cuda:1");
  ASSERT_TRUE(gpu.ok()) << gpu.status();
  EXPECT_TRUE(gpu->on_gpu());
  EXPECT_EQ(gpu->devices[0].index, 1);
  EXPECT_EQ(gpu->instances, 2);
  EXPECT_EQ(Apply("device: cuda:auto\ninstances: 1")->instances, 1);
  const auto both = Apply("device: [cuda:0, cuda:1]");
  ASSERT_TRUE(both.ok()) << both.status();
  EXPECT_EQ(both->devices.size(), 2u);
  EXPECT_EQ(both->instances, 2);

  ModelSpec by_default = MiniLmSpec();
  by_default.devices = {*ParseDevice("cuda:0")};
  EXPECT_EQ(Apply("", by_default)->instances, 2);
  EXPECT_FALSE(Apply("device: cpu", by_default)->on_gpu());
  EXPECT_EQ(Apply("device: cpu", by_default)->instances, 1);

  EXPECT_THAT(Message("device: gpu"),
              HasSubstr("1: device: expected cpu, cuda:N, cuda:auto"));
  EXPECT_THAT(Message("device: [cuda:0, cpu]"), HasSubstr("GPUs by index"));
  EXPECT_THAT(Message("device: [cuda:0, cuda:auto]"),
              HasSubstr("GPUs by index"));
  EXPECT_THAT(Message("device: [cuda:0, cuda:0]"),
              HasSubstr("each device once"));
  EXPECT_THAT(Message("device: []"), HasSubstr("an empty list"));
  EXPECT_THAT(Message("device: [cuda:0, cuda:1]\ninstances: 1\n"
                      "dynamic_batching: {preserve_ordering: true}"),
              HasSubstr("more than one instance"));
}

TEST(ModelYamlTest, GraphsAndWhatIsComputedInOnAGpu) {
  EXPECT_TRUE(Apply("device: cuda:0")->graphs.enabled);
  EXPECT_FALSE(Apply("device: cuda:0\ngraphs: false")->graphs.enabled);
  EXPECT_EQ(Apply("device: cuda:0\ngraphs: {memory_mb: 3}")->graphs.max_bytes,
            3 << 20);
  EXPECT_THAT(Message("graphs: {memory_mb: 0}"), HasSubstr("memory_mb"));
  EXPECT_THAT(Message("graphs: many"),
              HasSubstr("true, false or {memory_mb: N}"));
  const auto half = Apply("device: cuda:0\ncompile: {precision: float16}");
  ASSERT_TRUE(half.ok()) << half.status();
  EXPECT_EQ(half->compile.precision, ComputePrecision::kFloat16);
  EXPECT_GT(half->parity.rtol, 1e-3);
  EXPECT_EQ(
      Apply("device: cuda:0\ncompile: {precision: tf32}")->compile.precision,
      ComputePrecision::kTf32);
  for (const char* precision : {"float16", "tf32"}) {
    EXPECT_THAT(Message(std::string("compile: {precision: ") + precision + "}"),
                HasSubstr("float32, bfloat16 or int8 (this one is for GPUs)"));
  }
}

}  // namespace
}  // namespace stoker
