#include "status/page_template.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace stoker {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;

std::string Filled(std::string_view page, const Json& values) {
  const absl::StatusOr<std::string> filled = FillTemplate(page, values);
  return filled.ok() ? *filled : filled.status().ToString();
}

TEST(PageTemplateTest, ValuesAreEscapedUnlessTheTemplateSaysOtherwise) {
  const Json values = {{"text", "<a href='x'>\"&\xff"}};
  EXPECT_EQ(Filled("-{{text}}-", values),
            "-&lt;a href=&#39;x&#39;&gt;&quot;&amp;?-");
  EXPECT_EQ(Filled("{{{text}}}", {{"text", "a{{b}}<"}}), "a{{b}}<");
}

TEST(PageTemplateTest, SectionsShowWhatIsThere) {
  const char* const page = "{{#it}}yes{{/it}}{{^it}}no{{/it}}";
  EXPECT_EQ(Filled(page, {{"it", true}}), "yes");
  EXPECT_EQ(Filled(page, {{"it", false}}), "no");
  EXPECT_EQ(Filled(page, {{"it", "text"}}), "yes");
  EXPECT_EQ(Filled(page, {{"it", ""}}), "no");
  EXPECT_EQ(Filled(page, {{"it", Json::object()}}), "no");
  EXPECT_EQ(Filled(page, {{"it", Json::array()}}), "no");
}

TEST(PageTemplateTest, ListsRepeatAndTheirFieldsComeFirst) {
  const Json values = {
      {"name", "outside"},
      {"rows", {{{"name", "a"}}, {{"other", "b"}}}},
      {"one", {{"name", "inside"}}},
  };
  EXPECT_EQ(Filled("{{#rows}}{{name}};{{/rows}}{{name}}", values),
            "a;outside;outside");
  EXPECT_EQ(
      Filled("{{#one}}{{name}} {{#rows}}{{name}} {{/rows}}{{/one}}", values),
      "inside a inside ");
  // What isn't shown needs no values.
  EXPECT_EQ(Filled("{{^rows}}{{#none}}{{none}}{{/none}}{{/rows}}.", values),
            ".");
}

TEST(PageTemplateTest, ALineWithNothingButASectionsTagLeavesNoTrace) {
  EXPECT_EQ(
      Filled("a\n{{#it}}\n b {{#it}}c{{/it}}\n{{/it}}\nd\n", {{"it", true}}),
      "a\n b c\nd\n");
  EXPECT_EQ(Filled("a\n{{it}}\nd", {{"it", "b"}}), "a\nb\nd");
}

TEST(PageTemplateTest, MistakesAreNamed) {
  const Json values = {{"it", true}, {"text", "x"}};
  EXPECT_THAT(Filled("{{none}}", values), HasSubstr("'none' is no text"));
  EXPECT_THAT(Filled("{{it}}", values), HasSubstr("'it' is no text"));
  EXPECT_THAT(Filled("{{#none}}{{/none}}", values),
              HasSubstr("'none' has no value"));
  EXPECT_THAT(Filled("{{#it}}{{text}}", values),
              HasSubstr("'it' is not closed"));
  EXPECT_THAT(Filled("{{#it}}{{/text}}", values),
              HasSubstr("'text' is closed, but not open"));
}

}  // namespace
}  // namespace stoker
