// What isn't a tensor goes out of a program's inputs and outputs, as the
// compiler's reader takes it out.
#include "program/fixed_values.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "nlohmann/json.hpp"

namespace stoker {
namespace {

using nlohmann::json;

json Program(const json& part) {
  json module;
  for (const char* key : {"inputs", "outputs"}) {
    module["graph"][key] = part[key];
  }
  for (const char* key : {"input_specs", "output_specs"}) {
    module["signature"][key] = part[key];
  }
  json& call = module["module_call_graph"][0];
  for (const char* key : {"in_spec", "out_spec"}) {
    call["signature"][key] = part[key].dump();
  }
  return {{"graph_module", module}};
}

json Part(const json& program) {
  const json& module = program["graph_module"];
  const json& call = module["module_call_graph"][0]["signature"];
  return {{"inputs", module["graph"]["inputs"]},
          {"outputs", module["graph"]["outputs"]},
          {"input_specs", module["signature"]["input_specs"]},
          {"output_specs", module["signature"]["output_specs"]},
          {"in_spec", json::parse(call["in_spec"].get<std::string>())},
          {"out_spec", json::parse(call["out_spec"].get<std::string>())}};
}

TEST(FixedValuesTest, AreDroppedAsTheCompilerDoes) {
  std::ifstream file("tests/unit/program/testdata/fixed_values.json");
  const json cases = json::parse(file);
  ASSERT_GE(cases.size(), 6);
  for (const auto& [name, parts] : cases.items()) {
    json program = Program(parts["before"]);
    EXPECT_EQ(DropFixedValues(program), parts["before"] != parts["after"])
        << name;
    EXPECT_EQ(Part(program), parts["after"]) << name;
    EXPECT_FALSE(DropFixedValues(program)) << name;
  }
}

TEST(FixedValuesTest, WhatIsNoProgramIsLeftAlone) {
  const json fixed = {{"constant_input", {{"name", "n"}}}};
  json programs[] = {
      nullptr,
      json::object(),
      {{"graph_module", 1}},
      {{"graph_module", {{"module_call_graph", json::array()}}}},
      {{"graph_module",
        {{"module_call_graph", {{{"signature", json::object()}}}},
         {"signature", {{"input_specs", {fixed}}}},
         {"graph", {{"inputs", 7}}}}}},
  };
  for (json& program : programs) {
    const json before = program;
    EXPECT_FALSE(DropFixedValues(program)) << before;
    EXPECT_EQ(program, before);
  }
}

// The tree is refused by who reads it, which has fewer leaves than it then.
TEST(FixedValuesTest, AHostileTreeStaysAsItIs) {
  for (const char* tree : {"[", "7", "[1, {}, 3]", "[1, [[[[]]]]]",
                           R"([1, {"type": "x", "children_spec": 3}])"}) {
    json program = Program({{"inputs", {{{"as_none", true}}}},
                            {"input_specs", {{{"constant_input", nullptr}}}},
                            {"in_spec", nullptr},
                            {"outputs", json::array()},
                            {"output_specs", json::array()},
                            {"out_spec", nullptr}});
    json& text =
        program["graph_module"]["module_call_graph"][0]["signature"]["in_spec"];
    text = tree;
    EXPECT_TRUE(DropFixedValues(program));
    EXPECT_TRUE(program["graph_module"]["graph"]["inputs"].empty());
  }
}

}  // namespace
}  // namespace stoker
