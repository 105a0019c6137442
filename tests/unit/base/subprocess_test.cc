#include "base/subprocess.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/thread.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fakes/temp_folder.h"

namespace stoker {
namespace {

using ::testing::HasSubstr;

std::string ReadToEnd(int fd) {
  std::string text;
  std::array<char, 256> chunk;
  ssize_t got;
  while ((got = read(fd, chunk.data(), chunk.size())) > 0) {
    text.append(chunk.data(), static_cast<size_t>(got));
  }
  return text;
}

std::unique_ptr<Subprocess> Shell(const std::string& script) {
  auto process = Subprocess::Start({.argv = {"/bin/sh", "-c", script}});
  EXPECT_TRUE(process.ok()) << process.status();
  return *std::move(process);
}

// Whether a process of that id lives; a zombie counts as living.
bool Lives(pid_t pid) { return kill(pid, 0) == 0; }

TEST(SubprocessTest, ReportsHowTheChildEnded) {
  EXPECT_EQ(Shell("exit 0")->Wait(), "exit status 0");
  EXPECT_EQ(Shell("exit 3")->Wait(), "exit status 3");
  EXPECT_EQ(Shell("kill -9 $$")->Wait(), "killed by signal 9 (Killed)");
  auto process = Shell("exit 4");
  EXPECT_EQ(process->Wait(), "exit status 4");
  EXPECT_EQ(process->Wait(), "exit status 4");
}

TEST(SubprocessTest, PipesGoWhereTheyShould) {
  auto process =
      Shell("read line; echo reply $line >&3; echo out; echo err >&2");
  ASSERT_EQ(write(process->stdin_fd(), "hello\n", 6), 6);
  EXPECT_EQ(ReadToEnd(process->reply_fd()), "reply hello\n");
  EXPECT_EQ(ReadToEnd(process->stderr_fd()), "out\nerr\n");
  EXPECT_EQ(process->Wait(), "exit status 0");
}

TEST(SubprocessTest, ReplyPipeGetsTheNumberThatWasAskedFor) {
  auto process = Subprocess::Start(
      {.argv = {"/bin/sh", "-c", "echo nine >&9"}, .reply_fd = 9});
  ASSERT_TRUE(process.ok()) << process.status();
  EXPECT_EQ(ReadToEnd((*process)->reply_fd()), "nine\n");
}

TEST(SubprocessTest, ClosingStdinEndsAPoliteChild) {
  auto process = Shell("cat >/dev/null; exit 7");
  process->CloseStdin();
  EXPECT_EQ(process->stdin_fd(), -1);
  EXPECT_EQ(process->Wait(), "exit status 7");
}

TEST(SubprocessTest, EnvironmentIsInheritedAndReplaced) {
  setenv("STOKER_TEST_KEPT", "kept", 1);
  setenv("STOKER_TEST_REPLACED", "old", 1);
  auto process = Subprocess::Start(
      {.argv = {"/bin/sh", "-c",
                "echo $STOKER_TEST_KEPT $STOKER_TEST_REPLACED $STOKER_TEST_NEW"
                " >&3"},
       .env = {{"STOKER_TEST_REPLACED", "new"}, {"STOKER_TEST_NEW", "a=b"}}});
  ASSERT_TRUE(process.ok()) << process.status();
  EXPECT_EQ(ReadToEnd((*process)->reply_fd()), "kept new a=b\n");
}

TEST(SubprocessTest, OnlyWhatIsNamedIsInherited) {
  setenv("STOKER_TEST_KEPT", "kept", 1);
  setenv("STOKER_TEST_OTHER", "other", 1);
  auto process = Subprocess::Start(
      {.argv = {"/usr/bin/env"},
       .inherit = std::vector<std::string>{"STOKER_TEST_KEPT", "STOKER_NONE"},
       .env = {{"STOKER_TEST_NEW", "new"}}});
  ASSERT_TRUE(process.ok()) << process.status();
  EXPECT_EQ(ReadToEnd((*process)->stderr_fd()),
            "STOKER_TEST_KEPT=kept\nSTOKER_TEST_NEW=new\n");
}

TEST(SubprocessTest, RunsInTheWorkingFolder) {
  TempFolder folder;
  auto process = Subprocess::Start({.argv = {"/bin/sh", "-c", "pwd -P >&3"},
                                    .working_folder = folder.path()});
  ASSERT_TRUE(process.ok()) << process.status();
  EXPECT_EQ(ReadToEnd((*process)->reply_fd()),
            std::filesystem::canonical(folder.path()).string() + "\n");
}

TEST(SubprocessTest, InheritsNoOtherDescriptor) {
  // Without O_CLOEXEC, as a careless library opens them.
  const int low = open("/dev/null", O_RDONLY);
  const int high = fcntl(low, F_DUPFD, 500);
  ASSERT_GE(high, 500);
  auto process = Shell("exec ls /proc/self/fd >&3");
  // The last one is the folder that ls reads.
  EXPECT_EQ(ReadToEnd(process->reply_fd()), "0\n1\n2\n3\n4\n");
  close(low);
  close(high);
}

TEST(SubprocessTest, SignalsAreTheDefaults) {
  const auto before = std::signal(SIGPIPE, SIG_IGN);
  sigset_t blocked, old;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGUSR1);
  pthread_sigmask(SIG_BLOCK, &blocked, &old);
  auto process = Shell("grep -E 'Sig(Blk|Ign)' /proc/self/status >&3");
  const std::string signals = ReadToEnd(process->reply_fd());
  pthread_sigmask(SIG_SETMASK, &old, nullptr);
  std::signal(SIGPIPE, before);
  EXPECT_EQ(signals, "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n");
}

TEST(SubprocessTest, FindsProgramsInPath) {
  auto process = Subprocess::Start({.argv = {"sh", "-c", "exit 5"}});
  ASSERT_TRUE(process.ok()) << process.status();
  EXPECT_EQ((*process)->Wait(), "exit status 5");
}

TEST(SubprocessTest, StartErrors) {
  TempFolder folder;
  std::ofstream(folder / "not_executable") << "#!/bin/sh\n";
  const auto start = [](Subprocess::Options options) {
    return Subprocess::Start(options).status();
  };
  EXPECT_EQ(start({}).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(start({.argv = {"sh"}, .reply_fd = 2}).code(),
            absl::StatusCode::kInvalidArgument);
  const absl::Status missing = start({.argv = {"stoker-no-such-program"}});
  EXPECT_EQ(missing.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(missing.message()),
              HasSubstr("stoker-no-such-program"));
  EXPECT_EQ(start({.argv = {folder / "none"}}).code(),
            absl::StatusCode::kNotFound);
  EXPECT_EQ(start({.argv = {folder / "not_executable"}}).code(),
            absl::StatusCode::kNotFound);
  EXPECT_EQ(start({.argv = {folder.path()}}).code(),
            absl::StatusCode::kNotFound);
  const absl::Status bad_folder =
      start({.argv = {"sh"}, .working_folder = folder / "none"});
  EXPECT_EQ(bad_folder.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(bad_folder.message()), HasSubstr(folder / "none"));
}

TEST(SubprocessTest, AFileThatExecRefusesIsAnError) {
  TempFolder folder;
  std::ofstream(folder / "garbage") << "\x7f"
                                    << "ELF, but no more of it";
  std::filesystem::permissions(folder / "garbage",
                               std::filesystem::perms::owner_all);
  const absl::Status refused =
      Subprocess::Start({.argv = {folder / "garbage"}}).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("garbage"));
}

TEST(SubprocessTest, KillEndsTheWholeGroup) {
  auto process = Shell("tail -f /dev/null 3>&- & echo $! >&3; exec 3>&-; wait");
  const pid_t grandchild = std::stoi(ReadToEnd(process->reply_fd()));
  ASSERT_TRUE(Lives(grandchild));
  process->Kill();
  process->Kill();
  EXPECT_EQ(process->Wait(), "killed by signal 9 (Killed)");
  process->Kill();
  // The pipe that the grandchild had inherited ends when it is dead.
  EXPECT_EQ(ReadToEnd(process->stderr_fd()), "");
}

TEST(SubprocessTest, WaitKillsWhatTheChildLeftBehind) {
  auto process = Shell("tail -f /dev/null & exit 0");
  EXPECT_EQ(process->Wait(), "exit status 0");
  EXPECT_EQ(ReadToEnd(process->stderr_fd()), "");
}

TEST(SubprocessTest, KillFromAnotherThreadEndsWait) {
  auto process = Shell("echo ready >&3; tail -f /dev/null");
  Thread killer("killer", [&] {
    std::array<char, 8> chunk;
    EXPECT_EQ(read(process->reply_fd(), chunk.data(), 6), 6);
    process->Kill();
  });
  EXPECT_EQ(process->Wait(), "killed by signal 9 (Killed)");
}

TEST(SubprocessTest, DestructorKillsAndReaps) {
  auto process = Shell("tail -f /dev/null");
  const pid_t pid = process->pid();
  ASSERT_TRUE(Lives(pid));
  process.reset();
  EXPECT_FALSE(Lives(pid));
}

// The child dies with its parent even when that one is killed and runs no code.
TEST(SubprocessTest, ChildDiesWithItsParent) {
  int pids[2];
  ASSERT_EQ(pipe(pids), 0);
  const pid_t parent = fork();
  ASSERT_GE(parent, 0);
  if (parent == 0) {
    auto process = Subprocess::Start(
        {.argv = {"/bin/sh", "-c", "echo ready >&3; tail -f /dev/null"}});
    std::array<char, 8> chunk;
    if (!process.ok() || read((*process)->reply_fd(), chunk.data(), 6) != 6) {
      _exit(1);
    }
    const pid_t pid = (*process)->pid();
    if (write(pids[1], &pid, sizeof(pid)) != sizeof(pid)) _exit(1);
    pause();
    _exit(0);
  }
  pid_t grandchild = 0;
  ASSERT_EQ(read(pids[0], &grandchild, sizeof(grandchild)),
            static_cast<ssize_t>(sizeof(grandchild)));
  ASSERT_TRUE(Lives(grandchild));
  kill(parent, SIGKILL);
  ASSERT_EQ(waitpid(parent, nullptr, 0), parent);
  // Its reaper, whoever that is, needs a moment; the test's time limit bounds
  // this.
  const auto is_gone = [grandchild] {
    std::ifstream stat("/proc/" + std::to_string(grandchild) + "/stat");
    const std::string text((std::istreambuf_iterator<char>(stat)), {});
    return text.empty() || text.find(") Z ") != std::string::npos ||
           text.find(") X ") != std::string::npos;
  };
  while (!is_gone()) sched_yield();
  close(pids[0]);
  close(pids[1]);
}

// Whether a process of that id is dead and waits to be reaped.
bool IsDead(pid_t pid) {
  siginfo_t info = {};
  return waitid(P_PID, static_cast<id_t>(pid), &info,
                WEXITED | WNOHANG | WNOWAIT) == 0 &&
         info.si_pid == pid;
}

TEST(SubprocessTest, ReapsOrphansAndNobodyElse) {
  // What process 1 is to a container.
  ASSERT_EQ(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
  // Dead, and waited for later.
  auto ours = Shell("exit 3");
  while (!IsDead(ours->pid())) sched_yield();
  auto parent = Shell("tail -f /dev/null 3>&- & echo $! >&3; exec 3>&-");
  const pid_t orphan = std::stoi(ReadToEnd(parent->reply_fd()));
  EXPECT_EQ(parent->Wait(), "exit status 0");  // and kills the orphan
  while (!IsDead(orphan)) sched_yield();
  Subprocess::ReapOrphans();
  EXPECT_EQ(ours->Wait(), "exit status 3");
  Subprocess::ReapOrphans();
  EXPECT_FALSE(Lives(orphan));
  ASSERT_EQ(prctl(PR_SET_CHILD_SUBREAPER, 0), 0);
}

TEST(SubprocessTest, ManyAtOnceFromManyThreads) {
  std::vector<Thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back("starter", [] {
      for (int i = 0; i < 10; ++i) {
        EXPECT_GT(Shell("cat; exit 2")->pid(), 0);
        auto process = Shell("cat >&3");
        ASSERT_EQ(write(process->stdin_fd(), "x", 1), 1);
        // Ends only if no other child has inherited this pipe.
        process->CloseStdin();
        EXPECT_EQ(ReadToEnd(process->reply_fd()), "x");
        EXPECT_EQ(process->Wait(), "exit status 0");
      }
    });
  }
}

}  // namespace
}  // namespace stoker
