// What communicate_test.cc leaves out: several turns with one child, and what
// else may end the waiting.
#include "base/process_pipes.h"

#include <unistd.h>

#include <csignal>
#include <memory>
#include <string>

#include "gtest/gtest.h"

namespace stoker {
namespace {

class ProcessPipesTest : public testing::Test {
 protected:
  ProcessPipesTest() { signal(SIGPIPE, SIG_IGN); }

  void Start(const std::string& script) {
    auto child = Subprocess::Start({.argv = {"/bin/sh", "-c", script}});
    ASSERT_TRUE(child.ok()) << child.status();
    child_ = *std::move(child);
    pipes_ = std::make_unique<ProcessPipes>(
        *child_, [this](std::string_view piece) { reply_ += piece; },
        [this](std::string_view piece) { log_ += piece; });
  }
  // Until the child has said `text`.
  void AwaitReply(const std::string& text) {
    while (reply_ != text) ASSERT_TRUE(pipes_->Serve(absl::Minutes(1)));
  }

  std::unique_ptr<Subprocess> child_;
  std::unique_ptr<ProcessPipes> pipes_;
  std::string reply_;
  std::string log_;
};

TEST_F(ProcessPipesTest, TalksInTurns) {
  Start("while read line; do echo \"<$line>\" >&3; done; echo bye");
  pipes_->Give("one\n");
  AwaitReply("<one>\n");
  pipes_->Give("tw");
  pipes_->Give("o\n");
  AwaitReply("<one>\n<two>\n");
  pipes_->EndInput();
  pipes_->Give("lost\n");
  while (pipes_->reply_open() || pipes_->log_open()) {
    ASSERT_TRUE(pipes_->Serve(absl::Minutes(1)));
  }
  EXPECT_EQ(log_, "bye\n");
}

TEST_F(ProcessPipesTest, InputEndsOnceItIsTaken) {
  const std::string large(1 << 20, 'x');
  Start("wc -c >&3");
  pipes_->Give(large);
  pipes_->EndInput();
  AwaitReply("1048576\n");
}

TEST_F(ProcessPipesTest, AnotherDescriptorEndsTheWaiting) {
  Start("read line");
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  pollfd also[] = {{ends[0], POLLIN, 0}, {-1, POLLIN, 0}};
  EXPECT_FALSE(pipes_->Serve(absl::Milliseconds(1), also));
  EXPECT_EQ(also[0].revents, 0);
  ASSERT_EQ(write(ends[1], "x", 1), 1);
  EXPECT_TRUE(pipes_->Serve(absl::InfiniteDuration(), also));
  EXPECT_EQ(also[0].revents, POLLIN);
  EXPECT_EQ(also[1].revents, 0);
  close(ends[0]);
  close(ends[1]);
}

TEST_F(ProcessPipesTest, AFloodDoesNotHoldUpTheCaller) {
  Start("yes >&3");
  ASSERT_TRUE(pipes_->Serve(absl::Minutes(1)));
  EXPECT_LE(reply_.size(), size_t{1} << 20);
  EXPECT_TRUE(pipes_->reply_open());
}

}  // namespace
}  // namespace stoker
