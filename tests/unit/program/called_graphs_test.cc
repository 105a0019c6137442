// Which operators may call graphs of their own.
#include "program/called_graphs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "nlohmann/json.hpp"

namespace stoker {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;

// An operator of that name that calls one graph with `node` in it, which takes
// `input`.
json Calling(const std::string& name, const json& node,
             const json& input = {{"as_tensor", {{"name", "x"}}}}) {
  const json graph = {{"inputs", {input}}, {"nodes", {node}}};
  return {
      {"target", "torch.ops.higher_order." + name},
      {"inputs", {{{"arg", {{"as_graph", {{"graph", graph}}}}}}}},
      {"metadata", {{"stack_trace", "File \"net.py\", line 7, in forward"}}}};
}

absl::Status Check(const json& node) {
  const json graph = {{"nodes", {node}}};
  return CheckCalledGraphs(JsonCursor(graph, "model.pt2: graph"));
}

std::string Refusal(const json& node) {
  const absl::Status status = Check(node);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  return std::string(status.message());
}

const json kSine = {{"target", "torch.ops.aten.sin.default"}};

TEST(CalledGraphsTest, TakesWhatNativertRuns) {
  EXPECT_TRUE(Check(kSine).ok());
  EXPECT_TRUE(Check(Calling("cond", kSine)).ok());
  EXPECT_TRUE(Check(Calling("while_loop", Calling("cond", kSine))).ok());
  EXPECT_TRUE(Check({{"target", 3}}).ok());
  EXPECT_TRUE(Check(nullptr).ok());
}

TEST(CalledGraphsTest, NamesWhatItDoesntAndWhatToDo) {
  for (const auto& [name, advice] :
       {std::pair("associative_scan", "whole tensors or as a while_loop"),
        std::pair("flex_attention", "scaled_dot_product_attention"),
        std::pair("out_dtype", "export the model without it")}) {
    const auto named =
        AllOf(HasSubstr("model.pt2: graph: expected"), HasSubstr(advice),
              HasSubstr(std::string("got 'torch.ops.higher_order.") + name +
                        "' at net.py:7"));
    EXPECT_THAT(Refusal(Calling(name, kSine)), named);
    EXPECT_THAT(Refusal(Calling("cond", Calling(name, kSine))), named);
  }
}

TEST(CalledGraphsTest, RefusesGraphsThatTakeSizes) {
  const json size = {{"as_sym_int", {{"as_name", "n"}}}};
  EXPECT_THAT(Refusal(Calling("cond", kSine, size)),
              AllOf(HasSubstr("that take tensors only"),
                    HasSubstr("got 'torch.ops.higher_order.cond'")));
}

}  // namespace
}  // namespace stoker
