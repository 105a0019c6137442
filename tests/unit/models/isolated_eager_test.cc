// Its processes are shell scripts here; tests/integration has real ones.
#include "models/isolated_eager.h"

#include <csignal>
#include <memory>
#include <string>
#include <vector>

#include "base/files.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensor/run_message.h"
#include "tests/fakes/fake_executable.h"
#include "tests/fakes/temp_folder.h"
#include "tests/fakes/tensors.h"

namespace stoker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr MetricDef kLost{"lost", MetricKind::kCounter, "", "Runs lost."};

class IsolatedEagerTest : public ::testing::Test {
 protected:
  IsolatedEagerTest() { signal(SIGPIPE, SIG_IGN); }

  // The script's $0 is this folder.
  std::unique_ptr<IsolatedEager> Script(
      const std::string& script, absl::Duration limit = absl::Minutes(1)) {
    return std::make_unique<IsolatedEager>(
        IsolatedEager::Options{.argv = {"/bin/sh", "-c", script},
                               .time_limit = limit},
        folder_.path(), Clock::Real(), metrics_.Counter(kLost));
  }
  // What a script says in its reply, as a file in the folder.
  void Write(const std::string& name, const std::string& reply) {
    ASSERT_TRUE(Files::Real()
                    .Write(folder_ / name, EncodeLength(reply.size()) + reply)
                    .ok());
  }
  absl::StatusOr<RunResult> Run(IsolatedEager& eager) {
    return eager.Run(context_,
                     {MakeTensor<float>(DataType::kFp32, {1}, {1.0F})});
  }

  const TempFolder folder_{TempFolder::Where::kMemory};
  MetricRegistry metrics_;
  FakeExecutionContext context_;
};

TEST_F(IsolatedEagerTest, AnswersAndRefusals) {
  Write("answer", EncodeReply(std::vector<Tensor>{
                      MakeTensor<float>(DataType::kFp32, {1}, {3.0F})}));
  Write("refusal", EncodeReply(absl::InvalidArgumentError("too large")));
  const auto eager =
      Script("cat $0/answer >&3; cat $0/refusal >&3; cat $0/answer >&3; cat");
  const auto answered = Run(*eager);
  ASSERT_TRUE(answered.ok()) << answered.status();
  EXPECT_THAT(ValuesOf<float>(answered->outputs.at(0)), ElementsAre(3.0F));
  EXPECT_EQ(metrics_.Read().Sum("lost"), 0);
}

TEST_F(IsolatedEagerTest, ARunThatEndedItsChildIsLost) {
  Write("lost", EncodeReply(absl::AbortedError("killed by signal 11")));
  const auto eager = Script("cat $0/lost >&3; cat");
  const absl::Status status = Run(*eager).status();
  EXPECT_TRUE(absl::IsInternal(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("ended the process that it had to itself: killed by "
                        "signal 11"));
  EXPECT_EQ(metrics_.Read().Sum("lost"), 1);
}

TEST_F(IsolatedEagerTest, OneThatWasKilledMayHaveLackedMemory) {
  Write("lost", EncodeReply(absl::AbortedError("killed by signal 9 (Killed)")));
  const auto eager = Script("cat $0/lost >&3; cat");
  EXPECT_TRUE(absl::IsResourceExhausted(Run(*eager).status()));
}

TEST_F(IsolatedEagerTest, AProcessThatIsGoneIsReplaced) {
  Write("answer", EncodeReply(std::vector<Tensor>{
                      MakeTensor<float>(DataType::kFp32, {1}, {3.0F})}));
  const auto eager = Script(
      "test -e $0/second || { : >$0/second; exit 3; }; cat $0/answer >&3; "
      "read -r line");
  EXPECT_TRUE(Run(*eager).ok());
  EXPECT_EQ(metrics_.Read().Sum("lost"), 0);
}

TEST_F(IsolatedEagerTest, OneThatNeverLivesIsSaidToBe) {
  const auto eager = Script("echo it lacks a library; exit 3");
  const absl::Status status = Run(*eager).status();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("exit status 3: it lacks a library"));
}

TEST_F(IsolatedEagerTest, ARunThatTakesTooLongIsEnded) {
  const auto eager = Script("cat >/dev/null", absl::Milliseconds(20));
  const absl::Status status = Run(*eager).status();
  EXPECT_TRUE(absl::IsInternal(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("longer than 20ms"));
  EXPECT_EQ(metrics_.Read().Sum("lost"), 1);
}

TEST_F(IsolatedEagerTest, WhatIsNoReplyIsAnError) {
  Write("garbage", std::string(1, '\0') + "{}");
  EXPECT_TRUE(
      absl::IsInternal(Run(*Script("cat $0/garbage >&3; cat")).status()));
  // A length that nobody has the memory for.
  const auto huge = Script("printf '\\377%.0s' 1 2 3 4 5 6 7 8 >&3; cat");
  EXPECT_THAT(std::string(Run(*huge).status().message()),
              HasSubstr("answered too much"));
}

TEST_F(IsolatedEagerTest, WithoutAProcessNothingRuns) {
  IsolatedEager eager({.argv = {"/no/such/file"}}, "model.pt2", Clock::Real(),
                      metrics_.Counter(kLost));
  EXPECT_TRUE(absl::IsUnavailable(Run(eager).status()));
  EXPECT_FALSE(eager.KeepsToContext());
  EXPECT_EQ(eager.tier(), "eager");
}

}  // namespace
}  // namespace stoker
