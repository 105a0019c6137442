#include "program/json_cursor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "program/limits.h"

namespace stoker {
namespace {

using nlohmann::json;
using testing::HasSubstr;

std::string Nested(int depth) {
  return std::string(depth, '[') + std::string(depth, ']');
}

TEST(ParseJsonTest, NestingIsBounded) {
  EXPECT_TRUE(ParseJson(Nested(kMaxJsonDepth), "f").ok());
  const auto deeper = ParseJson(Nested(kMaxJsonDepth + 1), "file.json");
  EXPECT_EQ(deeper.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(deeper.status().message()),
              HasSubstr("file.json: expected at most 200 levels"));
  EXPECT_FALSE(ParseJson(std::string(1 << 20, '['), "f").ok());
}

TEST(ParseJsonTest, BracketsInStringsDoNotNest) {
  const std::string text =
      "\"" + std::string(1000, '[') + "\\\"" + std::string(1000, '{') + "\"";
  EXPECT_TRUE(ParseJson(text, "f").ok());
}

TEST(ParseJsonTest, MalformedTextIsAnError) {
  for (std::string_view text : {"", "{", "[1,]", "{\"a\" 1}", "nul", "\"\\",
                                "\"\xff\"", "1 2", "1e999"}) {
    EXPECT_EQ(ParseJson(text, "f").status().code(),
              absl::StatusCode::kInvalidArgument)
        << text;
  }
}

TEST(JsonCursorTest, ErrorsSayWhereAndWhat) {
  const json document = {{"a", {{"b", {1, "x"}}}}, {"big", UINT64_MAX}};
  const JsonCursor root(document, "model.json");
  const JsonCursor list = *root.Member("a")->Member("b");
  EXPECT_EQ((*list.Elements())[1].Int().status().message(),
            "model.json/a/b/1: expected a 64-bit integer, got \"x\"");
  EXPECT_EQ(list.Member("c").status().message(),
            "model.json/a/b: expected an object, got an array of 2 elements");
  EXPECT_EQ(root.Member("zz").status().message(),
            "model.json: expected a member \"zz\", got an object of 2 members");
  EXPECT_FALSE(root.Member("big")->Int().ok());
  EXPECT_FALSE(root.Elements().ok());
  EXPECT_FALSE(root.String().ok());
  EXPECT_FALSE(root.Bool().ok());
  EXPECT_FALSE(root.Union().ok());
}

TEST(JsonCursorTest, TypedAccess) {
  const json document = {{"i", -5}, {"b", true}, {"s", "t"}, {"n", nullptr}};
  const JsonCursor root(document, "f");
  EXPECT_EQ(root.Member("i")->Int().value(), -5);
  EXPECT_EQ(root.Member("b")->Bool().value(), true);
  EXPECT_EQ(root.Member("s")->String().value(), "t");
  EXPECT_FALSE(root.Find("n")->has_value());
  EXPECT_FALSE(root.Find("m")->has_value());
  EXPECT_TRUE(root.Find("s")->has_value());
  EXPECT_EQ(root.Members()->size(), 4u);
}

TEST(JsonCursorTest, UnionHasOneMember) {
  const json document = {{"as_tensor", {{"name", "x"}}}};
  const auto tagged = JsonCursor(document, "f").Union();
  ASSERT_TRUE(tagged.ok());
  EXPECT_EQ(tagged->first, "as_tensor");
  EXPECT_TRUE(tagged->second.Member("name").ok());
}

}  // namespace
}  // namespace stoker
