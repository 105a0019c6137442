#include "telemetry/request_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json_text.h"
#include "nlohmann/json.hpp"

namespace stoker {
namespace {

RequestRecord Answered() {
  RequestRecord record;
  record.id = "r-1";
  record.peer = "10.0.0.7";
  record.caller = "web";
  record.model = "minilm";
  record.version = 2;
  record.bucket = "batch=8,tokens=16";
  record.tier = "aot";
  record.rows = 3;
  record.batch_rows = 7;
  record.bytes_in = 400;
  record.bytes_out = 1600;
  record.arrived = absl::FromUnixMicros(1'700'000'000'250'001);
  record.queue = absl::Microseconds(40);
  record.assemble = absl::Microseconds(5);
  record.run = absl::Microseconds(900);
  record.split = absl::Microseconds(2);
  record.total = absl::Milliseconds(1);
  return record;
}

std::string Line(const RequestRecord& record, LineFormat format) {
  std::string line;
  AppendRequestLine(record, format, line);
  return line;
}

TEST(RequestLineTest, Json) {
  EXPECT_EQ(
      Line(Answered(), LineFormat::kJson),
      R"({"time":"2023-11-14T22:13:20.250001Z","status":"OK","protocol":"grpc",)"
      R"("peer":"10.0.0.7","caller":"web","id":"r-1","model":"minilm",)"
      R"("version":2,"bytes_in":400,"bytes_out":1600,)"
      R"("bucket":"batch=8,tokens=16","tier":"aot","rows":3,"batch_rows":7,)"
      R"("queue_us":40,"assemble_us":5,"run_us":900,"split_us":2,)"
      R"("total_us":1000})");
}

TEST(RequestLineTest, Text) {
  EXPECT_EQ(Line(Answered(), LineFormat::kText),
            "time=2023-11-14T22:13:20.250001Z status=OK protocol=grpc "
            "peer=10.0.0.7 caller=web id=r-1 model=minilm version=2 "
            "bytes_in=400 bytes_out=1600 bucket=\"batch=8,tokens=16\" tier=aot "
            "rows=3 batch_rows=7 queue_us=40 assemble_us=5 run_us=900 "
            "split_us=2 total_us=1000");
}

TEST(RequestLineTest, WhatIsNotKnownIsLeftOut) {
  RequestRecord record;
  record.arrived = absl::UnixEpoch();
  record.status = absl::StatusCode::kUnauthenticated;
  record.error = "who calls?";
  EXPECT_EQ(Line(record, LineFormat::kJson),
            R"({"time":"1970-01-01T00:00:00.000000Z",)"
            R"("status":"UNAUTHENTICATED","protocol":"grpc","bytes_in":0,)"
            R"("bytes_out":0,"total_us":0,"error":"who calls?"})");
}

TEST(RequestLineTest, OutsideAllBuckets) {
  RequestRecord record = Answered();
  record.bucket.clear();
  EXPECT_THAT(Line(record, LineFormat::kJson),
              ::testing::HasSubstr(R"("bucket":"none","tier":"aot")"));
}

// Whatever is in them, and even where it isn't UTF-8.
TEST(RequestLineTest, NamesForgeNoLine) {
  RequestRecord record = Answered();
  record.id = "a\"}\n{\"status\":\"OK\" = \\ \x1b[0m \xff";
  record.model = "mod\xc3\xa8le";
  for (const LineFormat format : {LineFormat::kJson, LineFormat::kText}) {
    EXPECT_THAT(Line(record, format),
                ::testing::Not(::testing::HasSubstr("\n")));
  }
  const nlohmann::json json = ReadJson(Line(record, LineFormat::kJson));
  ASSERT_TRUE(json.is_object());
  EXPECT_EQ(json["id"], "a\"}\n{\"status\":\"OK\" = \\ \x1b[0m \xef\xbf\xbd");
  EXPECT_EQ(json["model"], record.model);
  EXPECT_EQ(json["status"], "OK");
}

}  // namespace
}  // namespace stoker
