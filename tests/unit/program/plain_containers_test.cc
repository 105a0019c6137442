#include "program/plain_containers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace stoker {
namespace {

using nlohmann::json;

const json kLeaf = {
    {"type", nullptr}, {"context", nullptr}, {"children_spec", json::array()}};

json Node(const std::string& type, const json& context,
          const std::vector<json>& children) {
  return {{"type", type}, {"context", context}, {"children_spec", children}};
}
json Dict(const json& keys, const std::vector<json>& children) {
  return Node("builtins.dict", keys.dump(), children);
}
json Tuple(const std::vector<json>& children) {
  return Node("builtins.tuple", "null", children);
}

json Program(const json& in_spec, const json& out_spec) {
  return {{"graph_module",
           {{"module_call_graph",
             {{{"fqn", ""},
               {"signature", {{"in_spec", in_spec}, {"out_spec", out_spec}}}},
              {{"fqn", "inner"}, {"signature", nullptr}}}},
            {"treespec_namedtuple_fields",
             {{"pkg.Pair", {{"field_names", {"Left", "Right"}}}}}}}}};
}

std::string Spec(const json& tree) { return json::array({1, tree}).dump(); }

TEST(PlainContainersTest, FieldsWithNamesAreADictionaryOthersATuple) {
  const struct {
    json before;
    json after;
  } cases[] = {
      {Node("collections.OrderedDict", R"(["z"])", {kLeaf}),
       Dict({"z"}, {kLeaf})},
      {Node("collections.defaultdict",
            {{"default_factory_name", "x"}, {"dict_context", {"d"}}}, {kLeaf}),
       Dict({"d"}, {kLeaf})},
      {Node("collections.namedtuple", "pkg.Pair", {kLeaf, kLeaf}),
       Dict({"Left", "Right"}, {kLeaf, kLeaf})},
      {Node("collections.namedtuple", "pkg.Other", {kLeaf}), Tuple({kLeaf})},
      // A dataclass: its fields, then those that are None.
      {Node("pkg.Data", R"([["p", "q"], ["r"]])", {kLeaf, kLeaf}),
       Dict({"p", "q"}, {kLeaf, kLeaf})},
      {Node("transformers.ModelOutput", R"(["last", "pooled"])",
            {kLeaf, kLeaf}),
       Dict({"last", "pooled"}, {kLeaf, kLeaf})},
      {Node("pkg.Opaque", "not json", {kLeaf}), Tuple({kLeaf})},
      {Node("pkg.Opaque", nullptr, {kLeaf}), Tuple({kLeaf})},
      {Node("pkg.Few", R"(["a"])", {kLeaf, kLeaf}), Tuple({kLeaf, kLeaf})},
      {Node("pkg.Numbers", "[1, 2]", {kLeaf, kLeaf}), Tuple({kLeaf, kLeaf})},
      // At any depth.
      {Tuple({kLeaf, Node("pkg.Data", R"([["p"], []])",
                          {Node("pkg.Opaque", "null", {kLeaf, kLeaf})})}),
       Tuple({kLeaf, Dict({"p"}, {Tuple({kLeaf, kLeaf})})})},
  };
  const std::string none = Spec(Tuple({Tuple({}), Dict(json::array(), {})}));
  for (const auto& c : cases) {
    json outputs = Program(none, Spec(c.before));
    EXPECT_TRUE(UsePlainContainers(outputs)) << c.before;
    EXPECT_EQ(outputs, Program(none, Spec(c.after))) << c.before;
    json inputs = Program(Spec(c.before), none);
    EXPECT_TRUE(UsePlainContainers(inputs)) << c.before;
    EXPECT_EQ(inputs, Program(Spec(c.after), none)) << c.before;
    EXPECT_FALSE(UsePlainContainers(inputs));
  }
}

// Their reader refuses them.
TEST(PlainContainersTest, LeavesEverythingElseAlone) {
  const std::string plain =
      Spec(Dict({"a", 3}, {kLeaf, Node("builtins.list", "null", {kLeaf})}));
  const json specs[] = {
      plain,
      7,
      "[",
      "[1]",
      Spec({{"type", 7}, {"children_spec", json::array()}}),
      Spec({{"type", "pkg.Data"}}),
      Spec({{"type", "pkg.Data"}, {"children_spec", 1}}),
      std::string(1000, '[') + std::string(1000, ']'),
  };
  for (const json& spec : specs) {
    json program = Program(plain, spec);
    EXPECT_FALSE(UsePlainContainers(program)) << spec;
    EXPECT_EQ(program, Program(plain, spec));
  }
  json programs[] = {nullptr, json::object(), {{"graph_module", 1}}};
  for (json& program : programs) {
    const json before = program;
    EXPECT_FALSE(UsePlainContainers(program));
    EXPECT_EQ(program, before);
  }
}

}  // namespace
}  // namespace stoker
