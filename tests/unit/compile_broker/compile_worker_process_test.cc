#include "compile_broker/compile_worker_process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace stoker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A shell as the worker, and all it says.
class CompileWorkerProcessTest : public testing::Test {
 protected:
  void Start(const std::string& script) {
    Subprocess::Options options;
    options.argv = {"/bin/sh", "-c", script};
    CompileWorkerProcess::Callbacks callbacks;
    callbacks.on_reply = [this](std::string line) {
      absl::MutexLock lock(&mu_);
      replies_.push_back(std::move(line));
    };
    callbacks.on_end = [this](std::string how) {
      absl::MutexLock lock(&mu_);
      ASSERT_FALSE(end_.has_value());
      end_ = std::move(how);
    };
    auto worker = CompileWorkerProcess::Start(options, std::move(callbacks));
    ASSERT_TRUE(worker.ok()) << worker.status();
    worker_ = *std::move(worker);
  }

  std::string End() {
    absl::MutexLock lock(&mu_);
    const auto ended = [this]() ABSL_SHARED_LOCKS_REQUIRED(mu_) {
      return end_.has_value();
    };
    mu_.AwaitWithTimeout(absl::Condition(&ended), absl::Seconds(30));
    return end_.value_or("it did not end");
  }

  std::vector<std::string> Replies(size_t count) {
    absl::MutexLock lock(&mu_);
    const auto enough = [this, count]() ABSL_SHARED_LOCKS_REQUIRED(mu_) {
      return replies_.size() >= count;
    };
    mu_.AwaitWithTimeout(absl::Condition(&enough), absl::Seconds(30));
    return replies_;
  }

  std::unique_ptr<CompileWorkerProcess> worker_;
  absl::Mutex mu_;
  std::vector<std::string> replies_ ABSL_GUARDED_BY(mu_);
  std::optional<std::string> end_ ABSL_GUARDED_BY(mu_);
};

TEST_F(CompileWorkerProcessTest, LinesGoInAndRepliesComeBack) {
  Start("while read line; do echo \"got $line\" >&3; done");
  worker_->Send("one\n");
  worker_->Send("two\nthree\n");
  EXPECT_THAT(Replies(3), ElementsAre("got one", "got two", "got three"));
}

TEST_F(CompileWorkerProcessTest, RepliesInPiecesAreOneLine) {
  Start("printf 'a' >&3; printf 'b\\nc' >&3; printf '\\n\\n' >&3; read x");
  EXPECT_THAT(Replies(3), ElementsAre("ab", "c", ""));
}

TEST_F(CompileWorkerProcessTest, WhatWasWrittenBeforeTheEndArrives) {
  Start("echo words >&2; echo last >&3; exit 3");
  EXPECT_EQ(End(), "exit status 3");
  EXPECT_THAT(Replies(1), ElementsAre("last"));
  EXPECT_EQ(worker_->LastWords(100), "words");
}

TEST_F(CompileWorkerProcessTest, ASignalIsNamed) {
  Start("kill -9 $$");
  EXPECT_THAT(End(), HasSubstr("killed by signal 9"));
}

TEST_F(CompileWorkerProcessTest, SendingToADeadWorkerDoesNoHarm) {
  Start("exit 0");
  End();
  for (int i = 0; i < 100; ++i) worker_->Send("hello\n");
}

TEST_F(CompileWorkerProcessTest, SendingMoreThanThePipeHoldsDoesNotBlock) {
  Start("read first; read gate; echo $first | wc -c >&3; read x");
  worker_->Send(absl::StrCat(std::string(1 << 20, 'x'), "\n"));
  worker_->Send("go\n");
  const std::vector<std::string> replies = Replies(1);
  ASSERT_EQ(replies.size(), 1u);
  EXPECT_EQ(std::stoi(replies[0]), (1 << 20) + 1);
}

TEST_F(CompileWorkerProcessTest, AChildThatKeepsThePipesOpenHidesNoEnd) {
  Start("setsid sh -c 'exec sleep 5' & exit 4");
  EXPECT_EQ(End(), "exit status 4");
}

TEST_F(CompileWorkerProcessTest, AWorkerWithoutItsReplyPipeIsEnded) {
  Start("exec 3>&-; read x");
  EXPECT_THAT(End(), HasSubstr("closed its reply pipe; killed by signal 9"));
}

TEST_F(CompileWorkerProcessTest, AFloodWithoutNewlineEndsTheWorker) {
  Start("yes | tr -d '\\n' >&3");
  EXPECT_THAT(End(), HasSubstr("without a newline; killed by signal 9"));
  EXPECT_THAT(Replies(0), IsEmpty());
}

TEST_F(CompileWorkerProcessTest, AFloodOfLogDoesNotHoldUpReplies) {
  Start("yes 'a chatty compiler' >&2 & echo reply >&3; read x");
  EXPECT_THAT(Replies(1), ElementsAre("reply"));
  EXPECT_LE(worker_->LastWords(1 << 20).size(), LogTail::kMaxBytes);
}

TEST_F(CompileWorkerProcessTest, APoliteWorkerEndsItsChildrenFirst) {
  Start("echo $$ >&3; cat; echo bye >&2");
  const std::vector<std::string> replies = Replies(1);
  ASSERT_EQ(replies.size(), 1u);
  worker_.reset();
  EXPECT_EQ(kill(std::stoi(replies[0]), 0), -1);
  absl::MutexLock lock(&mu_);
  EXPECT_EQ(end_, std::nullopt) << "nobody is told of an end they asked for";
}

TEST_F(CompileWorkerProcessTest, AStubbornWorkerIsKilled) {
  Start("echo $$ >&3; exec tail -f /dev/null");
  const std::vector<std::string> replies = Replies(1);
  ASSERT_EQ(replies.size(), 1u);
  worker_.reset();
  EXPECT_EQ(kill(std::stoi(replies[0]), 0), -1);
}

TEST(CompileWorkerProcessStartTest, AMissingProgramIsNotFound) {
  Subprocess::Options options;
  options.argv = {"/nonexistent/python3"};
  EXPECT_EQ(CompileWorkerProcess::Start(options, {}).status().code(),
            absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace stoker
