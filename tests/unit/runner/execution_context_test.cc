// A context's number of threads is its own, whatever contexts come after it;
// while its thread is idle, the others use no processor time.
#include "runner/execution_context.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <set>
#include <string>
#include <thread>

#include "absl/synchronization/notification.h"
#include "base/free_cores.h"
#include "base/thread.h"
#include "tests/fakes/fake_clock.h"

namespace stoker {
namespace {

// at::get_num_threads is what torch asks before a parallel region, with the
// same effect on a thread's first one.
TEST(ExecutionContextTest, SetsTheThreadsOfItsThread) {
  for (const int threads : {1, 2, 3}) {
    int used = 0;
    Thread("context", [&]() {
      const auto context = ExecutionContext::CreateCpu(threads);
      EXPECT_EQ(context->threads(), threads);
      used = at::get_num_threads();
    }).Join();
    EXPECT_EQ(used, threads);
  }
}

TEST(ExecutionContextTest, ALaterContextElsewhereChangesNothing) {
  absl::Notification first_made, second_made;
  int used = 0;
  Thread first("first", [&]() {
    const auto context = ExecutionContext::CreateCpu(3);
    first_made.Notify();
    second_made.WaitForNotification();
    used = at::get_num_threads();
  });
  Thread second("second", [&]() {
    first_made.WaitForNotification();
    const auto context = ExecutionContext::CreateCpu(1);
    EXPECT_EQ(at::get_num_threads(), 1);
    second_made.Notify();
  });
  first.Join();
  second.Join();
  EXPECT_EQ(used, 3);
}

// Fresh memory, that of intermediate results included, is NaN or -1; what was
// there before, and what other threads are given, stays as it is.
TEST(ExecutionContextTest, PoisonsTheMemoryOfOneThreadsRun) {
  constexpr int64_t kElements = 1000;
  const auto context = ExecutionContext::CreateCpu(1);
  const at::Tensor before = at::ones({kElements});
  at::Tensor floats, integers, halves, zeros, elsewhere;
  context->WithPoisonedMemory([&] {
    // The memory of an answer that has just been let go.
    at::full({kElements}, 7.0F).reset();
    floats = at::empty({kElements});
    integers = at::empty({kElements}, at::kLong);
    halves = at::empty({kElements}, at::kBFloat16);
    zeros = at::zeros({kElements});
    Thread("elsewhere", [&] { elsewhere = at::empty({1 << 20}); }).Join();
  });
  EXPECT_TRUE(floats.isnan().all().item<bool>());
  EXPECT_TRUE(integers.eq(-1).all().item<bool>());
  EXPECT_TRUE(halves.isnan().all().item<bool>());
  EXPECT_TRUE(zeros.eq(0).all().item<bool>());
  EXPECT_TRUE(before.eq(1).all().item<bool>());
  EXPECT_FALSE(elsewhere.isnan().any().item<bool>());
  // Of a size that the system maps anew, and that is therefore zero.
  EXPECT_FALSE(at::empty({1 << 24}).isnan().any().item<bool>());
}

// ATen's loops, OpenMP's and MKL's products: whatever a run calls.
TEST(ExecutionContextTest, ARunTakesThreadsThatHaveACore) {
  FakeClock clock;
  std::atomic<double> to_be_had = 0;
  const auto read = [&]() -> std::optional<CpuTimes> {
    return CpuTimes{.cpus = {0, 1, 2}, .to_be_had = to_be_had.load()};
  };
  FreeCores cores(
      3, read, [] { return 3.0; }, clock);
  const auto pass = [&](double free) {
    for (int i = 0; i < FreeCores::kReadings; ++i) {
      clock.BlockUntilWaiters(1);
      to_be_had.store(to_be_had.load() +
                      free * absl::ToDoubleSeconds(FreeCores::kPeriod));
      clock.Advance(FreeCores::kPeriod);
    }
    clock.BlockUntilWaiters(1);
  };
  Thread("context", [&]() {
    const auto context = ExecutionContext::CreateCpu(3, &cores);
    const at::Tensor ones = at::ones({200, 300});
    const auto run = [&](int expected) {
      context->BeginRun();
      EXPECT_EQ(context->threads(), expected);
      EXPECT_EQ(at::get_num_threads(), expected);
      EXPECT_TRUE(
          at::allclose(at::mm(ones, ones.t()), at::full({200, 200}, 300.0)));
    };
    run(3);
    EXPECT_EQ(context->fewest_threads(), 1);
    context->WithFewestThreads([&] { run(1); });
    run(3);
    pass(1);
    run(1);
    pass(2);
    run(2);
    pass(3);
    run(3);
  }).Join();
}

struct ThreadState {
  char state = '?';
  uint64_t cpu_nanoseconds = 0;
};

ThreadState StateOf(const std::string& thread) {
  ThreadState state;
  std::ifstream stat("/proc/self/task/" + thread + "/stat");
  std::string line;
  std::getline(stat, line);
  state.state = line[line.rfind(')') + 2];
  std::ifstream schedule("/proc/self/task/" + thread + "/schedstat");
  schedule >> state.cpu_nanoseconds;
  return state;
}

std::set<std::string> Threads() {
  std::set<std::string> threads;
  for (const auto& entry :
       std::filesystem::directory_iterator("/proc/self/task")) {
    threads.insert(entry.path().filename());
  }
  return threads;
}

TEST(ExecutionContextTest, WhileItIdlesTheOtherThreadsSleep) {
  Thread("context", [] {
    const auto context = ExecutionContext::CreateCpu(2);
    const std::set<std::string> before = Threads();
    context->Idle([] {});  // begins the other thread, which then spins
    std::string other;
    for (const std::string& thread : Threads()) {
      if (before.count(thread) == 0) other = thread;
    }
    ASSERT_FALSE(other.empty());

    const uint64_t start = StateOf(other).cpu_nanoseconds;
    uint64_t used = 0;
    context->Idle([&] {
      ThreadState state = StateOf(other);
      while (state.state != 'S') {
        std::this_thread::yield();
        state = StateOf(other);
      }
      used = state.cpu_nanoseconds - start;
    });
    // Left to itself it spins for 3 ms and more.
    EXPECT_LT(used, 1'500'000u);
  }).Join();
}

TEST(ExecutionContextTest, RunsGoOnAfterAnIdleTime) {
  Thread("context", [] {
    const auto context = ExecutionContext::CreateCpu(3);
    const at::Tensor numbers = at::arange(200'000, at::kDouble);
    for (int i = 0; i < 20; ++i) {
      int waits = 0;
      context->Idle([&] { ++waits; });
      EXPECT_EQ(waits, 1);
      EXPECT_EQ(numbers.sum().item<double>(), 199'999.0 * 100'000);
      EXPECT_EQ(at::get_num_threads(), 3);
    }
  }).Join();
}

}  // namespace
}  // namespace stoker
