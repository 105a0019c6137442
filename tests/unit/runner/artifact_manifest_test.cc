// Reading an artifact's manifest, and what its validity output says.
#include "runner/artifact_manifest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "nlohmann/json.hpp"

namespace stoker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

nlohmann::json Right() {
  return nlohmann::json::parse(R"({
    "schema": 1, "key": "00", "model": "m:1", "bucket": "batch=8,tokens=32",
    "factors": {}, "files": {"model.so": {"bytes": 1, "sha256": "00"}},
    "toolchain": {"torch": "2.11.0+cu130", "march": "x86-64-v3", "simdlen": 256},
    "inputs": [{"name": "ids", "dtype": "int64", "shape": [8, -1],
                "range": [[8, 8], [2, 512]]},
               {"name": "mask", "dtype": "bfloat16", "shape": []}],
    "outputs": 2, "validity_output": 2,
    "guards": [
      {"bit": 0, "operator": "aten.embedding.default", "input": "ids",
       "message": "index out of range, expected 0 <= index < 10"},
      {"bit": 1, "operator": "aten.div.Tensor_mode", "input": null,
       "message": "division by zero"}],
    "constants": ["table.weight", "up.weight"], "packed": ["up.weight"],
    "packed_as": "bfloat16",
    "convolutions": [
      {"weight": "conv.weight", "stride": [1, 2], "padding": [0, 1],
       "dilation": [1, 1], "groups": 2, "input": [1, 6, 224, 224]}]})");
}

TEST(ArtifactManifestTest, ReadsWhatTheWorkerWrites) {
  const auto manifest = ParseArtifactManifest(Right().dump());
  ASSERT_TRUE(manifest.ok()) << manifest.status();
  EXPECT_EQ(manifest->bucket, "batch=8,tokens=32");
  EXPECT_EQ(manifest->torch, "2.11.0+cu130");
  EXPECT_EQ(manifest->march, "x86-64-v3");
  ASSERT_THAT(manifest->inputs, SizeIs(2));
  EXPECT_EQ(manifest->inputs[0].name, "ids");
  EXPECT_EQ(manifest->inputs[0].dtype, DataType::kInt64);
  EXPECT_THAT(manifest->inputs[0].shape, ElementsAre(8, -1));
  EXPECT_THAT(manifest->inputs[0].range,
              ElementsAre(std::pair(8, 8), std::pair(2, 512)));
  EXPECT_THAT(manifest->inputs[1].range, IsEmpty());
  EXPECT_EQ(manifest->inputs[1].dtype, DataType::kBf16);
  EXPECT_THAT(manifest->inputs[1].shape, IsEmpty());
  EXPECT_EQ(manifest->outputs, 2);
  EXPECT_EQ(manifest->validity_output, 2);
  ASSERT_THAT(manifest->guards, SizeIs(2));
  EXPECT_EQ(manifest->guards[0].text,
            "ids: index out of range, expected 0 <= index < 10 "
            "(aten.embedding.default)");
  EXPECT_EQ(manifest->guards[1].text,
            "division by zero (aten.div.Tensor_mode)");
  EXPECT_THAT(manifest->constants, ElementsAre("table.weight", "up.weight"));
  EXPECT_THAT(manifest->packed, ElementsAre("up.weight"));
  EXPECT_EQ(manifest->packed_as, DataType::kBf16);
  EXPECT_THAT(manifest->convolutions, ElementsAre("conv.weight"));
}

TEST(ArtifactManifestTest, OfAGpu) {
  const auto cpu = ParseArtifactManifest(Right().dump());
  EXPECT_EQ(cpu->device, "cpu");
  EXPECT_EQ(cpu->gpu_arch, "");
  nlohmann::json text = Right();
  text["device"] = "cuda";
  text["factors"] = {{"cuda.arch", "sm_90"}};
  text["capturable"] = true;
  text["not_capturable"] = nullptr;
  text["packed_as"] = "float16";
  auto manifest = ParseArtifactManifest(text.dump());
  ASSERT_TRUE(manifest.ok()) << manifest.status();
  EXPECT_EQ(manifest->device, "cuda");
  EXPECT_EQ(manifest->gpu_arch, "sm_90");
  EXPECT_EQ(manifest->not_capturable, "");
  EXPECT_EQ(manifest->packed_as, DataType::kFp16);
  EXPECT_FALSE(manifest->tf32);

  text["capturable"] = false;
  EXPECT_FALSE(ParseArtifactManifest(text.dump()).ok());
  text["not_capturable"] = "aten.nonzero waits for the device";
  text["factors"]["precision"] = "tf32";
  manifest = ParseArtifactManifest(text.dump());
  EXPECT_EQ(manifest->not_capturable, "aten.nonzero waits for the device");
  EXPECT_TRUE(manifest->tf32);

  for (const char* field : {"capturable", "factors"}) {
    nlohmann::json wrong = text;
    wrong[field] = 3;
    EXPECT_THAT(
        std::string(ParseArtifactManifest(wrong.dump()).status().message()),
        HasSubstr("manifest: field"));
  }
  text["device"] = "tpu";
  EXPECT_FALSE(ParseArtifactManifest(text.dump()).ok());
}

