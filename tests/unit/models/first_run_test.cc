#include "models/first_run.h"

#include <sys/stat.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <future>
#include <memory>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "base/files.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "metrics/metrics.h"
#include "tests/fakes/fake_compiler.h"
#include "tests/fakes/temp_folder.h"
#include "tests/fakes/tensors.h"

namespace stoker {
namespace {

using ::testing::HasSubstr;

class FirstRunTest : public ::testing::Test {
 protected:
  FirstRunTest() {
    // As in the daemon: children end before they have read what they are sent.
    signal(SIGPIPE, SIG_IGN);
    auto cache =
        KernelCache::Open({.root = folder_ / "cache"}, Files::Real(), metrics_);
    EXPECT_TRUE(cache.ok()) << cache.status();
    cache_ = *std::move(cache);
    for (const char digit : {'1', '2', '3'}) {
      const auto key = ArtifactKey::FromHex(std::string(64, digit));
      auto entry = CommitArtifact(*cache_, key);
      EXPECT_TRUE(entry.ok()) << entry.status();
      entries_.push_back(*std::move(entry));
    }
    EXPECT_EQ(mkfifo(begun_.c_str(), 0600), 0);
  }

  // The script's $0 is the program, its arguments the number of threads and the
  // artifacts' folders.
  std::unique_ptr<FirstRun> Script(const std::string& script) {
    return std::make_unique<FirstRun>(
        FirstRun::Options{.argv = {"/bin/sh", "-c", script}, .machine = "here"},
        cache_->facts());
  }
  std::vector<absl::Status> Check(FirstRun& first_run,
                                  const std::stop_token& stop = {}) {
    return first_run.Check("model.pt2", 1, entries_, stop);
  }
  // Blocks until a child has written to it.
  void AwaitChild() { std::ifstream(begun_).get(); }

  const TempFolder folder_{TempFolder::Where::kMemory};
  const std::string begun_ = folder_ / "begun";
  MetricRegistry metrics_;
  std::unique_ptr<KernelCache> cache_;
  std::vector<CacheEntry> entries_;
};

TEST_F(FirstRunTest, WhatHasSurvivedIsNotTriedAgain) {
  const auto first = Script("shift; for f; do echo $f >&3; done");
  for (const absl::Status& status : Check(*first)) EXPECT_TRUE(status.ok());
  // Neither by this daemon nor by the next.
  const auto next = Script("exit 1");
  for (const absl::Status& status : Check(*next)) EXPECT_TRUE(status.ok());
}

TEST_F(FirstRunTest, AProgramsEagerFormIsTriedOnInputs) {
  const FirstRun::Program program{"graph", "weights", "model.pt2"};
  const Tensor inputs[] = {
      MakeTensor<float>(DataType::kFp32, {2}, std::vector<float>{1, 2})};
  const auto try_with = [&](const std::string& script) {
    return Script(script)->CheckEager(program, 1, inputs, {});
  };
  const absl::Status died = try_with("kill -SEGV $$");
  EXPECT_EQ(died.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(died.message()),
              HasSubstr("its first eager run, in a child process: killed by "
                        "signal 11"));
  // Memory may be there another time.
  EXPECT_EQ(try_with("kill -KILL $$").code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(try_with("test $# = 1 && grep -q F32 && echo >&3").ok());
  // It is known now, of this program with these weights.
  EXPECT_TRUE(try_with("exit 1").ok());
  const auto other = Script("exit 1");
  EXPECT_FALSE(
      other->CheckEager({"graph", "others", "model.pt2"}, 1, inputs, {}).ok());
  EXPECT_FALSE(
      other->CheckEager({"other", "weights", "model.pt2"}, 1, inputs, {}).ok());
}

// That an artifact ran says nothing of what takes its place.
TEST_F(FirstRunTest, OtherCodeUnderTheSameKeyIsTried) {
  const std::string script =
      "shift; for f; do grep -q other $f/model.so && exit 1; echo >&3; done";
  const auto first_run = Script(script);
  for (const absl::Status& status : Check(*first_run)) EXPECT_TRUE(status.ok());
  const ArtifactKey key = entries_[1].key;
  std::filesystem::remove_all(cache_->entries().layers()[0].EntryFolder(key));
  entries_[1] =
      CommitArtifact(*cache_, key, {{"model.so", "other code"}}).value();
  // By this daemon, and by the next.
  const auto next = Script(script);
  for (FirstRun* one : {first_run.get(), next.get()}) {
    const std::vector<absl::Status> results = Check(*one);
    EXPECT_TRUE(results[0].ok());
    EXPECT_EQ(results[1].code(), absl::StatusCode::kInternal);
    EXPECT_TRUE(results[2].ok());
  }
}

TEST_F(FirstRunTest, OneThatEndsTheChildIsNotTheOthersFault) {
  // The first child dies of the second one; the next child tries the third.
  const auto first_run = Script(
      "shift; if [ $# = 3 ]; then echo >&3; kill -ILL $$; fi; "
      "for f; do echo >&3; done");
  const std::vector<absl::Status> results = Check(*first_run);
  EXPECT_TRUE(results[0].ok());
  EXPECT_EQ(results[1].code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(results[1].message()),
              HasSubstr("killed by signal 4"));
  EXPECT_TRUE(results[2].ok());
}

TEST_F(FirstRunTest, WithoutAChildNothingIsKnown) {
  FirstRun first_run({.argv = {"/no/such/program"}, .machine = "here"},
                     cache_->facts());
  for (const absl::Status& status : Check(first_run)) EXPECT_TRUE(status.ok());
}

TEST_F(FirstRunTest, OneThatHangsEndsWhenItIsStopped) {
  const auto first_run =
      Script("echo >&3; echo > " + begun_ + "; exec sleep 600");
  std::stop_source stop;
  auto checked = std::async(
      std::launch::async, [&] { return Check(*first_run, stop.get_token()); });
  AwaitChild();
  stop.request_stop();
  const std::vector<absl::Status> results = checked.get();
  EXPECT_TRUE(results[0].ok());  // it had survived by then
  EXPECT_TRUE(absl::IsCancelled(results[1]));
  EXPECT_TRUE(absl::IsCancelled(results[2]));
}

TEST_F(FirstRunTest, WhoIsStoppedDoesNotWaitForItsTurn) {
  const auto first_run = Script("echo > " + begun_ + "; exec sleep 600");
  std::stop_source one;
  auto running = std::async(std::launch::async,
                            [&] { return Check(*first_run, one.get_token()); });
  AwaitChild();
  std::stop_source another;
  auto waiting = std::async(std::launch::async, [&] {
    return Check(*first_run, another.get_token());
  });
  another.request_stop();
  EXPECT_TRUE(absl::IsCancelled(waiting.get()[0]));
  one.request_stop();
  EXPECT_TRUE(absl::IsCancelled(running.get()[0]));
}

}  // namespace
}  // namespace stoker
