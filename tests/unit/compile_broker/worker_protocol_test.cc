#include "compile_broker/worker_protocol.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

namespace stoker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

CompileRequest SomeRequest() {
  const KeyFactors factors = {{"graph", "abc"}, {"bucket.s43", "8"}};
  return {.key = ArtifactKey(factors),
          .factors = factors,
          .model = "minilm:1",
          .bucket = "batch=8",
          .program_path = "/models/minilm/1/model.pt2",
          .passes_path = "/models/minilm/passes.py",
          .sizes = {{"s43", 8}},
          .march = "x86-64-v3",
          .simdlen = 256};
}

TEST(WorkerProtocolTest, AJobIsOneLineWithEveryMember) {
  CompileWorkerOptions options;
  options.job_timeout = absl::Seconds(90);
  options.job_memory_bytes = 1 << 30;
  const std::string line =
      CompileLine(7, SomeRequest(), "/c/staging/x", "/c/scratch", options);
  EXPECT_EQ(line.find('\n'), line.size() - 1);
  const auto expected = nlohmann::json::parse(R"({
      "op": "compile", "id": 7, "factors": {"graph": "abc", "bucket.s43": "8"},
      "model": "minilm:1", "bucket": "batch=8",
      "program": "/models/minilm/1/model.pt2",
      "passes": "/models/minilm/passes.py", "sizes": {"s43": 8},
      "operators": {}, "march": "x86-64-v3", "simdlen": 256, "device": "cpu",
      "stage": "/c/staging/x", "scratch": "/c/scratch",
      "timeout_seconds": 90, "memory_bytes": 1073741824})");
  auto job = nlohmann::json::parse(line);
  EXPECT_EQ(job["key"], SomeRequest().key.hex());
  job.erase("key");
  EXPECT_EQ(job, expected);
}

TEST(WorkerProtocolTest, ADoneJobSaysWhatWasCompiled) {
  const auto reply = ParseReply(
      R"({"event": "done", "id": 7, "attest": {"program": "abc", "n": 3}})");
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_THAT(reply->attest, ElementsAre(Pair("program", "abc")));
  CompileRequest request = SomeRequest();
  EXPECT_TRUE(CheckAttested(request, *reply).ok()) << "nothing is asked for";
  request.attest = {{"program", "abc"}};
  EXPECT_TRUE(CheckAttested(request, *reply).ok());
  request.attest = {{"program", "abc"}, {"recipe", "r"}};
  const absl::Status unsaid = CheckAttested(request, *reply);
  EXPECT_EQ(unsaid.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(unsaid.message()),
              HasSubstr("minilm:1 [batch=8]: what was compiled is not what the "
                        "key describes: recipe is not said, expected r"));
}

TEST(WorkerProtocolTest, FailuresNameTheProgramAsPeopleDo) {
  CompileRequest request = SomeRequest();
  request.program_path = "/proc/1/fd/9";
  request.program_name = "/models/minilm/1/model.pt2";
  EXPECT_THAT(
      std::string(FailureStatus(request, "error", "/proc/1/fd/9: no member 'x'")
                      .message()),
      HasSubstr("error: /models/minilm/1/model.pt2: no member 'x'"));
}

TEST(WorkerProtocolTest, EmptyMapsAreObjectsAndNamesNeedNotBeUtf8) {
  CompileRequest request = SomeRequest();
  request.sizes.clear();
  request.factors.clear();
  request.program_path = "/models/\xff\n/model.pt2";
  const std::string line = CompileLine(1, request, "s", "t", {});
  EXPECT_EQ(line.find('\n'), line.size() - 1);
  const auto job = nlohmann::json::parse(line);
  EXPECT_TRUE(job["sizes"].is_object());
  EXPECT_TRUE(job["factors"].is_object());
}

