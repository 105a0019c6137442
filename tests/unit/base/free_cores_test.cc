#include "base/free_cores.h"

#include <gtest/gtest.h>

#include <fstream>
#include <limits>

#include "base/cpus.h"
#include "tests/fakes/fake_clock.h"
#include "tests/fakes/temp_folder.h"

namespace stoker {
namespace {

constexpr double kNoQuota = std::numeric_limits<double>::infinity();

// A machine of four cores, where others and this process use what a test says.
class FreeCoresTest : public ::testing::Test {
 protected:
  std::optional<CpuTimes> Read() {
    const absl::MutexLock lock(&mu_);
    return times_;
  }
  double Quota() {
    const absl::MutexLock lock(&mu_);
    return quota_;
  }
  // For so many periods others use so many cores, and this process so many.
  void Pass(int periods, double others, double own = 0) {
    for (int i = 0; i < periods; ++i) {
      clock_.BlockUntilWaiters(1);
      {
        const absl::MutexLock lock(&mu_);
        if (times_.has_value()) {
          const double cores = static_cast<double>(times_->cpus.size());
          const double seconds = absl::ToDoubleSeconds(FreeCores::kPeriod);
          times_->own += own * seconds;
          times_->to_be_had += (cores - others - own) * seconds;
        }
      }
      clock_.Advance(FreeCores::kPeriod);
      clock_.BlockUntilWaiters(1);
    }
  }
  void SetCpus(std::vector<int> cpus) {
    const absl::MutexLock lock(&mu_);
    times_->cpus = std::move(cpus);
  }
  void SetQuota(double quota) {
    const absl::MutexLock lock(&mu_);
    quota_ = quota;
  }
  void ReadNothing() {
    const absl::MutexLock lock(&mu_);
    times_.reset();
  }

  FakeClock clock_;
  absl::Mutex mu_;
  std::optional<CpuTimes> times_ ABSL_GUARDED_BY(mu_) = CpuTimes{
      .cpus = {0, 1, 2, 3}};
  double quota_ ABSL_GUARDED_BY(mu_) = kNoQuota;
  FreeCores cores_{4, [this] { return Read(); }, [this] { return Quota(); },
                   clock_};
};

TEST_F(FreeCoresTest, AllAreThereUntilOthersUseThem) {
  EXPECT_DOUBLE_EQ(cores_.now(), 4);
  Pass(5, 0);
  EXPECT_NEAR(cores_.now(), 4, 1e-9);
  Pass(2, 1);
  EXPECT_NEAR(cores_.now(), 4, 1e-9);  // a short burst
  Pass(1, 1);
  EXPECT_NEAR(cores_.now(), 3, 1e-9);
  Pass(3, 0);
  EXPECT_NEAR(cores_.now(), 4, 1e-9);
}

TEST_F(FreeCoresTest, WhatThisProcessUsesIsIts) {
  Pass(5, 1, 3);
  EXPECT_NEAR(cores_.now(), 3, 1e-9);
  Pass(5, 2.5, 1.5);
  EXPECT_NEAR(cores_.now(), 1.5, 1e-9);
}

TEST_F(FreeCoresTest, ThreadsHaveACoreEach) {
  Pass(5, 0.5);
  EXPECT_EQ(cores_.Share(4), 3);
  EXPECT_EQ(cores_.Share(2), 2);  // one of two instances
  EXPECT_EQ(cores_.Share(1), 1);
  Pass(5, 0.2);  // a client's share of a core takes no thread away
  EXPECT_EQ(cores_.Share(4), 4);
  Pass(5, 3);
  EXPECT_EQ(cores_.Share(4), 1);
  Pass(5, 4);
  EXPECT_EQ(cores_.Share(4), 1);
  EXPECT_EQ(cores_.Share(8), 1);
}

TEST_F(FreeCoresTest, AQuotaIsRounded) {
  SetQuota(2.4);
  Pass(10, 0);
  EXPECT_DOUBLE_EQ(cores_.now(), 2);
  SetQuota(2.5);
  Pass(10, 0);
  EXPECT_DOUBLE_EQ(cores_.now(), 3);
  SetQuota(0.1);
  Pass(10, 0);
  EXPECT_DOUBLE_EQ(cores_.now(), 1);
  SetQuota(kNoQuota);
  Pass(10, 0);
  EXPECT_NEAR(cores_.now(), 4, 1e-9);
}

TEST_F(FreeCoresTest, ASmallerSetOfCpusIsAllThereIs) {
  Pass(5, 0);
  SetCpus({2});
  Pass(6, 0);
  EXPECT_NEAR(cores_.now(), 1, 1e-9);
  EXPECT_EQ(cores_.Share(4), 1);
}

TEST_F(FreeCoresTest, WhereNothingCanBeReadAllAreThere) {
  Pass(5, 3);
  EXPECT_NEAR(cores_.now(), 1, 1e-9);
  ReadNothing();
  Pass(10, 0);
  EXPECT_NEAR(cores_.now(), 1, 1e-9);  // as of the last that was
}

TEST(ReadCpuTimesTest, CountsIdleNiceAndWaitingOfTheUsableCpus) {
  const std::vector<int> cpus = UsableCpus();
  const TempFolder folder;
  std::filesystem::create_directory(folder / "proc");
  {
    std::ofstream file(folder / "proc/stat");
    file << "cpu  1 2 3 4 5 6 7 8 0 0\n";
    for (const int cpu : cpus) {
      file << "cpu" << cpu << " 1000 20 3000 400 5 6000 7 80000 0 0\n";
    }
    file << "cpu100000 1 1 1 100000 1 1 1 1 0 0\nintr 12 13\n";
  }
  const double tick = 1.0 / static_cast<double>(sysconf(_SC_CLK_TCK));
  const auto times = ReadCpuTimes(folder.path() + "/");
  ASSERT_TRUE(times.has_value());
  EXPECT_EQ(times->cpus, cpus);
  EXPECT_NEAR(times->to_be_had, 425 * tick * static_cast<double>(cpus.size()),
              1e-9);
  EXPECT_GT(times->own, 0);
  EXPECT_EQ(ReadCpuTimes(folder / "nothing/"), std::nullopt);
  EXPECT_TRUE(ReadCpuTimes().has_value());
}

}  // namespace
}  // namespace stoker
