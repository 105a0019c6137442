#include "telemetry/request_log.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "metrics/metrics.h"
#include "tests/fakes/fake_clock.h"
#include "tests/fakes/temp_folder.h"

namespace stoker {
namespace {

class RequestLogTest : public ::testing::Test {
 protected:
  std::unique_ptr<RequestLog> Open() {
    absl::StatusOr<std::unique_ptr<RequestLog>> log =
        RequestLog::Open(options_, metrics_, clock_);
    EXPECT_TRUE(log.ok()) << log.status();
    return *std::move(log);
  }
  static RequestRecord Record(const std::string& id) {
    RequestRecord record;
    record.id = id;
    return record;
  }
  std::string Written() const {
    std::ostringstream text;
    text << std::ifstream(options_.path).rdbuf();
    return text.str();
  }
  long Lines() const {
    const std::string text = Written();
    return std::count(text.begin(), text.end(), '\n');
  }
  double Counted(const char* outcome) const {
    return MetricValue(metrics_, "stoker_request_log_lines_total",
                       {{"outcome", outcome}});
  }

  TempFolder folder_;
  FakeClock clock_;
  MetricRegistry metrics_;
  RequestLogOptions options_{.path = folder_ / "requests.log"};
};

TEST_F(RequestLogTest, LinesAreWrittenTogetherAfterAWhile) {
  const auto log = Open();
  log->Put(Record("first"));
  log->Put(Record("second"));
  EXPECT_EQ(Lines(), 0);
  while (Counted("written") < 2) clock_.Advance(absl::Milliseconds(100));
  EXPECT_EQ(Lines(), 2);
  EXPECT_EQ(Counted("written"), 2);
  EXPECT_THAT(Written(), ::testing::HasSubstr("\"id\":\"second\""));
}

TEST_F(RequestLogTest, WhatWaitsAtTheEndIsWritten) {
  auto log = Open();
  for (int i = 0; i < 10; ++i) log->Put(Record(absl::StrCat(i)));
  log.reset();
  EXPECT_EQ(Lines(), 10);
}

TEST_F(RequestLogTest, AFileThatWasMovedAway) {
  auto log = Open();
  std::filesystem::rename(options_.path, options_.path + ".1");
  log->Put(Record("a"));
  log.reset();
  EXPECT_EQ(Lines(), 1);
}

TEST_F(RequestLogTest, FailuresAreLoggedUpToARate) {
  options_.sample = 0;
  options_.failures_per_second = 3;
  const auto log = Open();
  EXPECT_FALSE(log->Wants(/*failed=*/false));
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(log->Wants(/*failed=*/true));
  EXPECT_FALSE(log->Wants(/*failed=*/true));
  EXPECT_EQ(Counted("failure_rate"), 1);
  clock_.Advance(absl::Seconds(1));
  EXPECT_TRUE(log->Wants(/*failed=*/true));
}

TEST_F(RequestLogTest, FailuresOnlyByChance) {
  options_.sample = 0;
  options_.failures_per_second = 0;
  const auto log = Open();
  EXPECT_FALSE(log->Wants(/*failed=*/true));
  EXPECT_EQ(Counted("failure_rate"), 0);
}

TEST_F(RequestLogTest, AFullDiskCostsLines) {
  options_.path = "/dev/full";
  auto log = Open();
  log->Put(Record("a"));
  log->Put(Record("b"));
  log.reset();
  EXPECT_EQ(Counted("write_failed"), 2);
  EXPECT_EQ(Counted("written"), 0);
}

// A pipe that nobody reads from: the queue fills, no caller waits, and the end
// comes.
TEST_F(RequestLogTest, AReaderThatIsStuckCostsLines) {
  signal(SIGPIPE, SIG_IGN);  // as stokerd does
  ASSERT_EQ(mkfifo(options_.path.c_str(), 0600), 0);
  const int reader = open(options_.path.c_str(), O_RDONLY | O_NONBLOCK);
  ASSERT_GE(reader, 0);
  auto log = Open();
  const std::string name(500, 'x');
  constexpr int kMany = 3 * static_cast<int>(RequestLog::kQueued);
  for (int i = 0; i < kMany; ++i) log->Put(Record(name));
  EXPECT_GE(Counted("queue_full"), 1);
  close(reader);
  log.reset();
  EXPECT_EQ(
      Counted("queue_full") + Counted("write_failed") + Counted("written"),
      kMany);
}

}  // namespace
}  // namespace stoker
