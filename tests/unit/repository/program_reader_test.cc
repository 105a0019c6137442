#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "program_fixture.h"
#include "repository/model_repository.h"

namespace stoker {
namespace {

using json = nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

using Pointer = json::json_pointer;

TEST(ReadProgramTest, InputsAndOutputsAreTheAuthors) {
  const auto spec = ProgramFixture().Read();
  ASSERT_TRUE(spec.ok()) << spec.status();
  std::vector<std::string> inputs, outputs;
  for (const InputSpec& input : spec->inputs) inputs.push_back(input.name);
  for (const OutputSpec& output : spec->outputs) outputs.push_back(output.name);
  EXPECT_THAT(inputs,
              ElementsAre("INPUT_ids", "Pair_0", "Pair_1_Left", "Mask"));
  EXPECT_THAT(outputs, ElementsAre("Scores", "Parts_0", "Parts_1"));
  EXPECT_EQ(spec->inputs[0].dtype, DataType::kInt32);
  EXPECT_EQ(spec->inputs[3].dtype, DataType::kFp32);
}

TEST(ReadProgramTest, DimensionsHaveNamesAndBounds) {
  const auto spec = ProgramFixture().Read();
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_THAT(spec->DimensionNames(), ElementsAre("batch", "INPUT_ids.1"));
  EXPECT_EQ(spec->batch_dimension, 0);
  EXPECT_EQ(spec->dimensions[0].min, 1);
  EXPECT_EQ(spec->dimensions[0].max, 32);
  EXPECT_TRUE(spec->dimensions[0].padding);
  EXPECT_EQ(spec->dimensions[1].min, 2);
  EXPECT_EQ(spec->dimensions[1].max, 64);
  EXPECT_FALSE(spec->dimensions[1].padding);
  // Parts_0 is [batch, 2 * length].
  EXPECT_EQ(spec->outputs[1].dims[1].Evaluate({3, 5}), 10);
  EXPECT_EQ(spec->outputs[2].dims[2].Evaluate({3, 5}), 4);
}

TEST(ReadProgramTest, SharedStorageCountsOnce) {
  const auto spec = ProgramFixture().Read();
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->weights_bytes, 12 * 4 * 4 + 4 + 4);
}

TEST(ReadProgramTest, TopFolderMayHaveAnyName) {
  ProgramFixture renamed;
  std::map<std::string, std::string> members;
  for (const auto& [name, content] : renamed.members) {
    members["x y" + name.substr(name.find('/'))] = content;
  }
  renamed.members = members;
  const auto spec = renamed.Read();
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->weights_digest, ProgramFixture().Read()->weights_digest);
  EXPECT_EQ(spec->program_digest, ProgramFixture().Read()->program_digest);
}

TEST(ReadProgramTest, BoundsOfAnUnboundedProgram) {
  ProgramFixture fixture;
  fixture.Edit(ProgramFixture::kProgram, [](json& program) {
    const json none = {{"min_val", 0}, {"max_val", nullptr}};
    for (json& range : program["range_constraints"]) range = none;
  });
  auto spec = fixture.Read();
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->dimensions[1].min, 1);
  EXPECT_EQ(spec->dimensions[1].max, std::numeric_limits<int64_t>::max());
  fixture.Edit(ProgramFixture::kProgram,
               [](json& program) { program["range_constraints"].clear(); });
  spec = fixture.Read();
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->dimensions[1].max, std::numeric_limits<int64_t>::max());
}

TEST(ReadProgramTest, NoBatchDimensionUnlessSharedByAll) {
  ProgramFixture fixture;
  fixture.Edit(ProgramFixture::kProgram, [](json& program) {
    json& output = program[Pointer("/graph_module/graph/outputs/0")];
    const std::string name = output["as_tensor"]["name"];
    json& sizes = program["graph_module"]["graph"]["tensor_values"][name];
    sizes["sizes"][0] = {{"as_int", 3}};
  });
  const auto spec = fixture.Read();
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->batch_dimension, std::nullopt);
  EXPECT_THAT(spec->DimensionNames(),
              ElementsAre("INPUT_ids.0", "INPUT_ids.1"));
}

TEST(ReadProgramTest, DataDependentOutputSizeIsUnknown) {
  ProgramFixture fixture;
  fixture.Edit(ProgramFixture::kProgram, [](json& program) {
    json& graph = program["graph_module"]["graph"];
    const std::string name = graph["outputs"][1]["as_tensor"]["name"];
    graph["tensor_values"][name]["sizes"][1]["as_expr"]["expr_str"] =
        "Symbol('u0', integer=True)";
  });
  const auto spec = fixture.Read();
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->outputs[1].dims[1].kind(), DimExpr::Kind::kUnknown);
}

// --- refusals ---

struct Refusal {
  const char* member;
  std::string pointer;
  json value;
  const char* message;
};

