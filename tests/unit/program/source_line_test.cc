// The model's line of an operator, from text that nobody vouches for.
#include "program/source_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "nlohmann/json.hpp"

namespace stoker {
namespace {

using nlohmann::json;

json Noted(const std::string& trace) {
  return {{"target", "t"}, {"metadata", {{"stack_trace", trace}}}};
}

TEST(SourceLineTest, IsTheInnermostThatIsTheModels) {
  const std::string model = "  File \"/home/me/net.py\", line 12, in forward\n";
  const std::string package =
      "  File \"/env/lib/python3.11/site-packages/other/attention.py\", line "
      "3, "
      "in call\n    return f(x)\n";
  const std::string torch =
      "  File \"/env/lib/python3.11/site-packages/torch/nn/linear.py\", line "
      "134, in forward\n";
  EXPECT_EQ(AtSourceLine(Noted(model)), " at net.py:12");
  EXPECT_EQ(AtSourceLine(Noted(model + torch)), " at net.py:12");
  EXPECT_EQ(AtSourceLine(Noted(model + package + torch)), " at attention.py:3");
  EXPECT_EQ(AtSourceLine(Noted(torch)), " at linear.py:134");
  EXPECT_EQ(AtSourceLine(Noted("File \"torch/a.py\", line 1, in f\n" + model)),
            " at net.py:12");
}

TEST(SourceLineTest, IsThatOfAGraphThatTheNodeCalls) {
  const json graph = {
      {"nodes", {{{"target", "t"}}, Noted("File \"net.py\", line 5, in f")}}};
  const json node = {
      {"inputs",
       {{{"arg", {{"as_bool", true}}}},
        {{"arg", {{"as_graph", {{"name", "g"}, {"graph", graph}}}}}}}}};
  EXPECT_EQ(AtSourceLine(node), " at net.py:5");
}

TEST(SourceLineTest, IsShortAndPlain) {
  EXPECT_EQ(
      AtSourceLine(Noted("File \"C:\\me\\n\x1b[1met.py\", line 12, in f")),
      " at n[1met.py:12");
  const std::string line =
      AtSourceLine(Noted("File \"" + std::string(9999, 'n') + "\", line " +
                         std::string(9999, '1') + ", in f"));
  EXPECT_LT(line.size(), 100u);
}

TEST(SourceLineTest, IsEmptyWhereNothingIsNoted) {
  for (const json& node :
       {json(), json(3), json({{"inputs", 3}}), json({{"metadata", "m"}}),
        Noted(""), Noted("File \"net.py"), Noted("File \"a\", line , in f")}) {
    EXPECT_EQ(AtSourceLine(node), "") << node;
  }
}

}  // namespace
}  // namespace stoker
