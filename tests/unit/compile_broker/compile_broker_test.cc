#include "compile_broker/compile_broker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/unit/compile_broker/broker_fixture.h"

namespace stoker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// ---- the good way ----

TEST_F(CompileBrokerTest, AJobBecomesAnEntry) {
  StartBroker(Options());
  const CompileRequest request = Request("ok");
  auto ticket = Submit(request);
  const absl::StatusOr<CacheEntry> entry = ticket->Result();
  ASSERT_TRUE(entry.ok()) << entry.status();
  EXPECT_EQ(entry->key, request.key);
  EXPECT_THAT(entry->manifest_json, HasSubstr(request.key.hex()));
  EXPECT_TRUE(std::filesystem::exists(entry->folder + "/model.so"));
  EXPECT_TRUE(cache_->entries().Lookup(request.key).has_value());
  EXPECT_THAT(ticket->phases(),
              ElementsAre("wait", "start", "load", "specialise", "lower",
                          "build", "package", "commit"));
  EXPECT_EQ(Compiles("ok"), 1);
  for (const char* phase :
       {"load", "specialise", "lower", "build", "package"}) {
    EXPECT_EQ(MetricValue(metrics_, "stoker_compile_phase_seconds",
                          {{"phase", phase}}),
              1);
  }
  EXPECT_EQ(Starts(), 1);
  EXPECT_THAT(StagedFolders(), IsEmpty());
}

TEST_F(CompileBrokerTest, TheWorkerStartsLazilyAndServesManyJobs) {
  StartBroker(Options());
  EXPECT_EQ(Starts(), 0);
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(
        Submit(Request("ok", absl::StrCat("batch=", i)))->Result().ok());
  }
  EXPECT_EQ(Starts(), 1);
}

TEST_F(CompileBrokerTest, AWorkerThatIsExpectedStartsBeforeTheFirstJob) {
  const std::string gate = MakeGate("gate");
  StartBroker(Options("gated"));
  broker_->Expect();
  OpenGate(gate);  // which it reaches without a job
  broker_->Expect();
  EXPECT_TRUE(Submit(Request("ok"))->Result().ok());
  EXPECT_EQ(Starts(), 1);
}

