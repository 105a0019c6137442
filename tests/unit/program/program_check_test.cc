// What a graph may ask of the process that runs it, and of the archive.
#include "program/program_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "nlohmann/json.hpp"

namespace stoker {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

json Sizes(const std::vector<int64_t>& sizes) {
  json list = json::array();
  for (int64_t size : sizes) list.push_back({{"as_int", size}});
  return list;
}

json Value(const std::vector<int64_t>& sizes,
           const std::vector<int64_t>& strides, int dtype = 7) {
  return {
      {"dtype", dtype}, {"sizes", Sizes(sizes)}, {"strides", Sizes(strides)}};
}

json Parameter(const std::string& value, const std::string& name) {
  return {
      {"parameter", {{"arg", {{"name", value}}}, {"parameter_name", name}}}};
}

json Node(const std::string& target) {
  return {{"target", target},
          {"inputs", json::array()},
          {"outputs", json::array()},
          {"metadata", {{"target", "os.system"}}}};
}

// A program with weights w [2,3], its transposed alias v, and constant c [4].
class ProgramCheckTest : public ::testing::Test {
 protected:
  ProgramCheckTest() {
    const json specs = {
        Parameter("p_w", "w"),
        Parameter("p_v", "v"),
        {{"tensor_constant",
          {{"arg", {{"name", "c_c"}}}, {"tensor_constant_name", "c"}}}},
        {{"user_input", {{"arg", {{"as_tensor", {{"name", "x"}}}}}}}}};
    program_ = {{"schema_version", {{"major", 8}, {"minor", 17}}},
                {"graph_module",
                 {{"graph",
                   {{"nodes",
                     {Node("torch.ops.aten.add.Tensor"),
                      Node("_operator.floordiv"), Node("torch.sym_max")}},
                    {"tensor_values",
                     {{"p_w", Value({2, 3}, {3, 1})},
                      {"p_v", Value({3, 2}, {1, 3})},
                      {"c_c", Value({4}, {1}, 5)}}}}},
                  {"signature", {{"input_specs", specs}}}}}};
  }

  absl::Status Check() const {
    const JsonCursor cursor(program_, "model.pt2: model.json");
    const absl::Status status = CheckGraph(cursor).status();
    return status.ok() ? CheckWeights(cursor, tensors_) : status;
  }
  std::string Refusal() const {
    const absl::Status status = Check();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("model.pt2"));
    return std::string(status.message());
  }

  json program_;
  StoredTensors tensors_ = {
      {"w", {.sizes = {2, 3}, .strides = {3, 1}}},
      {"v", {.sizes = {3, 2}, .strides = {1, 3}}},
      {"c", {.type = ScalarType::kLong, .sizes = {4}, .strides = {1}}}};
};

TEST_F(ProgramCheckTest, AcceptsArithmeticOnItsOwnWeights) {
  EXPECT_TRUE(Check().ok()) << Check();
}

TEST_F(ProgramCheckTest, RefusesAGraphThatExpectsOtherWeights) {
  json& values = program_["/graph_module/graph/tensor_values"_json_pointer];
  for (const json& other :
       {Value({4, 3}, {3, 1}), Value({2, 3}, {1, 2}), Value({2, 3}, {3, 1}, 8),
        Value({6}, {1}), json()}) {
    values["p_w"] = other;
    EXPECT_THAT(Refusal(), HasSubstr("layout of w that the archive holds"))
        << other;
  }
}

TEST_F(ProgramCheckTest, RefusesAGraphThatNeedsMoreWeights) {
  tensors_.erase("v");
  EXPECT_THAT(Refusal(), HasSubstr("expected a weight or constant v"));
}

TEST_F(ProgramCheckTest, RefusesOperatorsThatAreNoArithmetic) {
  json& nodes = program_["/graph_module/graph/nodes"_json_pointer];
  for (const char* target :
       {"torch.ops.aten.from_file.default", "torch.ops.mine.op.default",
        "os.system", "torch.ops", "torch.load", "torch.ops.aten", "",
        // Torch has them in Python alone.
        "torch.ops.prims.add.default",
        "torch.ops.quantized_decomposed.fake_quant_per_channel.default"}) {
    nodes[0] = Node(target);
    EXPECT_THAT(Refusal(), HasSubstr(std::string("compute on tensors, got '") +
                                     target + "'"));
  }
  // In a graph that is an argument of an operator, too.
  nodes[0] = Node("torch.ops.higher_order.cond");
  nodes[0]["inputs"].push_back(
      {{"arg", {{"as_graph", {{"graph", {{"nodes", {Node("os.remove")}}}}}}}}});
  EXPECT_THAT(Refusal(), HasSubstr("got 'os.remove'"));
}

