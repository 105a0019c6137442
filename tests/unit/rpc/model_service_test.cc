#include "rpc/model_service.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/rpc/codec_fixtures.h"

namespace stoker {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Not;

TEST(ParseVersion, PositiveIntegersAliasesOrNothing) {
  EXPECT_EQ(ParseVersion("")->number, 0);
  EXPECT_EQ(ParseVersion("")->alias, "");
  EXPECT_EQ(ParseVersion("1")->number, 1);
  EXPECT_EQ(ParseVersion("9223372036854775807")->number, INT64_MAX);
  EXPECT_EQ(ParseVersion("canary-2.b")->alias, "canary-2.b");
  EXPECT_EQ(ParseVersion("canary")->number, 0);
  for (const char* wrong : {"0", "-1", "+1", " 1", "1 ", "1.0", "one more",
                            "0x1", "_a", "9223372036854775808"}) {
    EXPECT_EQ(ParseVersion(wrong).status().code(),
              absl::StatusCode::kInvalidArgument)
        << wrong;
  }
}

TEST(ServerMetadata, AnnouncesOnlyWhatWorks) {
  inference::ServerMetadataResponse response;
  FillServerMetadata("stoker", "0.1.0", /*shared_memory=*/false, &response);
  EXPECT_EQ(response.name(), "stoker");
  EXPECT_EQ(response.version(), "0.1.0");
  EXPECT_THAT(response.extensions(), Contains("statistics"));
  EXPECT_THAT(response.extensions(), Contains("model_configuration"));
  EXPECT_THAT(response.extensions(), Contains("trace"));
  EXPECT_THAT(response.extensions(), Contains("logging"));
  for (const char* missing : {"system_shared_memory", "cuda_shared_memory",
                              "sequence", "schedule_policy"}) {
    EXPECT_THAT(response.extensions(), Not(Contains(missing)));
  }
  FillServerMetadata("stoker", "0.1.0", /*shared_memory=*/true, &response);
  EXPECT_THAT(response.extensions(), Contains("system_shared_memory"));
}

// Clients cut the first dimension off the metadata's shapes to get the
// configuration's.
TEST(ModelConfig, IsTheMetadataWithoutTheBatch) {
  const ModelSpec spec = TextModel();
  inference::ModelMetadataResponse metadata;
  inference::ModelConfig config;
  FillModelMetadata(spec, &metadata);
  FillModelConfig(spec, &config);

  EXPECT_EQ(config.max_batch_size(), 8);
  ASSERT_EQ(metadata.inputs_size(), 3);
  EXPECT_EQ(metadata.inputs(2).name(), "scale");
  EXPECT_EQ(metadata.inputs(2).datatype(), "FP32");
  EXPECT_THAT(metadata.inputs(2).shape(), ElementsAre(-1, -1, 3));
  EXPECT_EQ(config.input(2).name(), "scale");
  EXPECT_EQ(config.input(2).data_type(), inference::TYPE_FP32);
  EXPECT_THAT(config.input(2).dims(), ElementsAre(-1, 3));
  EXPECT_THAT(metadata.outputs(1).shape(), ElementsAre(-1));
  EXPECT_TRUE(config.output(1).dims().empty());
  EXPECT_EQ(metadata.platform(), config.platform());
  EXPECT_EQ(config.parameters().at("buckets").string_value(),
            "batch=1,tokens=16;batch=8,tokens=16");
}

TEST(ModelConfig, ClientsSeeTheirShapesAndWhatTheyBecome) {
  ModelSpec spec = TextModel();
  spec.inputs[0].reshape = {{-1, 1, -1}, {-1, -1}};
  spec.outputs[1].reshape = {{-1, 1}, {-1}};
  inference::ModelMetadataResponse metadata;
  inference::ModelConfig config;
  FillModelMetadata(spec, &metadata);
  FillModelConfig(spec, &config);
  EXPECT_THAT(metadata.inputs(0).shape(), ElementsAre(-1, 1, -1));
  EXPECT_THAT(metadata.outputs(1).shape(), ElementsAre(-1, 1));
  EXPECT_THAT(config.input(0).dims(), ElementsAre(1, -1));
  EXPECT_THAT(config.input(0).reshape().shape(), ElementsAre(-1));
  EXPECT_FALSE(config.input(1).has_reshape());
  EXPECT_THAT(config.output(1).dims(), ElementsAre(1));
  EXPECT_TRUE(config.output(1).has_reshape());
  EXPECT_TRUE(config.output(1).reshape().shape().empty());
}

TEST(ModelConfig, SaysWhatMayBeLeftOut) {
  ModelSpec spec = TextModel();
  spec.inputs[1].default_value = 1;
  inference::ModelConfig config;
  FillModelConfig(spec, &config);
  EXPECT_FALSE(config.input(0).optional());
  EXPECT_TRUE(config.input(1).optional());
}

TEST(ModelConfig, StringsAreWithoutTheirBytes) {
  ModelSpec spec = TextModel();
  spec.inputs[0].dtype = spec.outputs[0].dtype = DataType::kUint8;
  spec.inputs[0].is_bytes = spec.outputs[0].is_bytes = true;
  spec.inputs[0].reshape = {{-1, 1}, {-1}};
  inference::ModelMetadataResponse metadata;
  inference::ModelConfig config;
  FillModelMetadata(spec, &metadata);
  FillModelConfig(spec, &config);
  EXPECT_EQ(metadata.inputs(0).datatype(), "BYTES");
  EXPECT_THAT(metadata.inputs(0).shape(), ElementsAre(-1, 1));
  EXPECT_THAT(metadata.outputs(0).shape(), ElementsAre(-1));
  EXPECT_EQ(config.input(0).data_type(), inference::TYPE_STRING);
  EXPECT_THAT(config.input(0).dims(), ElementsAre(1));
  EXPECT_EQ(config.output(0).data_type(), inference::TYPE_STRING);
  EXPECT_TRUE(config.output(0).dims().empty());
}

TEST(ModelConfig, SaysWhereItRuns) {
  ModelSpec spec = TextModel();
  inference::ModelConfig config;
  FillModelConfig(spec, &config);
  EXPECT_EQ(config.instance_group(0).kind(),
            inference::ModelInstanceGroup::KIND_CPU);
  spec.devices = {{Device::Kind::kGpu, 1, ""}};
  inference::ModelConfig on_gpus;
  FillModelConfig(spec, &on_gpus);
  EXPECT_EQ(on_gpus.instance_group(0).kind(),
            inference::ModelInstanceGroup::KIND_GPU);
}

TEST(ModelConfig, TheQueueIsAsTheModelSays) {
  ModelSpec spec = TextModel();
  spec.dynamic_batching.max_queue_delay = absl::Microseconds(700);
  spec.dynamic_batching.preferred_batch_sizes = {4, 8};
  spec.dynamic_batching.policies = {
      {.delay_on_timeout = true, .default_timeout = absl::Milliseconds(3)},
      {.allow_timeout_override = false, .max_queue_size = 5}};
  spec.dynamic_batching.default_priority_level = 2;
  inference::ModelConfig config;
  FillModelConfig(spec, &config);
  const inference::ModelDynamicBatching& batching = config.dynamic_batching();
  EXPECT_EQ(batching.max_queue_delay_microseconds(), 700u);
  EXPECT_THAT(batching.preferred_batch_size(), ElementsAre(4, 8));
  EXPECT_EQ(batching.priority_levels(), 2u);
  EXPECT_EQ(batching.default_priority_level(), 2u);
  EXPECT_EQ(batching.default_queue_policy().max_queue_size(), 5u);
  const auto& urgent = batching.priority_queue_policy().at(1);
  EXPECT_EQ(urgent.timeout_action(), inference::ModelQueuePolicy::DELAY);
  EXPECT_EQ(urgent.default_timeout_microseconds(), 3000u);
  EXPECT_TRUE(urgent.allow_timeout_override());
}

TEST(ModelConfig, WithoutABatchDimensionNothingIsCut) {
  inference::ModelConfig config;
  FillModelConfig(PlainModel(DataType::kBf16), &config);
  EXPECT_EQ(config.max_batch_size(), 0);
  EXPECT_FALSE(config.has_dynamic_batching());
  EXPECT_THAT(config.input(0).dims(), ElementsAre(2, -1));
  EXPECT_EQ(config.input(0).data_type(), inference::TYPE_BF16);
}

TEST(ModelStatistics, EveryFigureHasItsPlace) {
  StatsSnapshot stats;
  stats.inference_count = 40;
  stats.execution_count = 7;
  stats.last_inference_ms = 1234;
  stats.success = {10, 100};
  stats.fail = {1, 11};
  stats.queue = {2, 12};
  stats.compute_input = {3, 13};
  stats.compute_infer = {4, 14};
  stats.compute_output = {5, 15};
  stats.batches[8].compute_infer = {6, 16};
  inference::ModelStatistics out;
  FillModelStatistics(TextModel(), stats, &out);
  EXPECT_EQ(out.name(), "text");
  EXPECT_EQ(out.version(), "3");
  EXPECT_EQ(out.last_inference(), 1234u);
  EXPECT_EQ(out.inference_count(), 40u);
  EXPECT_EQ(out.execution_count(), 7u);
  const inference::InferStatistics& totals = out.inference_stats();
  EXPECT_EQ(totals.success().count(), 10u);
  EXPECT_EQ(totals.success().ns(), 100u);
  EXPECT_EQ(totals.fail().ns(), 11u);
  EXPECT_EQ(totals.queue().ns(), 12u);
  EXPECT_EQ(totals.compute_input().ns(), 13u);
  EXPECT_EQ(totals.compute_infer().ns(), 14u);
  EXPECT_EQ(totals.compute_output().ns(), 15u);
  ASSERT_EQ(out.batch_stats_size(), 1);
  EXPECT_EQ(out.batch_stats(0).batch_size(), 8u);
  EXPECT_EQ(out.batch_stats(0).compute_infer().count(), 6u);
}

TEST(RepositoryIndex, StatesAndFilter) {
  const std::vector<VersionStatus> versions = {
      {"a", 1, VersionState::kServing, "", true},
      {"b", 1, VersionState::kWarming, "bucket 3 of 8", true},
      {"c", 2, VersionState::kFailed, "bad\xFF program", true},
      {"d", 0, VersionState::kFailed, "model.yaml:1", true},
      {"e", 1, VersionState::kDraining, "", false},
      {"f", 1, VersionState::kUnloaded, "", false},
      {"g", 1, VersionState::kNew, "", false},
  };
  inference::RepositoryIndexResponse all;
  FillRepositoryIndex(versions, false, &all);
  std::vector<std::string> states;
  for (const auto& line : all.models()) states.push_back(line.state());
  EXPECT_THAT(states,
              ElementsAre("READY", "LOADING", "UNAVAILABLE", "UNAVAILABLE",
                          "UNLOADING", "UNAVAILABLE", "LOADING"));
  EXPECT_EQ(all.models(1).reason(), "bucket 3 of 8");
  EXPECT_EQ(all.models(2).version(), "2");
  EXPECT_EQ(all.models(2).reason(), "bad? program");
  EXPECT_EQ(all.models(3).version(), "");
  EXPECT_EQ(all.models(5).reason(), "unloaded");

  inference::RepositoryIndexResponse ready;
  FillRepositoryIndex(versions, true, &ready);
  ASSERT_EQ(ready.models_size(), 1);
  EXPECT_EQ(ready.models(0).name(), "a");
}

}  // namespace
}  // namespace stoker
