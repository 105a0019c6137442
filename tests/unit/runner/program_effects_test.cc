// What a program's graph writes besides its outputs.
#include "runner/program_effects.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "nlohmann/json.hpp"

namespace stoker {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Key;

json Named(const std::string& name) {
  return {{"as_tensor", {{"name", name}}}};
}

// An operator whose arguments are tensors.
json Node(const std::string& target,
          std::vector<std::pair<std::string, std::string>> arguments,
          const std::string& output) {
  json node = {{"target", target},
               {"inputs", json::array()},
               {"outputs", {Named(output)}}};
  for (const auto& [argument, value] : arguments) {
    node["inputs"].push_back({{"name", argument}, {"arg", Named(value)}});
  }
  return node;
}

// Parameter p_w of name "w", buffer b_n of name "n", and an input x.
json Program(json nodes, json outputs = json::array()) {
  const json specs = {
      {{"parameter", {{"arg", {{"name", "p_w"}}}, {"parameter_name", "w"}}}},
      {{"buffer", {{"arg", {{"name", "b_n"}}}, {"buffer_name", "n"}}}},
      {{"user_input", {{"arg", Named("x")}}}}};
  return {{"graph_module",
           {{"graph", {{"nodes", std::move(nodes)}}},
            {"signature",
             {{"input_specs", specs}, {"output_specs", std::move(outputs)}}}}}};
}

TEST(ProgramEffectsTest, PureOperatorsWriteNothing) {
  const ProgramEffects effects = ScanProgramEffects(
      Program({Node("torch.ops.aten.add.Tensor",
                    {{"self", "x"}, {"other", "p_w"}}, "add"),
               Node("torch.ops.aten.view.default", {{"self", "p_w"}}, "view"),
               Node("_operator.mul", {}, "mul")}));
  EXPECT_FALSE(effects.writes_in_place);
  EXPECT_THAT(effects.written_tensors, IsEmpty());
}

TEST(ProgramEffectsTest, AnInPlaceOperatorWritesItsArgument) {
  const ProgramEffects effects = ScanProgramEffects(
      Program({Node("torch.ops.aten.add_.Tensor",
                    {{"self", "b_n"}, {"other", "p_w"}}, "add_")}));
  EXPECT_TRUE(effects.writes_in_place);
  EXPECT_THAT(effects.written_tensors, ElementsAre(Key("n")));
}

TEST(ProgramEffectsTest, ThroughViewsAndResultsOfInPlaceOperators) {
  const ProgramEffects effects = ScanProgramEffects(Program(
      {Node("torch.ops.aten.select.int", {{"self", "p_w"}}, "select"),
       Node("torch.ops.aten.t.default", {{"self", "select"}}, "t"),
       Node("torch.ops.aten.zero_.default", {{"self", "t"}}, "zero_")}));
  EXPECT_THAT(effects.written_tensors, ElementsAre(Key("w")));
}

TEST(ProgramEffectsTest, IntermediateResultsAreNobodys) {
  const ProgramEffects effects = ScanProgramEffects(Program(
      {Node("torch.ops.aten.mul.Tensor", {{"self", "x"}, {"other", "p_w"}},
            "mul"),
       Node("torch.ops.aten.relu_.default", {{"self", "mul"}}, "relu_")}));
  EXPECT_TRUE(effects.writes_in_place);
  EXPECT_THAT(effects.written_tensors, IsEmpty());
}

TEST(ProgramEffectsTest, WritesThatTheSignatureDeclares) {
  const ProgramEffects buffer = ScanProgramEffects(Program(
      json::array(), {{{"buffer_mutation",
                        {{"arg", {{"name", "add"}}}, {"buffer_name", "n"}}}}}));
  EXPECT_TRUE(buffer.writes_in_place);
  EXPECT_THAT(buffer.written_tensors, ElementsAre(Key("n")));
  const ProgramEffects input = ScanProgramEffects(Program(
      json::array(), {{{"user_input_mutation", {{"arg", Named("add")}}}}}));
  EXPECT_TRUE(input.writes_in_place);
  EXPECT_THAT(input.written_tensors, IsEmpty());
}

json BatchNorm(bool training) {
  json node = Node("torch.ops.aten.batch_norm.default",
                   {{"input", "x"}, {"running_mean", "b_n"}}, "batch_norm");
  node["inputs"].push_back(
      {{"name", "training"}, {"arg", {{"as_bool", training}}}});
  return node;
}

TEST(ProgramEffectsTest, StatisticsAreWrittenInTrainingModeOnly) {
  EXPECT_THAT(ScanProgramEffects(Program({BatchNorm(true)})).written_tensors,
              ElementsAre(Key("n")));
  EXPECT_THAT(ScanProgramEffects(Program({BatchNorm(false)})).written_tensors,
              IsEmpty());
}

TEST(ProgramEffectsTest, AProgramThatKeepsStateIsRefusedWithWhatDoesIt) {
  json node = Node("torch.ops.aten.add_.Tensor",
                   {{"self", "b_n"}, {"other", "p_w"}}, "add_");
  node["metadata"]["stack_trace"] =
      "  File \"/home/me/net.py\", line 12, in forward\n    self.n.add_(w)\n";
  const absl::Status status =
      CheckKeepsNoState(ScanProgramEffects(Program({node})), "m/model.json");
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("m/model.json: expected a program that keeps no state, "
                        "got one that writes 'n' (torch.ops.aten.add_.Tensor "
                        "at net.py:12)"));
  EXPECT_TRUE(
      CheckKeepsNoState(ScanProgramEffects(Program(json::array())), "m").ok());
}

}  // namespace
}  // namespace stoker