TEST_F(CompileBrokerTest, WithoutACompilerNothingIsExpectedOfIt) {
  StartBroker({});
  broker_->Expect();
  EXPECT_EQ(Submit(Request("ok"))->Code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(Starts(), 0);
}

TEST_F(CompileBrokerTest, JobsAreTakenInOrderOfArrival) {
  StartBroker(Options());
  const CompileRequest first = Request("gated", "first");
  const std::string gate = MakeGate(first);
  auto ticket = Submit(first);
  ASSERT_TRUE(ticket->Saw("load"));
  std::vector<std::unique_ptr<Ticket>> others;
  others.reserve(4);
  for (int i = 0; i < 4; ++i) {
    others.push_back(Submit(Request("ok", absl::StrCat("b", 9 - i))));
  }
  OpenGate(gate);
  for (auto& other : others) EXPECT_TRUE(other->Result().ok());
  EXPECT_THAT(Journal("job"),
              ElementsAre("job gated first", "job ok b9", "job ok b8",
                          "job ok b7", "job ok b6"));
}

TEST_F(CompileBrokerTest, UpToParallelJobsAreOpenAtOnce) {
  CompileWorkerOptions options = Options();
  options.parallel_jobs = 2;
  StartBroker(options);
  const CompileRequest a = Request("gated", "a"), b = Request("gated", "b");
  const std::string gate_a = MakeGate(a), gate_b = MakeGate(b);
  auto ticket_a = Submit(a), ticket_b = Submit(b);
  auto ticket_c = Submit(Request("ok", "c"));
  EXPECT_TRUE(ticket_a->Saw("load"));
  EXPECT_TRUE(ticket_b->Saw("load"));
  clock_.BlockUntilWaiters(1);
  EXPECT_EQ(Queue("running"), 2);
  EXPECT_EQ(Queue("waiting"), 1);
  OpenGate(gate_b);
  EXPECT_TRUE(ticket_b->Result().ok());
  EXPECT_TRUE(ticket_c->Result().ok());
  OpenGate(gate_a);
  EXPECT_TRUE(ticket_a->Result().ok());
}

TEST_F(CompileBrokerTest, OneKeyIsCompiledOnceForAllWhoAsk) {
  StartBroker(Options());
  const CompileRequest request = Request("gated");
  const std::string gate = MakeGate(request);
  auto first = Submit(request);
  ASSERT_TRUE(first->Saw("load"));
  auto second = Submit(request);
  EXPECT_TRUE(second->Saw("load")) << "told of what is going on already";
  OpenGate(gate);
  EXPECT_TRUE(first->Result().ok());
  EXPECT_TRUE(second->Result().ok());
  EXPECT_THAT(second->phases(), ElementsAre("load", "commit"));
  EXPECT_THAT(Journal("job"), SizeIs(1));
}

TEST_F(CompileBrokerTest, WhatNobodyWantsAnyMoreIsNotCompiled) {
  StartBroker(Options());
  const CompileRequest first = Request("gated", "first");
  const std::string gate = MakeGate(first);
  std::stop_source leaver, other;
  auto running = Submit(first, leaver.get_token());
  ASSERT_TRUE(running->Saw("load"));
  auto unwanted = Submit(Request("ok", "unwanted"), leaver.get_token());
  auto shared = Submit(Request("ok", "shared"), leaver.get_token());
  auto sharer = Submit(Request("ok", "shared"), other.get_token());
  ASSERT_TRUE(sharer->Saw("wait"));
  leaver.request_stop();
  EXPECT_EQ(unwanted->Code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(shared->Code(), absl::StatusCode::kCancelled);
  // One that was asked for too late is not begun either.
  auto late = Submit(Request("ok", "late"), leaver.get_token());
  EXPECT_EQ(late->Code(), absl::StatusCode::kCancelled);
  OpenGate(gate);
  EXPECT_TRUE(running->Result().ok()) << "what runs is worth keeping";
  EXPECT_TRUE(sharer->Result().ok());
  EXPECT_THAT(Journal("job"), ElementsAre("job gated first", "job ok shared"));
}

TEST_F(CompileBrokerTest, CodeOfTheModelsAuthorRunsOnlyWhereThatIsAllowed) {
  StartBroker(Options());
  CompileRequest request = Request("ok");
  request.passes_path = "/models/ok/passes.py";
  auto ticket = Submit(request);
  EXPECT_EQ(ticket->Code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(ticket->Message(), HasSubstr("/models/ok/passes.py"));
  EXPECT_THAT(ticket->Message(), HasSubstr("--allow-passes"));
  EXPECT_THAT(Journal("job"), IsEmpty());
  broker_.reset();
  CompileWorkerOptions options = Options();
  options.allow_passes = true;
  StartBroker(options);
  EXPECT_TRUE(Submit(request)->Result().ok());
}

TEST_F(CompileBrokerTest, WhatIsNotWhatWasAskedForIsNotCommitted) {
  StartBroker(Options());
  CompileRequest request = Request("other-program");
  request.attest = {{"program", "this one"}};
  for (int i = 0; i < 3; ++i) {
    auto ticket = Submit(request);
    EXPECT_EQ(ticket->Code(), absl::StatusCode::kDataLoss);
    EXPECT_THAT(ticket->Message(), HasSubstr("program is \"another\", expected "
                                             "this one"));
  }
  EXPECT_EQ(Queue("parked"), 0) << "the key is not at fault";
  EXPECT_THAT(cache_->entries().Keys(), IsEmpty());
  EXPECT_THAT(StagedFolders(), IsEmpty());
  // A worker that does not say what it compiled is not believed, either.
  request.program_path = "/models/ok.pt2";
  auto ticket = Submit(request);
  EXPECT_EQ(ticket->Code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(ticket->Message(), HasSubstr("program is not said"));
}

TEST_F(CompileBrokerTest, AnEntryThatIsThereByNowNeedsNoWorker) {
  StartBroker(Options());
  ASSERT_TRUE(Submit(Request("ok"))->Result().ok());
  ASSERT_TRUE(Submit(Request("ok"))->Result().ok());
  EXPECT_THAT(Journal("job"), SizeIs(1));
}

TEST_F(CompileBrokerTest, ProgressMayBeLeftOutAndDoneMaySubmit) {
  StartBroker(Options());
  Ticket second;
  broker_->Submit(Request("ok", "a"), nullptr,
                  [&](auto result) {
                    EXPECT_TRUE(result.ok());
                    broker_->Submit(Request("ok", "b"), nullptr, second.done(),
                                    {});
                  },
                  {});
  EXPECT_TRUE(second.Result().ok());
}

TEST_F(CompileBrokerTest, RepliesThatOnlyANewerWorkerKnowsAreNoFault) {
  StartBroker(Options());
  EXPECT_TRUE(Submit(Request("odd-but-true"))->Result().ok());
  EXPECT_EQ(Starts(), 1);
}

TEST_F(CompileBrokerTest, ManyThreadsMaySubmit) {
  CompileWorkerOptions options = Options();
  options.parallel_jobs = 3;
  broker_ = std::make_unique<CompileBroker>(options, cache_->entries(),
                                            Clock::Real(), metrics_);
  constexpr size_t kThreads = 4, kKeys = 10;
  std::vector<std::unique_ptr<Ticket>> tickets(kThreads * kKeys);
  std::vector<std::thread> threads;
  threads.reserve(kThreads);
  for (size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (size_t k = 0; k < kKeys; ++k) {
        tickets[t * kKeys + k] =
            Submit(Request("ok", absl::StrCat("b", (k + t) % kKeys)));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (auto& ticket : tickets) EXPECT_TRUE(ticket->Result().ok());
  EXPECT_THAT(Journal("job"), SizeIs(kKeys));
}

// ---- no compiler ----

TEST_F(CompileBrokerTest, WithoutAWorkerEverythingIsUnavailable) {
  StartBroker(CompileWorkerOptions());
  auto ticket = Submit(Request("ok"));
  EXPECT_EQ(ticket->Code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(ticket->Message(), HasSubstr("no compiler on this host"));
}

TEST_F(CompileBrokerTest, AMissingProgramIsUnavailableAtOnce) {
  CompileWorkerOptions options;
  options.argv = {"/nonexistent/python3", "-m", "compiler.worker"};
  StartBroker(options);
  for (int i = 0; i < 2; ++i) {
    auto ticket = Submit(Request("ok"));
    EXPECT_EQ(ticket->Code(), absl::StatusCode::kUnavailable);
    EXPECT_THAT(ticket->Message(), HasSubstr("no compiler on this host"));
    EXPECT_THAT(ticket->Message(), HasSubstr("/nonexistent/python3"));
  }
  EXPECT_EQ(Starts(), 0);
}

// ---- a disk that fails ----

TEST_F(CompileBrokerTest, ACacheThatCanNotBeWrittenNeedsNoWorker) {
  StartBroker(Options());
  const struct {
    absl::Status error;
    absl::StatusCode code;
  } kCases[] = {
      {absl::PermissionDeniedError("read-only"),
       absl::StatusCode::kUnavailable},
      {absl::ResourceExhaustedError("disk full"),
       absl::StatusCode::kResourceExhausted},
      {absl::InternalError("input/output error"), absl::StatusCode::kInternal},
  };
  for (const auto& c : kCases) {
    files_.FailAllChanges(c.error);
    auto ticket = Submit(Request("ok"));
    EXPECT_EQ(ticket->Code(), c.code);
    EXPECT_THAT(ticket->Message(), HasSubstr(std::string(c.error.message())));
  }
  EXPECT_EQ(Starts(), 0);
}

TEST_F(CompileBrokerTest, ADiskThatFillsUpIsNotTheKeysFault) {
  StartBroker(Options());
  const CompileRequest request = Request("gated");
  for (int i = 0; i < 3; ++i) {
    const std::string gate = MakeGate(request);
    auto ticket = Submit(request);
    ASSERT_TRUE(ticket->Saw("load"));
    files_.FailAllChanges(absl::ResourceExhaustedError("disk full"));
    OpenGate(gate);
    EXPECT_EQ(ticket->Code(), absl::StatusCode::kResourceExhausted);
    clock_.BlockUntilWaiters(1);
    files_.FailAllChanges(absl::OkStatus());
    std::filesystem::remove(gate);
  }
  EXPECT_EQ(Queue("parked"), 0);
  const std::string gate = MakeGate(request);
  auto ticket = Submit(request);
  OpenGate(gate);
  EXPECT_TRUE(ticket->Result().ok());
}

// ---- end ----

TEST_F(CompileBrokerTest, TheEndKillsTheWorkerAndAnswersWhatIsLeft) {
  StartBroker(Options());
  const CompileRequest request = Request("gated");
  MakeGate(request);
  auto running = Submit(request);
  ASSERT_TRUE(running->Saw("load"));
  auto joined = Submit(request);
  auto waiting = Submit(Request("ok"));
  ASSERT_TRUE(waiting->Saw("wait"));
  broker_.reset();
  for (Ticket* ticket : {running.get(), joined.get(), waiting.get()}) {
    EXPECT_EQ(ticket->Code(), absl::StatusCode::kCancelled);
  }
  EXPECT_THAT(StagedFolders(), IsEmpty());
  EXPECT_EQ(Queue("running"), 0);
  const std::vector<std::string> starts = Journal("start");
  ASSERT_THAT(starts, SizeIs(1));
  const std::vector<std::string> words = absl::StrSplit(starts[0], ' ');
  EXPECT_EQ(kill(std::stoi(words[2]), 0), -1) << "the worker lives on";
  // The key is free for others.
  auto lock = cache_->entries().TryLock(request.key);
  ASSERT_TRUE(lock.ok());
  EXPECT_NE(*lock, nullptr);
}

TEST_F(CompileBrokerTest, TheEndAnswersWhatAnAnswerSubmitted) {
  StartBroker(Options());
  const CompileRequest request = Request("gated");
  MakeGate(request);
  Ticket first, second;
  CompileBroker* const broker = broker_.get();
  const CompileBroker::Done first_done = first.done();
  broker->Submit(request, first.progress(),
                 [&](auto result) {
                   broker->Submit(Request("ok"), nullptr, second.done(), {});
                   first_done(std::move(result));
                 },
                 {});
  ASSERT_TRUE(first.Saw("load"));
  broker_.reset();
  EXPECT_EQ(first.Code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(second.Code(), absl::StatusCode::kCancelled);
}

// ---- other daemons ----

TEST_F(CompileBrokerTest, AKeyThatAnotherDaemonCompilesIsWaitedFor) {
  auto other_cache = OpenCache();
  const CompileRequest request = Request("ok");
  auto lock = other_cache->entries().TryLock(request.key);
  ASSERT_TRUE(lock.ok());
  ASSERT_NE(*lock, nullptr);
  StartBroker(Options());
  auto ticket = Submit(request);
  ASSERT_TRUE(ticket->Saw("wait"));
  Advance(absl::Seconds(1));
  // Another key is not held up by it.
  EXPECT_TRUE(Submit(Request("ok", "other"))->Result().ok());
  clock_.BlockUntilWaiters(1);
  EXPECT_EQ(Queue("waiting"), 1);

  CompileBroker other(Options(), other_cache->entries(), Clock::Real(),
                      metrics_);
  lock->reset();
  Ticket others;
  other.Submit(request, others.progress(), others.done(), {});
  ASSERT_TRUE(others.Result().ok());
  EXPECT_THAT(ticket->phases(), ElementsAre("wait"));
  Advance(absl::Seconds(1));
  EXPECT_TRUE(ticket->Result().ok());
  EXPECT_THAT(Journal("job"), SizeIs(2)) << "one for each key";
  EXPECT_EQ(MetricValue(metrics_, "stoker_cache_lock_wait_seconds"), 1);
}

TEST_F(CompileBrokerTest, AKeyThatItsHolderGaveUpIsTakenOver) {
  auto other_cache = OpenCache();
  const CompileRequest request = Request("ok");
  auto lock = other_cache->entries().TryLock(request.key);
  ASSERT_TRUE(lock.ok());
  StartBroker(Options());
  auto ticket = Submit(request);
  ASSERT_TRUE(ticket->Saw("wait"));
  for (int i = 0; i < 3; ++i) Advance(absl::Seconds(1));
  clock_.BlockUntilWaiters(1);
  EXPECT_EQ(Starts(), 0) << "no worker for work that others do";
  lock->reset();
  clock_.Advance(absl::Seconds(1));
  EXPECT_TRUE(ticket->Result().ok());
  EXPECT_THAT(Journal("job"), SizeIs(1));
  EXPECT_THAT(metrics_.Text(),
              HasSubstr("stoker_cache_lock_wait_seconds_sum 4"));
}

TEST_F(CompileBrokerTest, AHostWhoseWorkerWillNotStartGivesTheKeyBack) {
  StartBroker(Options("die-once"));
  auto ticket = Submit(Request("ok"));
  ASSERT_TRUE(ticket->Saw("wait", 2));
  clock_.BlockUntilWaiters(1);
  auto other_cache = OpenCache();
  auto lock = other_cache->entries().TryLock(Request("ok").key);
  ASSERT_TRUE(lock.ok());
  EXPECT_NE(*lock, nullptr);
}

}  // namespace
}  // namespace stoker