TEST(ArtifactManifestTest, AProgramWithoutGuardsHasNoValidity) {
  nlohmann::json text = Right();
  text["validity_output"] = nullptr;
  text["guards"] = nlohmann::json::array();
  const auto manifest = ParseArtifactManifest(text.dump());
  ASSERT_TRUE(manifest.ok()) << manifest.status();
  EXPECT_EQ(manifest->validity_output, std::nullopt);
}

struct WrongField {
  const char* pointer;   // where in the JSON
  const char* value;     // null: the field is missing
  const char* expected;  // in the message
};

class WrongManifestTest : public ::testing::TestWithParam<WrongField> {};

TEST_P(WrongManifestTest, IsRefusedWithTheField) {
  const WrongField& row = GetParam();
  nlohmann::json text = Right();
  const nlohmann::json::json_pointer pointer(row.pointer);
  if (row.value == nullptr) {
    text[pointer.parent_pointer()].erase(pointer.back());
  } else {
    text[pointer] = nlohmann::json::parse(row.value);
  }
  const absl::Status status = ParseArtifactManifest(text.dump()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr(row.expected));
}

INSTANTIATE_TEST_SUITE_P(
    Table, WrongManifestTest,
    ::testing::Values(
        WrongField{"/schema", nullptr, "'schema'"},
        WrongField{"/schema", "2", "'schema'"},
        WrongField{"/bucket", "7", "'bucket'"},
        WrongField{"/toolchain", nullptr, "'torch'"},
        WrongField{"/toolchain/march", "null", "'march'"},
        WrongField{"/inputs", "{}", "'inputs'"},
        WrongField{"/inputs/0/name", nullptr, "'name'"},
        WrongField{"/inputs/0/dtype", "\"complex64\"", "no dtype complex64"},
        WrongField{"/inputs/0/shape", "3", "'inputs'"},
        WrongField{"/inputs/0/shape/1", "-2", "'inputs'"},
        WrongField{"/inputs/0/shape/1", "1.5", "'inputs'"},
        WrongField{"/inputs/0/range", nullptr, "a range for each dimension"},
        WrongField{"/inputs/0/range", "[[8, 8]]", "a range for each dimension"},
        WrongField{"/inputs/0/range/1", "[512, 2]", "the lower one first"},
        WrongField{"/inputs/0/range/1", "[-1, 2]", "the lower one first"},
        WrongField{"/outputs", "-1", "'outputs'"},
        WrongField{"/outputs", nullptr, "'outputs'"},
        WrongField{"/validity_output", nullptr, "'validity_output'"},
        WrongField{"/validity_output", "3", "'validity_output'"},
        WrongField{"/guards", nullptr, "'guards'"},
        WrongField{"/guards/0/bit", "63", "'bit'"},
        WrongField{"/guards/0/message", nullptr, "'message'"},
        WrongField{"/guards/0/operator", nullptr, "'operator'"},
        WrongField{"/constants", nullptr, "'constants'"},
        WrongField{"/constants/0", "1", "'constants'"},
        WrongField{"/packed", nullptr, "'packed'"},
        WrongField{"/packed/0", "1", "'packed'"},
        WrongField{"/packed_as", nullptr, "'packed_as'"},
        WrongField{"/packed_as", "\"float8\"", "no dtype float8"},
        WrongField{"/convolutions", nullptr, "'convolutions'"},
        WrongField{"/convolutions/0/weight", nullptr, "'weight'"}));

TEST(ArtifactManifestTest, OtherTextIsRefused) {
  for (const char* text : {"", "[]", "null", "{", "{\"schema\": 1}"}) {
    EXPECT_FALSE(ParseArtifactManifest(text).ok()) << text;
  }
}

class DecodeValidityTest : public ::testing::Test {
 protected:
  const std::vector<ArtifactGuard> guards_ = {
      {0, "ids: index out of range"}, {1, "division by zero"}, {62, "others"}};
};

TEST_F(DecodeValidityTest, NoBitsNoFaults) {
  EXPECT_THAT(DecodeValidity({0, 0, 0}, guards_), IsEmpty());
  EXPECT_THAT(DecodeValidity({}, guards_), IsEmpty());
}

TEST_F(DecodeValidityTest, NamesTheRowsAndJoinsTheGuards) {
  const auto faults = DecodeValidity({0, 1, 3, 0, int64_t{1} << 62}, guards_);
  ASSERT_THAT(faults, SizeIs(3));
  EXPECT_EQ(faults[0].row, 1);
  EXPECT_EQ(faults[0].message, "ids: index out of range");
  EXPECT_EQ(faults[1].row, 2);
  EXPECT_EQ(faults[1].message, "ids: index out of range; division by zero");
  EXPECT_EQ(faults[2].row, 4);
  EXPECT_EQ(faults[2].message, "others");
}

TEST_F(DecodeValidityTest, OneElementStandsForEveryRow) {
  const auto faults = DecodeValidity({2}, guards_);
  ASSERT_THAT(faults, SizeIs(1));
  EXPECT_EQ(faults[0].row, -1);
  EXPECT_EQ(faults[0].message, "division by zero");
}

TEST_F(DecodeValidityTest, ABitWithoutAGuardIsStillAFault) {
  const auto faults = DecodeValidity({0, 1 << 5}, guards_);
  ASSERT_THAT(faults, SizeIs(1));
  EXPECT_THAT(faults[0].message, HasSubstr("bits 32"));
}

}  // namespace
}  // namespace stoker
