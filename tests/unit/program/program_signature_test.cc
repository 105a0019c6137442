#include "program/program_signature.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "tests/unit/program/program_fixture.h"

namespace stoker {
namespace {

using json = nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

using Pointer = json::json_pointer;

TEST(ReadSignatureTest, InputsAndOutputsAreTheAuthors) {
  const auto program = ProgramFixture().Signature();
  ASSERT_TRUE(program.ok()) << program.status();
  std::vector<std::string> inputs, outputs;
  for (const auto& input : program->inputs) inputs.push_back(input.name);
  for (const auto& output : program->outputs) outputs.push_back(output.name);
  EXPECT_THAT(inputs,
              ElementsAre("INPUT_ids", "Pair_0", "Pair_1_Left", "Mask"));
  EXPECT_THAT(outputs, ElementsAre("Scores", "Parts_0", "Parts_1"));
  EXPECT_EQ(program->inputs[0].dtype, DataType::kInt32);
  EXPECT_EQ(program->inputs[3].dtype, DataType::kFp32);
}

TEST(ReadSignatureTest, DimensionsHaveBounds) {
  const auto program = ProgramFixture().Signature();
  ASSERT_TRUE(program.ok()) << program.status();
  ASSERT_EQ(program->dimensions.size(), 2u);
  EXPECT_EQ(program->dimensions[0].max, 32);
  EXPECT_EQ(program->dimensions[1].min, 2);
  EXPECT_EQ(program->dimensions[1].max, 64);
  // Parts_0 is [batch, 2 * length].
  EXPECT_EQ(program->outputs[1].dims[1].Evaluate({3, 5}), 10);
}

TEST(ReadSignatureTest, BoundsOfAnUnboundedProgram) {
  ProgramFixture fixture;
  fixture.Edit(ProgramFixture::kProgram, [](json& program) {
    const json none = {{"min_val", 0}, {"max_val", nullptr}};
    for (json& range : program["range_constraints"]) range = none;
  });
  auto spec = fixture.Signature();
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->dimensions[1].min, 1);
  EXPECT_EQ(spec->dimensions[1].max, std::numeric_limits<int64_t>::max());
  fixture.Edit(ProgramFixture::kProgram,
               [](json& program) { program["range_constraints"].clear(); });
  spec = fixture.Signature();
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->dimensions[1].max, std::numeric_limits<int64_t>::max());
}

TEST(ReadSignatureTest, DataDependentOutputSizeIsUnknown) {
  ProgramFixture fixture;
  fixture.Edit(ProgramFixture::kProgram, [](json& program) {
    json& graph = program["graph_module"]["graph"];
    const std::string name = graph["outputs"][1]["as_tensor"]["name"];
    graph["tensor_values"][name]["sizes"][1]["as_expr"]["expr_str"] =
        "Symbol('u0', integer=True)";
  });
  const auto spec = fixture.Signature();
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->outputs[1].dims[1].kind(), DimExpr::Kind::kUnknown);
}

struct Refusal {
  const char* member;
  std::string pointer;
  json value;
  const char* message;
};

constexpr char kInputMeta[] = "/graph_module/graph/tensor_values/input_ids";

std::string Meta(const std::string& rest) { return kInputMeta + rest; }

TEST(ReadSignatureTest, RefusedDocuments) {
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
      {kProgram, "/graph_module/signature/input_specs/5", json::array(),
       "expected an object of one member"},
      {kProgram,
       "/graph_module/signature/output_specs/0",
       {{"buffer_mutation",
         {{"arg", {{"name", "x"}}}, {"buffer_name", "scale"}}}},
       "got a buffer_mutation of 'scale'"},
      {kProgram,
       "/graph_module/signature/output_specs/0",
       {{"user_input_mutation",
         {{"arg", {{"name", "x"}}}, {"user_input_name", "mask"}}}},
       "got a user_input_mutation of 'mask'"},
      {kProgram,
       "/graph_module/signature/output_specs/0",
       {{"user_output", {{"arg", {{"as_int", 7}}}}}},
       "expected a tensor output, got as_int"},
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
       {{"as_expr",
         {{"expr_str", "Mul(Integer(2), Symbol('u0'), Symbol('u1'))"}}}},
       "every axis of input INPUT_ids"},
      {kProgram,
       sizes + "/0",
       {{"as_expr", {{"expr_str", "FloorDiv(Symbol('u0'), Integer(2))"}}}},
       "expected an axis of an input that is u0 or a multiple of it"},
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
    const auto spec = fixture.Signature();
    EXPECT_EQ(spec.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(spec.status().message()), HasSubstr(c.message));
    EXPECT_THAT(std::string(spec.status().message()), HasSubstr("model.pt2"));
  }
}

}  // namespace
}  // namespace stoker
