// What becomes of jobs when the worker, or what it makes, is not as it should
// be.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "compile_broker/compile_supervisor.h"
#include "tests/unit/compile_broker/broker_fixture.h"

namespace stoker {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

using WorkerFaultsTest = CompileBrokerTest;

// ---- starts ----

TEST_F(WorkerFaultsTest, ASlowStartIsWaitedFor) {
  StartBroker(Options("gated"));
  const std::string gate = MakeGate("gate");
  auto ticket = Submit(Request("ok"));
  ASSERT_TRUE(ticket->Saw("start"));
  Advance(absl::Minutes(2));
  OpenGate(gate);
  EXPECT_TRUE(ticket->Result().ok());
  EXPECT_EQ(Starts(), 1);
}

TEST_F(WorkerFaultsTest, AStartIsTriedAgain) {
  StartBroker(Options("die-once"));
  auto ticket = Submit(Request("ok"));
  ASSERT_TRUE(ticket->Saw("wait", 2));
  Advance(absl::Seconds(1));
  EXPECT_TRUE(ticket->Result().ok());
  EXPECT_EQ(Starts(), 2);
}

TEST_F(WorkerFaultsTest, AWorkerThatWillNotStartIsGivenUpWithItsLastWords) {
  StartBroker(Options("die"));
  auto ticket = Submit(Request("ok"));
  ASSERT_TRUE(ticket->Saw("wait", 2));
  Advance(absl::Seconds(1));
  ASSERT_TRUE(ticket->Saw("wait", 3));
  Advance(absl::Seconds(2));
  EXPECT_EQ(ticket->Code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(ticket->Message(), HasSubstr("exit status 3"));
  EXPECT_THAT(ticket->Message(), HasSubstr("No module named 'torch'"));
  EXPECT_EQ(Starts(), 3);

  // Until the next start is due nobody is kept waiting.
  EXPECT_EQ(Submit(Request("ok"))->Code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(Starts(), 3);
  Advance(absl::Seconds(4));
  EXPECT_EQ(Submit(Request("ok"))->Code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(Starts(), 4);
  // It was not the key's fault.
  clock_.BlockUntilWaiters(1);
  EXPECT_EQ(Queue("parked"), 0);
}

TEST_F(WorkerFaultsTest, ASilentWorkerIsEndedAfterTheStartTimeout) {
  CompileWorkerOptions options = Options("silent");
  options.start_timeout = absl::Seconds(20);
  StartBroker(options);
  auto ticket = Submit(Request("ok"));
  for (int i = 1; i <= 3; ++i) {
    ASSERT_TRUE(ticket->Saw("start", i));
    Advance(absl::Seconds(20));
    if (i == 3) break;
    ASSERT_TRUE(ticket->Saw("wait", i + 1));
    Advance(absl::Seconds(i));
  }
  EXPECT_EQ(ticket->Code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(ticket->Message(), HasSubstr("not ready after 20s"));
}

TEST_F(WorkerFaultsTest, GarbageBeforeReadyIsAFailedStart) {
  StartBroker(Options("garbage"));
  auto ticket = Submit(Request("ok"));
  ASSERT_TRUE(ticket->Saw("wait", 2));
  Advance(absl::Seconds(1));
  ASSERT_TRUE(ticket->Saw("wait", 3));
  Advance(absl::Seconds(2));
  EXPECT_EQ(ticket->Code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(ticket->Message(), HasSubstr("Hello, I am a compiler"));
}

// ---- failures that a job reports ----

struct Reported {
  const char* behaviour;
  absl::StatusCode code;
  const char* outcome;
  const char* words;
  int parked_after;  // failures; 0: never
};

class ReportedFailureTest : public WorkerFaultsTest,
                            public testing::WithParamInterface<Reported> {};

TEST_P(ReportedFailureTest, IsAnsweredCountedAndParked) {
  const Reported& expected = GetParam();
  StartBroker(Options());
  auto ticket = Submit(Request(expected.behaviour));
  EXPECT_EQ(ticket->Code(), expected.code);
  EXPECT_THAT(ticket->Message(), HasSubstr("fake:1 [batch=1]"));
  EXPECT_THAT(ticket->Message(), HasSubstr(expected.words));
  EXPECT_EQ(Compiles(expected.outcome), 1);
  EXPECT_THAT(StagedFolders(), IsEmpty());
  EXPECT_FALSE(
      cache_->entries().Lookup(Request(expected.behaviour).key).has_value());

  for (int failures = 2; failures <= 3; ++failures) {
    EXPECT_EQ(Submit(Request(expected.behaviour))->Code(), expected.code);
  }
  const int tries = expected.parked_after == 0 ? 3 : expected.parked_after;
  EXPECT_THAT(Journal("job"), SizeIs(tries));
  clock_.BlockUntilWaiters(1);
  EXPECT_EQ(Queue("parked"), expected.parked_after == 0 ? 0 : 1);
  // The worker is not to blame, and other keys are not concerned.
  EXPECT_EQ(Starts(), 1);
  EXPECT_TRUE(Submit(Request("ok"))->Result().ok());
  if (expected.parked_after > 0) {
    const absl::Status parked = Again(expected.behaviour, true);
    EXPECT_EQ(parked.code(), expected.code);
    EXPECT_THAT(std::string(parked.message()),
                HasSubstr("not tried again after"));
    EXPECT_THAT(std::string(parked.message()), HasSubstr(expected.words));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, ReportedFailureTest,
    testing::Values(Reported{"refuse", absl::StatusCode::kFailedPrecondition,
                             "refused", "unguarded check", 1},
                    Reported{"error", absl::StatusCode::kInternal, "failed",
                             "no input files", 2},
                    Reported{"timeout", absl::StatusCode::kDeadlineExceeded,
                             "timeout", "longer than the limit", 2},
                    Reported{"memory", absl::StatusCode::kResourceExhausted,
                             "memory", "more than the limit", 2},
                    Reported{"job-crash", absl::StatusCode::kInternal,
                             "crashed", "signal 11", 2},
                    Reported{"new-kind", absl::StatusCode::kInternal, "failed",
                             "nobody knows", 2},
                    Reported{"cancelled", absl::StatusCode::kInternal, "failed",
                             "by request", 0},
                    Reported{"disk-full", absl::StatusCode::kResourceExhausted,
                             "failed", "No space left", 0},
                    Reported{"half", absl::StatusCode::kInternal, "failed",
                             "was not accepted", 2},
                    Reported{"missing-file", absl::StatusCode::kInternal,
                             "failed", "was not accepted", 2},
                    Reported{"no-manifest", absl::StatusCode::kInternal,
                             "failed", "was not accepted", 2},
                    Reported{"wrong-key", absl::StatusCode::kInternal, "failed",
                             "was not accepted", 2}),
    [](const auto& named) {
      std::string name = named.param.behaviour;
      std::replace(name.begin(), name.end(), '-', '_');
      return name;
    });

TEST_F(WorkerFaultsTest, ASuccessForgetsAnEarlierFailure) {
  StartBroker(Options());
  const CompileRequest request = Request("half-once");
  EXPECT_EQ(Submit(request)->Code(), absl::StatusCode::kInternal);
  const absl::StatusOr<CacheEntry> entry = Submit(request)->Result();
  ASSERT_TRUE(entry.ok()) << entry.status();
  cache_->entries().Quarantine(*entry, "for the test");
  CompileRequest failing = request;
  failing.program_path = "/models/error.pt2";
  EXPECT_EQ(Submit(failing)->Code(), absl::StatusCode::kInternal);
  EXPECT_TRUE(Submit(request)->Result().ok()) << "one failure does not park";
}

// ---- workers that are lost ----

struct Lost {
  const char* behaviour;
  const char* words;
};

class LostWorkerTest : public WorkerFaultsTest,
                       public testing::WithParamInterface<Lost> {};

TEST_P(LostWorkerTest, TheJobIsTriedOnceMoreThenParked) {
  StartBroker(Options());
  auto ticket = Submit(Request(GetParam().behaviour));
  ASSERT_TRUE(ticket->Saw("wait", 2));
  EXPECT_EQ(Compiles("crashed"), 1);
  EXPECT_THAT(StagedFolders(), IsEmpty());
  Advance(absl::Seconds(1));
  EXPECT_EQ(ticket->Code(), absl::StatusCode::kInternal);
  EXPECT_THAT(ticket->Message(), HasSubstr("worker was lost"));
  EXPECT_THAT(ticket->Message(), HasSubstr(GetParam().words));
  EXPECT_EQ(Compiles("crashed"), 2);
  EXPECT_EQ(Starts(), 2);
  EXPECT_THAT(StagedFolders(), IsEmpty());
  const absl::Status parked = Again(GetParam().behaviour, true);
  EXPECT_EQ(parked.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(parked.message()), HasSubstr("not tried again"));

  // The next worker comes after twice the first pause.
  auto other = Submit(Request("ok"));
  ASSERT_TRUE(other->Saw("wait"));
  Advance(absl::Seconds(1));
  Advance(absl::Seconds(1));
  EXPECT_TRUE(other->Result().ok());
  EXPECT_EQ(Starts(), 3);
}

INSTANTIATE_TEST_SUITE_P(
    Ways, LostWorkerTest,
    testing::Values(Lost{"crash", "about to crash on batch=1"},
                    Lost{"leave", "exit status 0"},
                    Lost{"garbage", "expected a JSON object"},
                    Lost{"odd-types", "expected an integer member \"id\""},
                    Lost{"flood", "without a newline"},
                    Lost{"close-reply", "closed its reply pipe"},
                    Lost{"spam", "the very last line"}),
    [](const auto& named) {
      std::string name = named.param.behaviour;
      std::replace(name.begin(), name.end(), '-', '_');
      return name;
    });

TEST_F(WorkerFaultsTest, ASecondTryMaySucceed) {
  StartBroker(Options());
  auto ticket = Submit(Request("crash-once"));
  ASSERT_TRUE(ticket->Saw("wait", 2));
  Advance(absl::Seconds(1));
  EXPECT_TRUE(ticket->Result().ok());
  clock_.BlockUntilWaiters(1);
  EXPECT_EQ(Queue("parked"), 0);
}

TEST_F(WorkerFaultsTest, LastWordsAreTheEndOfTheLogInValidUtf8) {
  StartBroker(Options());
  auto ticket = Submit(Request("spam"));
  ASSERT_TRUE(ticket->Saw("wait", 2));
  Advance(absl::Seconds(1));
  const std::string message = ticket->Message();
  EXPECT_THAT(message, HasSubstr("talkative compiler \xe2\x80\x98x?"));
  EXPECT_TRUE(absl::EndsWith(message, "the very last line"));
  EXPECT_LT(message.size(), 4096u);
}

TEST_F(WorkerFaultsTest, ThePauseGrowsUpToAMinuteAndASuccessEndsIt) {
  StartBroker(Options());
  std::vector<std::unique_ptr<Ticket>> crashing;
  crashing.reserve(4);
  for (int i = 0; i < 4; ++i) {
    crashing.push_back(Submit(Request("crash", absl::StrCat("b", i))));
  }
  auto good = Submit(Request("ok"));
  for (int losses = 1; losses <= 8; ++losses) {
    SCOPED_TRACE(losses);
    Ticket& ticket = *crashing[(losses - 1) / 2];
    if (losses % 2 == 1) {
      ASSERT_TRUE(ticket.Saw("wait", 2));
    } else {
      ASSERT_EQ(ticket.Code(), absl::StatusCode::kInternal);
    }
    const absl::Duration pause =
        std::min(absl::Seconds(1 << (losses - 1)), absl::Minutes(1));
    Advance(pause - absl::Milliseconds(1));
    clock_.BlockUntilWaiters(1);
    EXPECT_EQ(Starts(), losses) << "too early";
    clock_.Advance(absl::Milliseconds(1));
  }
  ASSERT_TRUE(good->Result().ok());
  auto crash = Submit(Request("crash-once"));
  ASSERT_TRUE(crash->Saw("wait", 2));
  Advance(absl::Seconds(1));
  EXPECT_TRUE(crash->Result().ok());
}

// ---- stuck ----

TEST_F(WorkerFaultsTest, AStuckWorkerIsKilledAfterTheTimeout) {
  CompileWorkerOptions options = Options();
  options.job_timeout = absl::Minutes(5);
  StartBroker(options);
  auto ticket = Submit(Request("hang"));
  ASSERT_TRUE(ticket->Saw("build"));
  Advance(absl::Minutes(5));
  clock_.BlockUntilWaiters(1);
  EXPECT_EQ(Compiles("timeout"), 0) << "the worker's own limit comes first";
  clock_.Advance(CompileSupervisor::kTimeoutGrace);
  EXPECT_EQ(ticket->Code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(ticket->Message(), HasSubstr("stuck"));
  EXPECT_EQ(Compiles("timeout"), 1);
  EXPECT_THAT(StagedFolders(), IsEmpty());

  auto other = Submit(Request("ok"));
  ASSERT_TRUE(other->Saw("wait"));
  Advance(absl::Seconds(1));
  EXPECT_TRUE(other->Result().ok());
  EXPECT_EQ(Starts(), 2);
}

TEST_F(WorkerFaultsTest, TheNeighbourOfAStuckJobIsStartedAnewUncounted) {
  CompileWorkerOptions options = Options();
  options.job_timeout = absl::Minutes(5);
  options.parallel_jobs = 2;
  StartBroker(options);
  auto stuck = Submit(Request("hang"));
  ASSERT_TRUE(stuck->Saw("build"));
  Advance(absl::Minutes(4));
  const CompileRequest request = Request("gated");
  const std::string gate = MakeGate(request);
  auto neighbour = Submit(request);
  ASSERT_TRUE(neighbour->Saw("load"));
  Advance(absl::Minutes(1) + CompileSupervisor::kTimeoutGrace);
  EXPECT_EQ(stuck->Code(), absl::StatusCode::kDeadlineExceeded);
  ASSERT_TRUE(neighbour->Saw("wait", 2));
  Advance(absl::Seconds(1));
  ASSERT_TRUE(neighbour->Saw("load", 2));
  OpenGate(gate);
  EXPECT_TRUE(neighbour->Result().ok());
}

// ---- idle ----

TEST_F(WorkerFaultsTest, AnIdleWorkerIsLetGo) {
  CompileWorkerOptions options = Options();
  options.idle_timeout = absl::Minutes(2);
  StartBroker(options);
  ASSERT_TRUE(Submit(Request("ok", "a"))->Result().ok());
  Advance(absl::Minutes(1));
  ASSERT_TRUE(Submit(Request("ok", "b"))->Result().ok());
  EXPECT_EQ(Starts(), 1);
  Advance(absl::Minutes(1));
  ASSERT_TRUE(Submit(Request("ok", "c"))->Result().ok());
  EXPECT_EQ(Starts(), 1) << "the pause counts from the last job";
  Advance(absl::Minutes(2));
  ASSERT_TRUE(Submit(Request("ok", "d"))->Result().ok());
  EXPECT_EQ(Starts(), 2);
}

}  // namespace
}  // namespace stoker