TEST_F(ProgramCheckTest, WhatALibraryWouldHelpSaysSo) {
  json& nodes = program_["/graph_module/graph/nodes"_json_pointer];
  nodes[0] = Node("torch.ops.mine.op.default");
  nodes[0]["metadata"]["stack_trace"] = "File \"net.py\", line 7, in forward\n";
  EXPECT_THAT(Refusal(),
              HasSubstr("got 'torch.ops.mine.op.default' at net.py:7; stokerd "
                        "--operator-library mine=FILE brings operators that "
                        "are written in C++"));
  nodes[0] = Node("torch.ops.aten.from_file.default");
  EXPECT_THAT(Refusal(), Not(HasSubstr("--operator-library")));
}

TEST_F(ProgramCheckTest, NamesOperatorsThatValuesMightLeadAstray) {
  json& nodes = program_["/graph_module/graph/nodes"_json_pointer];
  nodes = {Node("torch.ops.aten.add_.Tensor"),
           Node("torch.ops.aten.segment_reduce.default"),
           Node("torch.ops.aten.rrelu_with_noise_.default"),
           Node("torch.ops.aten.special_laguerre_polynomial_l.n_scalar"),
           Node("torch.ops.torchvision.nms.default"),
           Node("torch.ops.aten.nobody_has_heard_of.default"),
           Node("torch.ops.quantized.nobody_has_tried.default")};
  const auto called = CheckGraph(JsonCursor(program_, "model.pt2"));
  ASSERT_TRUE(called.ok()) << called.status();
  std::vector<std::string> names;
  for (const auto& [name, where] : called->unlisted) names.push_back(name);
  EXPECT_THAT(
      names,
      ElementsAre("torch.ops.aten.nobody_has_heard_of.default",
                  "torch.ops.aten.rrelu_with_noise_.default",
                  "torch.ops.aten.segment_reduce.default",
                  "torch.ops.aten.special_laguerre_polynomial_l.n_scalar",
                  "torch.ops.quantized.nobody_has_tried.default"));
}

TEST_F(ProgramCheckTest, OfTorchvisionTheServerHasSomeOperators) {
  json& nodes = program_["/graph_module/graph/nodes"_json_pointer];
  nodes[0] = Node("torch.ops.torchvision.nms.default");
  EXPECT_TRUE(Check().ok()) << Check();
  nodes[0] = Node("torch.ops.torchvision.roi_pool.default");
  EXPECT_THAT(Refusal(), HasSubstr("got 'torch.ops.torchvision.roi_pool"));
}

TEST_F(ProgramCheckTest, AnInputMayBeCalledTarget) {
  json& values = program_["/graph_module/graph/tensor_values"_json_pointer];
  values["target"] = values["p_w"];
  EXPECT_TRUE(Check().ok()) << Check();
}

TEST_F(ProgramCheckTest, RefusesOtherSchemas) {
  program_["schema_version"]["major"] = 9;
  EXPECT_THAT(Refusal(), HasSubstr("expected schema version 8"));
}

TEST_F(ProgramCheckTest, RefusesCustomObjects) {
  program_["/graph_module/graph"_json_pointer]["custom_obj_values"] = {
      {"q", {{"class_fqn", "c"}}}};
  EXPECT_THAT(Refusal(), HasSubstr("expected no custom objects"));
}

TEST_F(ProgramCheckTest, RefusesAProgramThatIsOtherJson) {
  for (const char* text :
       {"null", "[]", "{}", "{\"graph_module\": 3}",
        "{\"schema_version\": {\"major\": 8}, \"graph_module\": 3}"}) {
    program_ = json::parse(text);
    EXPECT_THAT(Refusal(), HasSubstr("expected")) << text;
  }
}

TEST_F(ProgramCheckTest, DeepNestingIsNoProblem) {
  json& nodes = program_["/graph_module/graph/nodes"_json_pointer];
  std::string deep;
  for (int i = 0; i < 1000; ++i) deep += "[";
  deep += std::string(1000, ']');
  nodes[0]["inputs"] = json::parse(deep);
  EXPECT_TRUE(Check().ok());
}

}  // namespace
}  // namespace stoker
