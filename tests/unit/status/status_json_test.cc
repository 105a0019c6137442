#include "status/status_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "nlohmann/json.hpp"
#include "tests/unit/status/some_status.h"

namespace stoker {
namespace {

using Json = nlohmann::json;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(StatusJsonTest, AnEmptyServerHasEveryPart) {
  const Json json = Json::parse(StatusJson(Status()));
  EXPECT_EQ(json.at("versions"), Json::object());
  EXPECT_EQ(json.at("models"), Json::array());
  EXPECT_EQ(json.at("buckets"), Json::array());
  EXPECT_EQ(json.at("refusals"), Json::array());
  EXPECT_EQ(json.at("server").at("ready"), false);
  EXPECT_EQ(json.at("cache").at("entries"), 0);
  EXPECT_EQ(json.at("cache").at("rejections"), Json::object());
}

TEST(StatusJsonTest, HasTheFieldsOfTheReadme) {
  const std::string text = StatusJson(SomeStatus());
  EXPECT_THAT(text, EndsWith("}\n"));
  const Json json = Json::parse(text);
  EXPECT_EQ(json.at("server"), Json::parse(R"({
    "time": "2023-11-14T22:13:20.000Z", "ready": true, "uptime_seconds": 4500, "window_seconds": 60,
    "version": "9.9", "torch": "2.11.0+cpu", "march": "x86-64-v4"})"));
  EXPECT_EQ(json.at("versions"), Json::parse(R"({
    "minilm:1": "serving", "resnet:2": "warming", "broken:1": "failed"})"));
  EXPECT_EQ(json.at("models")[0], Json::parse(R"({
    "model": "minilm:1", "state": "serving", "reason": "", "newest": true, "aliases": {"stable": 90},
    "device": "cuda:0, cuda:1",
    "warmup": {"settled": 2, "total": 2, "seconds_left": null},
    "answered": 12345, "failed": 2, "waiting": 3,
    "recent": {"requests_per_second": 20.5, "p50_seconds": 0.0031,
               "p99_seconds": 0.25}})"));
  EXPECT_EQ(json.at("models")[2].at("device"), "");
  EXPECT_EQ(json.at("models")[1].at("warmup").at("seconds_left"), 80);
  EXPECT_EQ(json.at("models")[1].at("recent").at("p99_seconds"), nullptr);
  ASSERT_EQ(json.at("buckets").size(), 5u);
  EXPECT_EQ(json.at("buckets")[0], Json::parse(R"({
    "model": "minilm:1", "bucket": "batch=1", "state": "compiled",
    "tier": "aot", "graph": "", "reason": "", "phase": "", "phase_seconds": 0,
    "key": ")" + std::string(64, 'a') + R"(",
    "compiled_requests": 12000, "eager_requests": 0, "speedup": 1.87,
    "max_abs_error": 6e-06, "parity_cases": 4, "compile_seconds": 13.6,
    "saved_seconds": 20.4, "break_even_runs": 763})"));
  EXPECT_EQ(json.at("buckets")[1].at("tier"), "eager");
  EXPECT_EQ(json.at("buckets")[1].at("reason"), "profit: 0.93 x eager");
  EXPECT_EQ(json.at("buckets")[1].at("max_abs_error"), nullptr);
  EXPECT_EQ(json.at("buckets")[3].at("phase"), "build");
  EXPECT_EQ(json.at("buckets")[3].at("phase_seconds"), 12);
  EXPECT_EQ(json.at("cache"), Json::parse(R"({
    "writable": true, "entries": 8, "bytes": 15000000,
    "hits": {"upper": 6, "lower": 2}, "misses": 3,
    "rejections": {"checksum": 1}, "compile_seconds_saved": 98.5})"));
  EXPECT_EQ(json.at("refusals")[0], Json::parse(R"({
    "time": "2023-11-14T21:56:40.000Z", "what": "promotion",
    "of": "minilm:1 batch=8", "label": "profit", "reason": "0.93 x eager"})"));
}

TEST(StatusJsonTest, AVersionThatReplacesItselfServes) {
  Status status;
  status.models.resize(2);
  for (ModelStatus& model : status.models) model.model = "minilm:1";
  for (const bool first : {true, false}) {
    status.models[0].state =
        first ? VersionState::kServing : VersionState::kDraining;
    status.models[1].state =
        first ? VersionState::kWarming : VersionState::kServing;
    const Json json = Json::parse(StatusJson(status));
    EXPECT_EQ(json.at("versions"), Json::parse(R"({"minilm:1": "serving"})"));
    EXPECT_EQ(json.at("models").size(), 2u);
  }
}

TEST(StatusJsonTest, WhatIsNoNumberIsNull) {
  Status status = SomeStatus();
  Verdict& verdict = status.models[0].buckets[0].status.slot.verdict;
  verdict.parity.max_abs_error = std::numeric_limits<double>::infinity();
  verdict.profit.speedup = std::nan("");
  const Json json = Json::parse(StatusJson(status));
  EXPECT_EQ(json.at("buckets")[0].at("max_abs_error"), nullptr);
  EXPECT_EQ(json.at("buckets")[0].at("speedup"), nullptr);
}

TEST(StatusJsonTest, BytesThatAreNoUtf8AreReplaced) {
  Status status = SomeStatus();
  status.models[2].reason = "a \xff b \" c";
  const std::string text = StatusJson(status);
  EXPECT_THAT(text, Not(HasSubstr("\xff")));
  EXPECT_EQ(Json::parse(text).at("models")[2].at("reason"),
            "a \xef\xbf\xbd b \" c");
}

}  // namespace
}  // namespace stoker
