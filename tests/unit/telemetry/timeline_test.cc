#include "telemetry/timeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "base/json_text.h"
#include "nlohmann/json.hpp"
#include "tests/unit/telemetry/answered_record.h"

namespace stoker {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

const absl::Time kBegan = absl::FromUnixSeconds(1'700'000'000);

RequestRecord Answered(int64_t after_us, uint64_t batch) {
  RequestRecord record =
      AnsweredRecord(kBegan + absl::Microseconds(after_us), batch);
  record.id = "r \"1\"";
  return record;
}

class TimelineTest : public ::testing::Test {
 protected:
  // The events of a phase, as JSON.
  std::vector<nlohmann::json> Events(const char* phase) {
    const nlohmann::json json = ReadJson(TimelineJson(recording_));
    EXPECT_TRUE(json.is_object());
    std::vector<nlohmann::json> found;
    for (const nlohmann::json& event : json["traceEvents"]) {
      if (event["ph"] == phase) found.push_back(event);
    }
    return found;
  }
  // Rows by number.
  std::map<int, std::string> Rows() {
    std::map<int, std::string> rows;
    for (const nlohmann::json& event : Events("M")) {
      if (event["name"] != "thread_name") continue;
      rows[event["tid"].get<int>()] = event["args"]["name"];
    }
    return rows;
  }

  Recording recording_{.began = kBegan, .took = absl::Seconds(1)};
};

TEST_F(TimelineTest, Nothing) {
  const nlohmann::json json = ReadJson(TimelineJson(recording_));
  EXPECT_EQ(json["traceEvents"].size(), 1u);  // the process's name
  EXPECT_EQ(json["otherData"]["seconds"], 1);
}

TEST_F(TimelineTest, ABatchIsThereOnce) {
  recording_.requests = {Answered(0, 7), Answered(10, 7)};
  const auto pieces = Events("X");
  ASSERT_EQ(pieces.size(), 4u);
  EXPECT_EQ(pieces[0]["name"], "batch=8");
  EXPECT_EQ(pieces[0]["ts"], 160);
  EXPECT_EQ(pieces[0]["dur"], 515);
  EXPECT_EQ(pieces[0]["args"]["rows"], 6);
  EXPECT_EQ(pieces[2]["name"], "run");
  EXPECT_EQ(pieces[2]["ts"], 170);
  EXPECT_EQ(Rows().at(pieces[0]["tid"].get<int>()), "minilm:2 device thread 1");
}

TEST_F(TimelineTest, QuickRunsHaveARowOfTheirOwn) {
  recording_.requests = {Answered(0, 7)};
  recording_.requests[0].thread = -1;
  EXPECT_THAT(Rows(), ElementsAre(Pair(1, "minilm:2 quick runs")));
}

TEST_F(TimelineTest, RequestsAndTheirQueue) {
  recording_.requests = {Answered(0, 7)};
  const auto begins = Events("b");
  const auto ends = Events("e");
  ASSERT_EQ(begins.size(), 2u);
  ASSERT_EQ(ends.size(), 2u);
  EXPECT_EQ(begins[0]["name"], "minilm:2");
  EXPECT_EQ(begins[0]["args"]["id"], "r \"1\"");
  EXPECT_EQ(begins[0]["id"], begins[1]["id"]);
  EXPECT_EQ(begins[1]["ts"], 50);
  EXPECT_EQ(ends[0]["ts"], 150);
  EXPECT_EQ(ends[1]["ts"], 700);
}

TEST_F(TimelineTest, HowManyWait) {
  recording_.requests = {Answered(0, 7), Answered(10, 7)};
  // And one that didn't.
  recording_.requests.push_back(Answered(20, 8));
  recording_.requests.back().queue = absl::ZeroDuration();
  std::vector<int> waiting;
  for (const nlohmann::json& event : Events("C")) {
    waiting.push_back(event["args"]["requests"].get<int>());
  }
  EXPECT_THAT(waiting, ElementsAre(1, 2, 1, 0, 1, 0));
}

TEST_F(TimelineTest, WhatWasRefused) {
  RequestRecord refused;
  refused.status = absl::StatusCode::kUnauthenticated;
  refused.arrived = kBegan;
  recording_.requests = {refused};
  recording_.left_out = 2;
  EXPECT_TRUE(Events("X").empty());
  EXPECT_EQ(Events("b").size(), 1u);
  EXPECT_EQ(
      ReadJson(TimelineJson(recording_))["otherData"]["requests_left_out"], 2);
}

TEST_F(TimelineTest, WorkOfBeforeBeginsBelowZero) {
  recording_.work = {{.name = "compile",
                      .model = "minilm",
                      .version = 2,
                      .bucket = "batch=8",
                      .began = kBegan - absl::Microseconds(5),
                      .took = absl::Microseconds(20),
                      .error = "why \n"}};
  const auto pieces = Events("X");
  ASSERT_EQ(pieces.size(), 1u);
  EXPECT_EQ(pieces[0]["ts"], -5);
  EXPECT_EQ(pieces[0]["name"], "compile minilm:2 batch=8");
  EXPECT_EQ(pieces[0]["args"]["error"], "why \n");
  EXPECT_THAT(Rows(), ElementsAre(Pair(1, "compiles")));
}

}  // namespace
}  // namespace stoker