constexpr char kInputMeta[] = "/graph_module/graph/tensor_values/input_ids";

std::string Meta(const std::string& rest) { return kInputMeta + rest; }

TEST(ReadProgramTest, RefusedDocuments) {
  const char* const kProgram = ProgramFixture::kProgram;
  const char* const kWeights = ProgramFixture::kWeights;
  const char* const kConstants = ProgramFixture::kConstants;
  const std::string sizes = Meta("/sizes"), strides = Meta("/strides"),
                    dtype = Meta("/dtype"), layout = Meta("/layout");
  const json tensor = {{"as_tensor", {{"name", "input_ids"}}}};
  const Refusal cases[] = {
      {kProgram, "/schema_version/major", 9, "expected schema version 8"},
      {kProgram, "/schema_version", nullptr, "expected an object, got null"},
      {kProgram,
       "/graph_module/signature/input_specs/0",
       {{"custom_obj", {{"custom_obj_name", "q"}}}},
       "expected a tensor input"},
      {kProgram,
       "/graph_module/signature/input_specs/0",
       {{"token", {{"arg", {{"name", "t"}}}}}},
       "expected a tensor input"},
      {kProgram,
       "/graph_module/signature/input_specs/5",
       {{"user_input", {{"arg", {{"as_sym_int", {{"as_name", "s"}}}}}}}},
       "expected a tensor input, got as_sym_int"},
      {kProgram,
       "/graph_module/signature/input_specs/5",
       {{"constant_input", {{"name", "c"}, {"value", {{"as_none", true}}}}}},
       "got a constant_input"},
      {kProgram, "/graph_module/signature/input_specs/5", json::array(),
       "expected an object of one member"},
      {kProgram,
       "/graph_module/signature/output_specs/0",
       {{"buffer_mutation",
         {{"arg", {{"name", "x"}}}, {"buffer_name", "scale"}}}},
       "got a buffer_mutation"},
      {kProgram,
       "/graph_module/signature/output_specs/0",
       {{"user_input_mutation",
         {{"arg", {{"name", "x"}}}, {"user_input_name", "mask"}}}},
       "got a user_input_mutation"},
      {kProgram,
       "/graph_module/signature/output_specs/0",
       {{"user_output", {{"arg", {{"as_none", true}}}}}},
       "expected a tensor output, got as_none"},
      {kProgram,
       "/graph_module/signature/output_specs/0",
       {{"user_output", {{"arg", {{"as_tensor", {{"name", "nowhere"}}}}}}}},
       "expected a member \"nowhere\""},
      {kProgram,
       "/graph_module/signature/input_specs/1",
       {{"user_input", {{"arg", tensor}}}},
       "expected a calling convention of"},
      {kProgram,
       "/graph_module/graph/custom_obj_values",
       {{"q", {{"class_fqn", "c"}}}},
       "expected no custom objects"},
      {kProgram, "/graph_module/graph/tensor_values", 3, "expected an object"},
      {kProgram, dtype, 10, "expected a dtype that the inference"},
      {kProgram, dtype, "float", "expected a 64-bit integer"},
      {kProgram, layout, 2, "expected a dense layout"},
      {kProgram, sizes, json(json::array_t(40, {{"as_int", 1}})),
       "expected at most 32 axes"},
      {kProgram, sizes + "/0", {{"as_int", -1}}, "not negative"},
      {kProgram, sizes + "/0", {{"as_int", 1.5}}, "64-bit integer"},
      {kProgram,
       sizes + "/0",
       {{"as_expr", {{"expr_str", "Mul(Integer(2), Symbol('s18'))"}}}},
       "every axis of input INPUT_ids"},
      {kProgram, strides + "/0", {{"as_int", 1}}, "contiguous"},
      {kProgram, strides, json::array(), "as many strides as sizes"},
      {kProgram,
       "/range_constraints/s18",
       {{"min_val", 5}, {"max_val", 4}},
       "expected a range from 5 up"},
      {kProgram,
       "/range_constraints/s18",
       {{"max_val", "many"}},
       "expected a 64-bit integer"},
      {kWeights, "/config/embedding.weight/use_pickle", true,
       "use_pickle: expected false"},
      {kConstants, "/config/scale/use_pickle", true,
       "use_pickle: expected false"},
      {kConstants, "/config/scale/tensor_meta", nullptr, "expected an object"},
      {kWeights, "/config/embedding.weight/path_name", "../weight_0",
       "expected a member of author/data/weights/"},
      {kWeights, "/config/embedding.weight/path_name", "../constants/tensor_0",
       "expected a member of author/data/weights/"},
      {kWeights, "/config/embedding.weight/path_name", "weight_9",
       "expected a member of author/data/weights/"},
      {kWeights, "/config/embedding.weight/tensor_meta/sizes/0/as_int", 13,
       "expected a tensor within the 192 bytes of "
       "author/data/weights/weight_0"},
      {kWeights, "/config/embedding.weight/tensor_meta/storage_offset/as_int",
       1, "expected a tensor within the 192 bytes"},
      {kWeights, "/config/embedding.weight/tensor_meta/storage_offset/as_int",
       -1, "not negative"},
      {kWeights, "/config/embedding.weight/tensor_meta/strides/0/as_int",
       std::numeric_limits<int64_t>::max(), "expected a tensor within"},
      {kWeights, "/config/embedding.weight/tensor_meta/strides/0/as_int", -4,
       "not negative"},
      {kWeights, "/config/embedding.weight/tensor_meta/dtype", 8,
       "expected a tensor within"},
      {kWeights, "/config/embedding.weight/tensor_meta/dtype", 99,
       "expected a dtype of known size"},
      {kWeights, "/config/embedding.weight/tensor_meta/layout", 1,
       "expected a dense layout"},
      {kWeights, "/config", json::array(), "expected an object"},
      {kWeights, "/config/embedding.weight", 5, "expected an object"},
      {kWeights, "/config", json::object(),
       "expected a weight or constant embedding.weight"},
  };
  for (const Refusal& c : cases) {
    SCOPED_TRACE(c.pointer + " = " + c.value.dump());
    ProgramFixture fixture;
    fixture.Edit(c.member, [&](json& document) {
      document.at(Pointer(c.pointer)) = c.value;
    });
    const auto spec = fixture.Read();
    EXPECT_EQ(spec.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(spec.status().message()), HasSubstr(c.message));
    EXPECT_THAT(std::string(spec.status().message()), HasSubstr("model.pt2"));
  }
}

