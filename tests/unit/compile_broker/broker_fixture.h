// A broker with the scripted worker of tests/fakes/fake_worker.py, on a fake
// clock and a cache of its own.
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "compile_broker/compile_broker.h"
#include "gtest/gtest.h"
#include "kernel_cache/kernel_cache.h"
#include "tests/fakes/fake_clock.h"
#include "tests/fakes/faulty_files.h"
#include "tests/fakes/temp_folder.h"

namespace stoker {

// What became of one submission. The callbacks may outlive the ticket.
class Ticket {
 public:
  CompileBroker::Progress progress() {
    return [state = state_](std::string_view phase) {
      absl::MutexLock lock(&state->mu);
      state->phases.emplace_back(phase);
    };
  }
  CompileBroker::Done done() {
    return [state = state_](const absl::StatusOr<CacheEntry>& result) {
      absl::MutexLock lock(&state->mu);
      ASSERT_FALSE(state->result.has_value()) << "answered twice";
      state->result = Detached(result);
    };
  }

  absl::StatusOr<CacheEntry> Result() {
    absl::MutexLock lock(&state_->mu);
    const auto answered = [this]() { return state_->result.has_value(); };
    state_->mu.AwaitWithTimeout(absl::Condition(&answered), kPatience);
    return state_->result.has_value() ? Detached(*state_->result)
                                      : absl::UnknownError("never answered");
  }
  absl::StatusCode Code() { return Result().status().code(); }
  std::string Message() { return std::string(Result().status().message()); }

  // Waits until `phase` has been reported `times` times.
  bool Saw(const std::string& phase, int times = 1) {
    absl::MutexLock lock(&state_->mu);
    const auto seen = [&]() {
      const auto& phases = state_->phases;
      return std::count(phases.begin(), phases.end(), phase) >= times;
    };
    return state_->mu.AwaitWithTimeout(absl::Condition(&seen), kPatience);
  }
  std::vector<std::string> phases() {
    absl::MutexLock lock(&state_->mu);
    return state_->phases;
  }

 private:
  // A copy that shares no counted message: ThreadSanitizer does not see the
  // counting in Debian's abseil.
  static absl::StatusOr<CacheEntry> Detached(
      const absl::StatusOr<CacheEntry>& result) {
    if (result.ok()) return result;
    return absl::Status(result.status().code(), result.status().message());
  }

  static constexpr absl::Duration kPatience = absl::Seconds(60);

  struct State {
    absl::Mutex mu;
    std::vector<std::string> phases;
    std::optional<absl::StatusOr<CacheEntry>> result;
  };
  const std::shared_ptr<State> state_ = std::make_shared<State>();
};

class CompileBrokerTest : public testing::Test {
 protected:
  void SetUp() override { cache_ = OpenCache(); }

  std::unique_ptr<KernelCache> OpenCache() {
    auto cache =
        KernelCache::Open({.root = folder_ / "cache"}, files_, metrics_);
    if (!cache.ok()) ADD_FAILURE() << cache.status();
    return *std::move(cache);
  }

  static CompileWorkerOptions Options(const std::string& start = "ready") {
    CompileWorkerOptions options;
    // -S: without site-packages Python starts in a third of the time.
    options.argv = {STOKER_PYTHON3, "-S", STOKER_FAKE_WORKER, "--start", start};
    return options;
  }
  void StartBroker(const CompileWorkerOptions& options) {
    broker_ = std::make_unique<CompileBroker>(options, cache_->entries(),
                                              clock_, metrics_);
  }

  // `behaviour`: see tests/fakes/fake_worker.py.
  static CompileRequest Request(const std::string& behaviour,
                                const std::string& bucket = "batch=1") {
    const KeyFactors factors = {{"graph", behaviour}, {"bucket", bucket}};
    return {.key = ArtifactKey(factors),
            .factors = factors,
            .model = "fake:1",
            .bucket = bucket,
            .program_path = absl::StrCat("/models/", behaviour, ".pt2"),
            .sizes = {{"s0", 1}},
            .march = "x86-64-v3",
            .simdlen = 256};
  }
  std::unique_ptr<Ticket> Submit(const CompileRequest& request,
                                 std::stop_token stop = {}) {
    auto ticket = std::make_unique<Ticket>();
    broker_->Submit(request, ticket->progress(), ticket->done(),
                    std::move(stop));
    return ticket;
  }
  // The same key fails at once when it is parked; one that is not is compiled
  // again, here by a worker that behaves.
  absl::Status Again(const std::string& behaviour, bool well) {
    CompileRequest request = Request(behaviour);
    if (well) request.program_path = "/models/ok.pt2";
    return Submit(request)->Result().status();
  }

  // Moves the clock once the supervisor waits for nothing else. Call it after
  // something that was done by the supervisor was seen. The time of day goes
  // elsewhere: no limit is measured by it.
  void Advance(absl::Duration duration) {
    clock_.BlockUntilWaiters(1);
    clock_.StepWall(-absl::Hours(9));
    clock_.Advance(duration);
  }

  std::string scratch() const { return cache_->entries().scratch_folder(); }
  std::string MakeGate(const std::string& name) {
    std::string path = absl::StrCat(scratch(), "/", name);
    EXPECT_EQ(mkfifo(path.c_str(), 0600), 0);
    return path;
  }
  std::string MakeGate(const CompileRequest& request) {
    return MakeGate(request.key.hex() + ".gate");
  }
  // Blocks until the worker is at the gate.
  static void OpenGate(const std::string& path) { std::ofstream gate(path); }

  // The lines of the worker's journal that begin with `word`.
  std::vector<std::string> Journal(const std::string& word) const {
    std::vector<std::string> lines;
    std::ifstream file(absl::StrCat(scratch(), "/journal"));
    for (std::string line; std::getline(file, line);) {
      if (absl::StartsWith(line, word)) lines.push_back(line);
    }
    return lines;
  }
  std::vector<std::string> StagedFolders() const {
    std::vector<std::string> names;
    for (const auto& item :
         std::filesystem::directory_iterator(folder_ / "cache/v1/staging")) {
      if (item.is_directory()) names.push_back(item.path().filename());
    }
    return names;
  }
  double Compiles(const std::string& outcome) const {
    return MetricValue(metrics_, "stoker_compile_seconds",
                       {{"outcome", outcome}});
  }
  double Queue(const std::string& state) const {
    return MetricValue(metrics_, "stoker_compile_queue_length",
                       {{"state", state}});
  }
  double Starts() const {
    return MetricValue(metrics_, "stoker_compile_worker_starts_total");
  }

  TempFolder folder_;
  FaultyFiles files_{Files::Real()};
  MetricRegistry metrics_;
  FakeClock clock_;
  std::unique_ptr<KernelCache> cache_;
  std::unique_ptr<CompileBroker> broker_;
};

}  // namespace stoker
