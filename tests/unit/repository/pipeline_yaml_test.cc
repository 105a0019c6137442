// What a model.yaml may say of a pipeline, and what each mistake is told.
#include "repository/pipeline_yaml.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace stoker {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr char kPath[] = "models/p/model.yaml";

absl::StatusOr<std::shared_ptr<const PipelineSpec>> Read(
    const std::string& yaml) {
  return ReadPipeline(yaml, kPath, "models/p");
}

std::string ErrorOf(const std::string& yaml) {
  const auto read = Read(yaml);
  EXPECT_EQ(read.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(read.status().message());
}

// With inputs [x] and outputs [y] unless the steps say else.
std::string Pipeline(const std::string& steps) {
  return absl::StrCat("pipeline:\n  inputs: [x]\n  outputs: [y]\n  steps:\n",
                      steps);
}

TEST(PipelineYamlTest, ATextWithoutOneHasNone) {
  const auto read = Read("max_batch_size: 4\n");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, nullptr);
}

TEST(PipelineYamlTest, StepsAreReadAndPutInOrder) {
  const auto read = Read(
      "max_batch_size: 4\n"
      "pipeline:\n"
      "  inputs:\n"
      "    sentences: {datatype: BYTES, dims: [-1, 1]}\n"
      "  outputs: [classes, hidden]\n"
      "  steps:\n"
      "  - {model: head, version: 3, inputs: [hidden], "
      "outputs: {out: classes}}\n"
      "  - name: body\n"
      "    model: encoder\n"
      "    version: canary\n"
      "    inputs: {input_ids: ids, attention_mask: mask}\n"
      "    outputs: {last: hidden}\n"
      "  - tokenizer: tokenizer.json\n"
      "    max_length: 128\n"
      "    inputs: {text: sentences}\n"
      "    outputs: {input_ids: ids, attention_mask: mask}\n");
  ASSERT_TRUE(read.ok()) << read.status();
  const PipelineSpec& spec = **read;
  ASSERT_EQ(spec.steps.size(), 3u);
  EXPECT_EQ(spec.max_batch_size, 4);
  EXPECT_EQ(spec.inputs[0].dtype, DataType::kBytes);
  EXPECT_EQ(spec.inputs[0].dims, (Shape{-1, 1}));
  EXPECT_TRUE(spec.steps[0].is_tokenizer());
  EXPECT_EQ(spec.steps[0].name, "tokenizer");
  EXPECT_EQ(spec.steps[0].tokenizer_path, "models/p/tokenizer.json");
  EXPECT_EQ(spec.steps[0].max_length, 128);
  EXPECT_EQ(spec.steps[1].name, "body");
  EXPECT_EQ(spec.steps[1].model, "encoder");
  EXPECT_EQ(spec.steps[1].alias, "canary");
  EXPECT_EQ(spec.steps[2].version, 3);
  EXPECT_EQ(spec.steps[2].inputs[0].own, "hidden");
  EXPECT_THAT(spec.ModelNames(), ElementsAre("encoder", "head"));
}

TEST(PipelineYamlTest, EachMistakeIsToldWithItsPlace) {
  const struct {
    std::string yaml;
    const char* message;
  } cases[] = {
      {"pipeline: {}\n", "expected inputs, outputs and steps"},
      {"threads: 2\npipeline: {}\n", "threads"},
      {Pipeline("  - {model: m, inputs: {a: z}, outputs: {b: y}}\n"),
       "model.yaml:5: pipeline.steps[0].inputs.a: expected a tensor that the "
       "pipeline takes or a step makes, got 'z', which nobody makes"},
      {Pipeline("  - {model: m, inputs: {a: x}, outputs: {b: z}}\n"),
       "got 'y', which nobody makes"},
      {Pipeline("  - {model: m, inputs: {a: y}, outputs: {b: z}}\n"
                "  - {model: n, inputs: {a: z}, outputs: {b: y}}\n"),
       "expected an input that a step takes, got 'x', which none does"},
      {Pipeline("  - {model: m, inputs: {a: x}, outputs: {b: y}}\n"
                "  - {model: n, inputs: {a: x}, outputs: {b: y}}\n"),
       "got 'y', which step 'm' makes as well"},
      {Pipeline("  - {model: m, inputs: {a: x}, outputs: {b: x, c: y}}\n"),
       "got 'x', which is an input of the pipeline"},
      {Pipeline("  - {model: m, inputs: {a: x, b: z}, outputs: {b: y}}\n"
                "  - {model: n, inputs: {a: y}, outputs: {b: z}}\n"),
       "expected steps without a circle, got 'm' -> 'n' -> 'm'"},
      {Pipeline("  - {model: m, inputs: {a: x, b: y}, outputs: {b: y}}\n"),
       "got 'm' -> 'm'"},
      {Pipeline("  - {inputs: {a: x}, outputs: {b: y}}\n"),
       "expected either a model or a tokenizer, got neither"},
      {Pipeline("  - {model: m, tokenizer: t.json, inputs: {a: x}, "
                "outputs: {b: y}}\n"),
       "got both"},
      {Pipeline("  - {tokenizer: ../t.json, inputs: {text: x}, "
                "outputs: {input_ids: y}}\n"),
       "expected the name of a file beside model.yaml"},
      {Pipeline("  - {tokenizer: t.json, inputs: {words: x}, "
                "outputs: {input_ids: y}}\n"),
       "expected one input of a tokenizer, text"},
      {Pipeline("  - {tokenizer: t.json, inputs: {text: x}, "
                "outputs: {ids: y}}\n"),
       "expected outputs of a tokenizer: input_ids"},
      {Pipeline("  - {model: m, max_length: 5, inputs: {a: x}, "
                "outputs: {b: y}}\n"),
       "max_length: expected none of a model"},
      {Pipeline("  - {model: m, inputs: {a: x}, outputs: {b: z}}\n"
                "  - {model: m, inputs: {a: z}, outputs: {b: y}}\n"),
       "expected a name of its own for each step (name:), got m"},
      {Pipeline("  - {model: 'a/b', inputs: {a: x}, outputs: {b: y}}\n"),
       "expected the name of a model"},
      {"pipeline:\n  inputs: {x: {datatype: FLOAT}}\n  outputs: [y]\n"
       "  steps:\n  - {model: m, inputs: {a: x}, outputs: {b: y}}\n",
       "expected a datatype, such as FP32 or BYTES"},
      {Pipeline("  []\n"), "expected 1 to 64 steps"},
  };
  for (const auto& [yaml, message] : cases) {
    EXPECT_THAT(ErrorOf(yaml), HasSubstr(message)) << yaml;
  }
}

}  // namespace
}  // namespace stoker