TEST(WorkerProtocolTest, ReadsEveryEvent) {
  auto reply = ParseReply(
      R"({"event":"ready","pid":3,"torch":"2.11.0+cu130","seconds":12.5})");
  ASSERT_TRUE(reply.ok());
  EXPECT_EQ(reply->event, WorkerReply::Event::kReady);
  EXPECT_EQ(reply->torch, "2.11.0+cu130");
  EXPECT_EQ(reply->seconds, 12.5);

  reply = ParseReply(R"({"event":"phase","id":7,"phase":"lower"})");
  ASSERT_TRUE(reply.ok());
  EXPECT_EQ(reply->event, WorkerReply::Event::kPhase);
  EXPECT_EQ(reply->id, 7);
  EXPECT_EQ(reply->phase, "lower");

  reply = ParseReply(
      R"({"event":"done","id":7,"phases":{"load":0.5,"build":3},"seconds":4})");
  ASSERT_TRUE(reply.ok());
  EXPECT_EQ(reply->event, WorkerReply::Event::kDone);
  EXPECT_THAT(reply->phases, ElementsAre(Pair("build", 3), Pair("load", 0.5)));

  reply = ParseReply(
      R"({"event":"failed","id":7,"kind":"memory","message":"m","seconds":1})");
  ASSERT_TRUE(reply.ok());
  EXPECT_EQ(reply->event, WorkerReply::Event::kFailed);
  EXPECT_EQ(reply->kind, "memory");
  EXPECT_EQ(reply->message, "m");

  reply = ParseReply(R"({"event":"heartbeat"})");
  ASSERT_TRUE(reply.ok());
  EXPECT_EQ(reply->event, WorkerReply::Event::kUnknown);
}

TEST(WorkerProtocolTest, UnknownOrImpossiblePhasesAreLeftOut) {
  const auto reply = ParseReply(
      R"({"event":"done","id":1,"phases":)"
      R"({"coffee":2,"load":-1,"lower":"x","build":1e999,"package":2}})");
  ASSERT_FALSE(reply.ok()) << "1e999 is no JSON number";
  const auto finite = ParseReply(
      R"({"event":"done","id":1,"phases":{"coffee":2,"load":-1,"lower":"x",)"
      R"("package":2},"seconds":-4})");
  ASSERT_TRUE(finite.ok());
  EXPECT_THAT(finite->phases, ElementsAre(Pair("load", 0), Pair("package", 2)));
  EXPECT_EQ(finite->seconds, 0);
}

TEST(WorkerProtocolTest, RefusesWhatNoWorkerWrites) {
  const std::string deep(100'000, '[');
  for (const std::string& line :
       {std::string(""), std::string("hello"), std::string("{"),
        std::string("[1,2]"), std::string("null"), std::string("7"),
        std::string("{}"), std::string("\xff\xfe\x00x", 4),
        std::string(R"({"event":3})"), std::string(R"({"event":"phase"})"),
        std::string(R"({"event":"phase","id":"7","phase":"load"})"),
        std::string(R"({"event":"phase","id":1.5,"phase":"load"})"),
        std::string(R"({"event":"phase","id":7,"phase":"coffee"})"),
        std::string(R"({"event":"done","id":[]})"),
        std::string(R"({"event":"failed","id":7})"),
        std::string(R"({"event":"ready","seconds":1} trailing)"), deep}) {
    const auto reply = ParseReply(line);
    EXPECT_EQ(reply.status().code(), absl::StatusCode::kInvalidArgument)
        << line.substr(0, 80);
    const std::string message(reply.status().message());
    EXPECT_THAT(message, HasSubstr("expected"));
    EXPECT_THAT(message, HasSubstr("got"));
    EXPECT_LT(message.size(), 1000u);
  }
}

TEST(WorkerProtocolTest, KindsBecomeCodesAndOutcomes) {
  const struct {
    const char* kind;
    const char* message;
    absl::StatusCode code;
    const char* outcome;
  } kCases[] = {
      {"refused", "m", absl::StatusCode::kFailedPrecondition, "refused"},
      {"error", "m", absl::StatusCode::kInternal, "failed"},
      {"timeout", "m", absl::StatusCode::kDeadlineExceeded, "timeout"},
      {"memory", "m", absl::StatusCode::kResourceExhausted, "memory"},
      {"crashed", "m", absl::StatusCode::kInternal, "crashed"},
      {"cancelled", "m", absl::StatusCode::kInternal, "failed"},
      {"something new", "m", absl::StatusCode::kInternal, "failed"},
      {"error", "x.s: No space left on device",
       absl::StatusCode::kResourceExhausted, "failed"},
  };
  for (const auto& c : kCases) {
    const absl::Status status = FailureStatus(SomeRequest(), c.kind, c.message);
    EXPECT_EQ(status.code(), c.code) << c.kind;
    EXPECT_EQ(OutcomeOfKind(c.kind), c.outcome) << c.kind;
    EXPECT_THAT(std::string(status.message()), HasSubstr("minilm:1 [batch=8]"));
    EXPECT_THAT(std::string(status.message()), HasSubstr(c.message));
  }
}

}  // namespace
}  // namespace stoker