TEST(ReadProgramTest, RefusedArchives) {
  using Members = std::map<std::string, std::string>;
  const struct {
    const char* name;
    std::function<void(Members&)> damage;
    const char* message;
  } cases[] = {
      {"no marker", [](Members& m) { m.erase("author/archive_format"); },
       "written by torch.export.save"},
      {"wrong marker", [](Members& m) { m["author/archive_format"] = "pt3"; },
       "got \"pt3\""},
      {"long marker",
       [](Members& m) { m["author/byteorder"] = std::string(1000, 'b'); },
       "author/byteorder"},
      {"big-endian", [](Members& m) { m["author/byteorder"] = "big"; },
       "got \"big\""},
      {"two top folders", [](Members& m) { m["other/x"] = ""; },
       "all members in one folder, got other/x"},
      {"a file at the top", [](Members& m) { m["loose"] = ""; },
       "all members in one folder, got loose"},
      {"nothing", [](Members& m) { m.clear(); }, "expected members, got none"},
      {"compiled code",
       [](Members& m) { m["author/data/aotinductor/model/x.so"] = "code"; },
       "without compiled code"},
      {"custom object",
       [](Members& m) { m["author/data/constants/custom_obj_0"] = "pickle"; },
       "no custom objects"},
      {"no program", [](Members& m) { m.erase(ProgramFixture::kProgram); },
       "author/models/model.json"},
      {"no weights", [](Members& m) { m.erase(ProgramFixture::kWeights); },
       "model_weights_config.json"},
      {"broken JSON", [](Members& m) { m[ProgramFixture::kProgram] += "}"; },
       "expected JSON"},
      {"deep JSON",
       [](Members& m) {
         m[ProgramFixture::kProgram] = std::string(100000, '[');
       },
       "levels of nesting"},
      {"empty JSON", [](Members& m) { m[ProgramFixture::kProgram] = ""; },
       "expected JSON"},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.name);
    ProgramFixture fixture;
    c.damage(fixture.members);
    const auto spec = fixture.Read();
    ASSERT_FALSE(spec.ok());
    EXPECT_THAT(std::string(spec.status().message()), HasSubstr(c.message));
  }
}

TEST(ReadProgramTest, ConfigMayNotNameATensorTwice) {
  ProgramFixture fixture;
  fixture.Edit(ProgramFixture::kWeights, [](json& config) {
    json entry = config["config"]["embedding.weight"];
    config["config"]["scale"] = entry;
  });
  const auto spec = fixture.Read();
  EXPECT_THAT(std::string(spec.status().message()),
              HasSubstr("got scale twice"));
}

TEST(ReadProgramTest, WrongChecksumOfTheProgramIsRefused) {
  std::string bytes = ProgramFixture().Bytes();
  const size_t at = bytes.find("\"range_constraints\"");
  ASSERT_NE(at, std::string::npos);
  bytes[at + 1] = 'R';
  EXPECT_FALSE(ProgramFixture::ReadBytes(bytes).ok());
}

TEST(ReadProgramTest, MissingFileIsNotFound) {
  EXPECT_EQ(ReadProgram("no/such/model.pt2").status().code(),
            absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace stoker
