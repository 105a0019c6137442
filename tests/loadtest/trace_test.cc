#include "loadtest/generator/trace.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace stoker::loadtest {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const std::vector<std::string> kTokens = {"tokens"};

TEST(TraceTest, ReadsCsv) {
  const auto trace = ParseTrace(
      "tokens, batch ,offset_ms\r\n8,1,0\r\n128,2,0.5\r\n\r\n9,1,12\n", "a.csv",
      {"batch", "tokens"});
  ASSERT_TRUE(trace.ok()) << trace.status();
  EXPECT_THAT(trace->sizes, ElementsAre(ElementsAre(1, 8), ElementsAre(2, 128),
                                        ElementsAre(1, 9)));
  EXPECT_THAT(trace->offsets_ns, ElementsAre(0, 500'000, 12'000'000));
}

TEST(TraceTest, ReadsJsonLines) {
  const auto trace =
      ParseTrace("{\"tokens\": 8}\n{\"tokens\": 12}\n", "a.jsonl", kTokens);
  ASSERT_TRUE(trace.ok()) << trace.status();
  EXPECT_THAT(trace->sizes, ElementsAre(ElementsAre(8), ElementsAre(12)));
  EXPECT_THAT(trace->offsets_ns, IsEmpty());
}

struct Wrong {
  const char* path;
  const char* text;
  const char* message;
};

class TraceErrorTest : public testing::TestWithParam<Wrong> {};

TEST_P(TraceErrorTest, NamesFileLineAndWhatWasExpected) {
  const auto trace = ParseTrace(GetParam().text, GetParam().path, kTokens);
  EXPECT_EQ(trace.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(trace.status().message()),
              HasSubstr(GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(
    Files, TraceErrorTest,
    testing::Values(
        Wrong{"a.csv", "tokens\n8\nx\n",
              "a.csv:3: expected an integer from 0 up for tokens, got 'x'"},
        Wrong{"a.csv", "tokens\n-8\n", "a.csv:2: expected an integer"},
        Wrong{"a.csv", "tokens\n8,9\n", "a.csv:2: expected 1 cells, got 2"},
        Wrong{"a.csv", "tokens,tokens\n8,9\n", "'tokens' again"},
        Wrong{"a.csv", "length\n8\n", "got a column 'length'"},
        Wrong{"a.csv", "offset_ms\n8\n", "expected a column tokens, got none"},
        Wrong{"a.csv", "tokens\n", "expected at least one row, got none"},
        Wrong{"a.csv", "tokens,offset_ms\n8,5\n8,4\n",
              "a.csv:3: expected ascending offset_ms, got 4"},
        Wrong{"a.csv", "tokens,offset_ms\n8,x\n", "a time from 0 up"},
        Wrong{"a.jsonl", "{\"tokens\": 8}\n[8]\n",
              "a.jsonl:2: expected a JSON object, got [8]"},
        Wrong{"a.jsonl", "{\"tokens\": 8.5}\n", "got '8.5'"},
        Wrong{"a.jsonl", "{\"tokens\": 8, \"offset_ms\": 1}\n{\"tokens\": 8}\n",
              "a.jsonl:2: expected offset_ms as in the rows before"},
        Wrong{"a.jsonl", "{\"tokens\": 8}\n{\"tokens\": 8, \"offset_ms\": 1}\n",
              "a.jsonl:2: expected no offset_ms"},
        Wrong{"a.txt", "tokens\n8\n", "ends in .csv or .jsonl"}));

TEST(TraceTest, SaysWhichFileIsMissing) {
  const auto trace = ReadTrace("/nonexistent/trace.csv", kTokens);
  EXPECT_EQ(trace.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(trace.status().message()),
              HasSubstr("/nonexistent/trace.csv"));
}

}  // namespace
}  // namespace stoker::loadtest
