#include "program/leaf_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stoker {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::ElementsAreArray;

const json kLeaf = {
    {"type", nullptr}, {"context", nullptr}, {"children_spec", json::array()}};

json Node(const std::string& type, const std::string& context,
          const std::vector<json>& children) {
  return {{"type", type}, {"context", context}, {"children_spec", children}};
}
json Tuple(const std::vector<json>& children) {
  return Node("builtins.tuple", "null", children);
}
json List(const std::vector<json>& children) {
  return Node("builtins.list", "null", children);
}
json Dict(const json& keys, const std::vector<json>& children) {
  return Node("builtins.dict", keys.dump(), children);
}

std::string Spec(const json& tree) { return json::array({1, tree}).dump(); }

json Module(const json& positional, const json& keywords, const json& output,
            const json& arguments) {
  return {{"module_call_graph",
           {{{"fqn", ""},
             {"signature",
              {{"in_spec", Spec(Tuple({positional, keywords}))},
               {"out_spec", Spec(output)},
               {"forward_arg_names", arguments}}}}}}};
}

absl::StatusOr<LeafNames> Read(
    const json& module, const std::vector<std::string>& placeholders = {}) {
  return ReadLeafNames(JsonCursor(module, "m"), placeholders);
}

absl::StatusOr<LeafNames> ReadOutput(const json& output) {
  return Read(Module(Tuple({}), Dict(json::array(), {}), output, json()));
}

TEST(LeafNamesTest, Outputs) {
  const struct {
    json tree;
    std::vector<std::string> names;
  } cases[] = {
      {kLeaf, {"output"}},
      {Tuple({kLeaf}), {"output_0"}},
      {Tuple({kLeaf, kLeaf}), {"output_0", "output_1"}},
      {List({kLeaf, Tuple({kLeaf, kLeaf})}),
       {"output_0", "output_1_0", "output_1_1"}},
      {Dict({"Scores", "b"}, {kLeaf, kLeaf}), {"Scores", "b"}},
      {Dict({"a", 3}, {kLeaf, List({kLeaf})}), {"a", "3_0"}},
      {Tuple({Dict({"a"}, {kLeaf})}), {"output_0_a"}},
      {Dict({""}, {kLeaf}), {"output"}},
      // A dict's keys that can't be names are numbered.
      {Dict({nullptr, 1.5}, {kLeaf, kLeaf}), {"output_0", "output_1"}},
      // Joined names that coincide are told apart.
      {Dict({"a", "a_0"}, {List({kLeaf}), kLeaf}), {"a_0", "a_0_2"}},
  };
  for (const auto& c : cases) {
    const auto names = ReadOutput(c.tree);
    ASSERT_TRUE(names.ok()) << names.status() << c.tree;
    EXPECT_THAT(names->outputs, ElementsAreArray(c.names)) << c.tree;
  }
}

TEST(LeafNamesTest, InputsAreNamedByTheirArguments) {
  const auto names =
      Read(Module(Tuple({kLeaf, List({kLeaf, Dict({"K"}, {kLeaf})})}),
                  Dict({"Mask"}, {kLeaf}), kLeaf, {"INPUT0", "Pair", "Mask"}));
  ASSERT_TRUE(names.ok()) << names.status();
  EXPECT_THAT(names->inputs,
              ElementsAre("INPUT0", "Pair_0", "Pair_1_K", "Mask"));
}

TEST(LeafNamesTest, PlaceholdersWhereArgumentsAreNotRecorded) {
  const json positional = Tuple({kLeaf, List({kLeaf, kLeaf})});
  const auto names =
      Read(Module(positional, Dict(json::array(), {}), kLeaf, json()),
           {"x", "ys_0", "ys_1"});
  ASSERT_TRUE(names.ok()) << names.status();
  EXPECT_THAT(names->inputs, ElementsAre("x", "ys_0", "ys_1"));
}

TEST(LeafNamesTest, WrongDocumentsAreErrors) {
  const json good =
      Module(Tuple({kLeaf}), Dict(json::array(), {}), kLeaf, {"x"});
  ASSERT_TRUE(Read(good).ok());
  const json::json_pointer signature("/module_call_graph/0/signature");
  const std::pair<const char*, json> edits[] = {
      {"/in_spec", 7},
      {"/in_spec", "["},
      {"/in_spec", "[2, {}]"},
      {"/in_spec", "[1]"},
      {"/in_spec", Spec(kLeaf)},
      {"/in_spec", Spec(Tuple({kLeaf, kLeaf, kLeaf}))},
      {"/out_spec", Spec({{"type", 7}})},
      {"/out_spec", Spec({{"type", "builtins.list"}})},
      {"/out_spec", Spec({{"type", "t"}, {"children_spec", 1}})},
      {"/out_spec", Spec(Dict({"line\nbreak"}, {kLeaf}))},
      {"/out_spec", Spec(Dict({std::string(300, 'n')}, {kLeaf}))},
      {"/out_spec", Spec(List(std::vector<json>(5000, kLeaf)))},
      {"/forward_arg_names", {1}},
  };
  for (const auto& [path, value] : edits) {
    json module = good;
    module[signature / json::json_pointer(path)] = value;
    EXPECT_EQ(Read(module).status().code(), absl::StatusCode::kInvalidArgument)
        << path << " = " << value;
  }
  EXPECT_FALSE(Read({{"module_call_graph", json::array()}}).ok());
  EXPECT_FALSE(Read(json::object()).ok());
}

}  // namespace
}  // namespace stoker
