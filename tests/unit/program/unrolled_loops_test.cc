// Loops over rows become their steps; inlined_wrappers_test.cc holds what is
// made of torch's to what the compiler's reader makes.
#include "program/unrolled_loops.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "nlohmann/json.hpp"
#include "program/limits.h"

namespace stoker {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::SizeIs;

using Names = std::vector<std::string>;

json Tensor(const std::string& name) {
  return {{"as_tensor", {{"name", name}}}};
}

json List(const Names& names) {
  json list = json::array();
  for (const std::string& name : names) list.push_back(Tensor(name));
  return list;
}

json Input(json argument) {
  return {{"name", ""}, {"kind", 1}, {"arg", std::move(argument)}};
}

json Operands(const Names& names) {
  json list = json::array();
  for (const std::string& name : names) list.push_back({{"name", name}});
  return Input({{"as_tensors", list}});
}

// (state, row) → (state + row, state + row).
json Sum() {
  const json add = {{"target", "torch.ops.aten.add.Tensor"},
                    {"inputs", {Input(Tensor("s")), Input(Tensor("r"))}},
                    {"outputs", List({"sum"})},
                    {"name", "sum"},
                    {"metadata", json::object()}};
  return {{"inputs", List({"s", "r"})},
          {"outputs", List({"sum", "sum"})},
          {"nodes", {add}},
          {"tensor_values", {{"sum", {{"dtype", 7}}}}}};
}

json Scan(const json& body) {
  return {
      {"target", "torch.ops.higher_order.scan"},
      {"inputs",
       {Input({{"as_graph", {{"name", "combine"}, {"graph", body}}}}),
        Operands({"zero"}), Operands({"x"}), Operands({})}},
      {"outputs", List({"total", "sums"})},
      {"name", "scan"},
      {"metadata", {{"stack_trace", "File \"net.py\", line 7, in forward"}}}};
}

// sums, and the last of them, of x's rows, of which there are so many.
json Program(const json& node, const json& rows) {
  const json sizes = {rows, {{"as_int", 4}}};
  json graph = {{"inputs", List({"zero", "x"})},
                {"outputs", List({"total", "sums"})},
                {"nodes", {node}},
                {"tensor_values",
                 {{"x", {{"dtype", 7}, {"sizes", sizes}, {"strides", sizes}}},
                  {"sums", {{"dtype", 7}}}}}};
  return {{"graph_module", {{"graph", std::move(graph)}}}};
}

json Rows(int64_t count) { return {{"as_int", count}}; }

const json& NodesOf(const json& program) {
  return program["graph_module"]["graph"]["nodes"];
}

absl::StatusOr<bool> Unroll(json& program) {
  return UnrollLoops(program, "model.pt2: model.json");
}

std::string Refusal(json program) {
  const absl::Status status = Unroll(program).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  return std::string(status.message());
}

TEST(UnrolledLoopsTest, EachStepTakesARowAndWhatTheLastOneGaveOn) {
  json program = Program(Scan(Sum()), Rows(3));
  ASSERT_TRUE(Unroll(program).value());
  Names order;
  for (const json& node : NodesOf(program)) {
    order.push_back(node["target"].get<std::string>());
  }
  const Names step = {"torch.ops.aten.select.int",
                      "torch.ops.higher_order.strict_mode"};
  EXPECT_EQ(order, Names({step[0], step[1], step[0], step[1], step[0], step[1],
                          "torch.ops.aten.stack.default"}));
  const json& second = NodesOf(program)[3];
  EXPECT_EQ(second["inputs"][0]["arg"]["as_graph"]["graph"], Sum());
  EXPECT_EQ(second["inputs"][1]["arg"],
            Operands({"scan_carried", "scan_row_1"})["arg"]);
  EXPECT_EQ(second["outputs"], List({"scan_carried_1", "scan_result_1"}));
  EXPECT_EQ(NodesOf(program)[5]["outputs"], List({"total", "scan_result_2"}));
  EXPECT_EQ(NodesOf(program)[6]["inputs"][0]["arg"],
            Operands({"scan_result", "scan_result_1", "scan_result_2"})["arg"]);
  EXPECT_EQ(NodesOf(program)[6]["outputs"], List({"sums"}));
  EXPECT_EQ(NodesOf(program)[2]["inputs"][2]["arg"], Rows(1));
  const json& values = program["graph_module"]["graph"]["tensor_values"];
  EXPECT_EQ(values["scan_row_2"]["sizes"], json::array({Rows(4)}));
  EXPECT_EQ(values["scan_row_2"]["strides"], json::array({Rows(4)}));
}

TEST(UnrolledLoopsTest, LeavesOtherProgramsAlone) {
  json program = Program({{"target", "torch.ops.aten.add.Tensor"}}, Rows(3));
  const json before = program;
  EXPECT_FALSE(Unroll(program).value());
  EXPECT_EQ(program, before);
  for (const char* other : {"null", "[]", "{\"graph_module\": 3}",
                            "{\"graph_module\": {\"graph\": {}}}"}) {
    json odd = json::parse(other);
    EXPECT_FALSE(Unroll(odd).value()) << other;
  }
}

TEST(UnrolledLoopsTest, RefusesANumberOfRowsThatVariesOrIsLarge) {
  EXPECT_THAT(Refusal(Program(Scan(Sum()), Rows(kMaxUnrolledSteps + 1))),
              AllOf(HasSubstr("model.pt2: model.json: expected a loop over 1 "
                              "to 256 rows"),
                    HasSubstr("got 'torch.ops.higher_order.scan' over 257 rows "
                              "at net.py:7")));
  const json varies = {{"as_expr", {{"expr_str", "s77"}}}};
  for (const json& rows : {varies, Rows(0), Rows(-1), json(nullptr)}) {
    EXPECT_THAT(Refusal(Program(Scan(Sum()), rows)),
                HasSubstr("scan' over a number of rows that varies at net.py"));
  }
}

TEST(UnrolledLoopsTest, LoopsInLoopsStayBelowALimit) {
  // Of 256 rows each: 256, 65,536, 16,777,216 steps.
  json inner = Sum();
  json scan = Scan(inner);
  const json whole = Program(scan, Rows(kMaxUnrolledSteps));
  const json& values = whole["graph_module"]["graph"]["tensor_values"];
  for (int depth = 0; depth < 2; ++depth) {
    inner = {{"inputs", List({"zero", "x"})},
             {"outputs", List({"total", "sums"})},
             {"nodes", {scan}},
             {"tensor_values", values}};
    scan = Scan(inner);
  }
  EXPECT_THAT(Refusal(Program(scan, Rows(kMaxUnrolledSteps))),
              AllOf(HasSubstr("unroll to at most 128 MB of graph"),
                    HasSubstr("at net.py:7")));
}

TEST(UnrolledLoopsTest, RefusesCallsThatDontFitTheirGraph) {
  const auto with = [](const auto& damage) {
    json scan = Scan(Sum());
    damage(scan);
    return Refusal(Program(scan, Rows(3)));
  };
  const auto counts = HasSubstr("tensors, as many as the graph");
  EXPECT_THAT(with([](json& node) { node["inputs"][3] = Operands({"x"}); }),
              counts);
  EXPECT_THAT(with([](json& node) { node["inputs"].erase(3); }), counts);
  EXPECT_THAT(with([](json& node) {
                node["inputs"][3] = Input({{"as_sym_ints", {{"as_int", 3}}}});
              }),
              counts);
  EXPECT_THAT(with([](json& node) { node["inputs"][2].erase("arg"); }), counts);
  EXPECT_THAT(with([](json& node) { node["outputs"].erase(1); }), counts);
  EXPECT_THAT(with([](json& node) { node["outputs"] = 3; }), counts);
  const auto graph = HasSubstr("a graph that the operator calls");
  EXPECT_THAT(with([](json& node) { node["inputs"].erase(0); }), graph);
  EXPECT_THAT(with([](json& node) { node.erase("inputs"); }), graph);
}

}  // namespace
}  // namespace stoker
