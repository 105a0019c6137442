// Real child processes: every byte both ways, and no pipe that is full for
// good.
#include "base/communicate.h"

#include <unistd.h>

#include <csignal>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace stoker {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::SizeIs;

class CommunicateTest : public ::testing::Test {
 protected:
  CommunicateTest() { signal(SIGPIPE, SIG_IGN); }

  static Conversation With(const std::string& script, std::string_view input,
                           absl::Duration silence = absl::Minutes(1)) {
    auto child = Subprocess::Start({.argv = {"/bin/sh", "-c", script}});
    EXPECT_TRUE(child.ok()) << child.status();
    return Communicate(**child, input, silence);
  }
};

TEST_F(CommunicateTest, GivesTheInputAndTakesTheReply) {
  const Conversation heard =
      With("cat >&3; echo one; echo two >&2; exit 5", "question");
  EXPECT_EQ(heard.reply, "question");
  EXPECT_EQ(heard.log, "one\ntwo\n");
  EXPECT_EQ(heard.end, "exit status 5");
}

TEST_F(CommunicateTest, MoreThanAPipeHoldsInEveryDirection) {
  const std::string large(1 << 20, 'x');
  const Conversation heard = With("tee /dev/fd/3 >/dev/fd/2", large);
  EXPECT_EQ(heard.reply, large);
  EXPECT_GE(heard.log.size(), size_t{64} << 10);
  EXPECT_LE(heard.log.size(), size_t{256} << 10);
}

TEST_F(CommunicateTest, TellsOfTheReplyAsItComes) {
  // The second word is only sent once the first was heard.
  int to_child[2];
  ASSERT_EQ(pipe(to_child), 0);
  const std::string gate =
      absl::StrCat("/proc/", getpid(), "/fd/", to_child[0]);
  auto child =
      Subprocess::Start({.argv = {"/bin/sh", "-c",
                                  absl::StrCat("printf one >&3; read line <",
                                               gate, "; printf two >&3")}});
  ASSERT_TRUE(child.ok()) << child.status();
  std::vector<std::string> pieces;
  const Conversation heard =
      Communicate(**child, "", absl::Minutes(1), [&](std::string_view piece) {
        if (pieces.empty()) {
          EXPECT_EQ(write(to_child[1], "go\n", 3), 3);
        }
        pieces.emplace_back(piece);
      });
  EXPECT_THAT(pieces, ElementsAre("one", "two"));
  EXPECT_EQ(heard.reply, "onetwo");
  close(to_child[0]);
  close(to_child[1]);
}

TEST_F(CommunicateTest, AChildThatDoesNotReadIsNoError) {
  const std::string large(1 << 20, 'x');
  const Conversation heard = With("exec <&-; printf yes >&3", large);
  EXPECT_EQ(heard.reply, "yes");
  EXPECT_EQ(heard.end, "exit status 0");
}

TEST_F(CommunicateTest, ASilentChildIsKilled) {
  const Conversation heard =
      With("printf half >&3; sleep 1000", "", absl::Milliseconds(200));
  EXPECT_EQ(heard.reply, "half");
  EXPECT_EQ(heard.end, "was silent for 200ms");
}

}  // namespace
}  // namespace stoker
