#include "loadtest/generator/load_run.h"

#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <latch>
#include <string>
#include <utility>

#include "base/thread.h"
#include "loadtest/generator/lane.h"

namespace stoker::loadtest {
namespace {

void SleepUntil(int64_t ns) {
  constexpr int64_t kSecond = 1'000'000'000;
  const timespec until{ns / kSecond, ns % kSecond};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr) ==
         EINTR) {
  }
}

// For the thread that keeps the schedule: its sleeps end at most a microsecond
// late (50 by default), and where the system allows it goes before a server
// that keeps every core busy.
void KeepTime() {
  constexpr int kNice = -10;
  prctl(PR_SET_TIMERSLACK, 1000UL, 0UL, 0UL, 0UL);
  setpriority(PRIO_PROCESS, 0, kNice);  // on Linux: this thread alone
}

// What all workers of a run share.
struct Shared {
  const Messages& messages;
  const Measurement measurement;
  const bool closed;
  std::atomic<uint64_t> next_message;
  std::atomic<int64_t> under_way = 0;
  std::atomic<bool> all_sent = false;
  std::atomic<bool> stop = false;  // the sender is too late for good

  bool over() const {
    return all_sent.load(std::memory_order_acquire) &&
           under_way.load(std::memory_order_acquire) == 0;
  }
  const grpc::ByteBuffer& Next() {
    const uint64_t index = next_message.fetch_add(1, std::memory_order_relaxed);
    return messages.buffers[messages.order[index % messages.order.size()]];
  }
};

// A completion queue with its thread and its share of the connections.
class Worker final : Lane::Listener {
 public:
  Worker(Shared& shared, std::vector<std::shared_ptr<grpc::Channel>> channels,
         const LoadOptions& options)
      : shared_(shared), recorder_(shared.measurement) {
    for (auto& channel : channels) {
      const Lane::Wiring wiring{std::move(channel),
                                queue_,
                                *this,
                                {options.timeout, options.check_answers}};
      lanes_.push_back(options.stream ? MakeStreamLane(wiring)
                                      : MakeUnaryLane(wiring));
    }
  }

  // Serves completions until the queue is shut down.
  void Run() {
    void* tag = nullptr;
    bool ok = false;
    while (queue_.Next(&tag, &ok)) static_cast<Event*>(tag)->OnEvent(ok);
  }
  void Shutdown() { queue_.Shutdown(); }

  std::vector<std::unique_ptr<Lane>>& lanes() { return lanes_; }
  // After Run has returned.
  const Recording& recording() const { return recorder_.recording(); }

 private:
  void OnOutcome(Lane& lane, Outcome outcome) override {
    recorder_.Record(outcome);
    if (shared_.closed && outcome.done_ns < shared_.measurement.end_ns) {
      lane.Send(shared_.Next(), NowNs());
    } else {
      shared_.under_way.fetch_sub(1, std::memory_order_release);
    }
  }

  Shared& shared_;
  Recorder recorder_;
  grpc::CompletionQueue queue_;
  std::vector<std::unique_ptr<Lane>> lanes_;
};

class LoadRun {
 public:
  LoadRun(const Client& client, const Messages& messages,
          const LoadOptions& options, uint64_t next_message)
      : options_(options),
        shared_{messages, Plan(options), options.concurrency > 0,
                next_message} {
    const auto& channels = client.channels();
    const int count =
        std::clamp(options.threads, 1, static_cast<int>(channels.size()));
    for (int i = 0; i < count; ++i) {
      std::vector<std::shared_ptr<grpc::Channel>> share;
      for (size_t c = i; c < channels.size(); c += count)
        share.push_back(channels[c]);
      workers_.push_back(
          std::make_unique<Worker>(shared_, std::move(share), options));
    }
    for (size_t l = 0; l < channels.size(); ++l) {
      Worker& worker = *workers_[l % count];
      lanes_.push_back(worker.lanes()[l / count].get());
    }
  }

  LoadResult Run();
  uint64_t next_message() const { return shared_.next_message; }

 private:
  static Measurement Plan(const LoadOptions& options) {
    // A moment for threads to start, so that the first request isn't late.
    const int64_t begin =
        NowNs() + absl::ToInt64Nanoseconds(absl::Milliseconds(20));
    const int64_t start = begin + absl::ToInt64Nanoseconds(options.warmup);
    // Windows of one length, as near to the wanted one as divides the time.
    const int64_t measure = absl::ToInt64Nanoseconds(options.measure);
    const auto windows = std::max<int64_t>(
        1, std::llround(absl::FDivDuration(options.measure, options.window)));
    return {start, start + measure, (measure + windows - 1) / windows,
            absl::ToInt64Nanoseconds(options.slo_latency),
            options.concurrency == 0};
  }

  void SendClosed();
  void SendOpen();
  // Waits for the measured time and what is under way at its end.
  void Watch();
  void CloseLanes();

  const LoadOptions& options_;
  Shared shared_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::vector<Lane*> lanes_;
  CpuClocks clocks_;
  LoadResult result_;
};

LoadResult LoadRun::Run() {
  std::vector<Thread> threads;
  threads.reserve(workers_.size());
  // One after the other, as CpuClocks wants it.
  for (const auto& worker : workers_) {
    std::latch added(1);
    threads.emplace_back("completion", [this, &worker, &added] {
      clocks_.AddThisThread();
      added.count_down();
      worker->Run();
    });
    added.wait();
  }
  {
    std::latch added(1);
    std::latch over(1);
    Thread sender("sender", [this, &added, &over] {
      KeepTime();
      clocks_.AddThisThread();
      added.count_down();
      shared_.closed ? SendClosed() : SendOpen();
      shared_.all_sent.store(true, std::memory_order_release);
      // Its clock is read until the end.
      over.wait();
    });
    added.wait();
    Watch();
    over.count_down();
  }
  CloseLanes();
  for (const auto& worker : workers_) worker->Shutdown();
  for (Thread& thread : threads) thread.Join();
  for (const auto& worker : workers_)
    result_.recording.Add(worker->recording());
  return std::move(result_);
}

void LoadRun::SendClosed() {
  for (int i = 0; i < options_.concurrency; ++i) {
    shared_.under_way.fetch_add(1, std::memory_order_relaxed);
    lanes_[i % lanes_.size()]->Send(shared_.Next(), NowNs());
  }
}

void LoadRun::SendOpen() {
  Arrivals arrivals = *options_.arrivals;
  const Measurement& measured = shared_.measurement;
  const int64_t begin =
      measured.start_ns - absl::ToInt64Nanoseconds(options_.warmup);
  for (size_t lane = 0;; lane = (lane + 1) % lanes_.size()) {
    const int64_t due = begin + arrivals.NextNs();
    if (due >= measured.end_ns) return;
    const bool counts = due >= measured.start_ns;
    if (counts) ++result_.due;
    if (NowNs() < due) SleepUntil(due);
    if (shared_.under_way.load(std::memory_order_relaxed) >= kMaxUnderWay ||
        shared_.stop.load(std::memory_order_relaxed)) {
      if (counts) ++result_.unsent;
      continue;
    }
    shared_.under_way.fetch_add(1, std::memory_order_relaxed);
    lanes_[lane]->Send(shared_.Next(), due);
  }
}

void LoadRun::Watch() {
  const Measurement& measured = shared_.measurement;
  SleepUntil(measured.start_ns);
  const CpuTimes before = clocks_.Read();
  const int64_t began = NowNs();
  options_.on_start();
  for (int64_t end = measured.start_ns; end < measured.end_ns;) {
    end = std::min(end + measured.window_ns, measured.end_ns);
    SleepUntil(end);
    options_.on_window();
  }
  const CpuTimes after = clocks_.Read();
  result_.use =
      UseBetween(before, after, static_cast<double>(NowNs() - began) * 1e-9);
  options_.on_end();
  result_.seconds =
      static_cast<double>(measured.end_ns - measured.start_ns) * 1e-9;

  constexpr int64_t kPoll = 1'000'000;
  const int64_t limit = measured.end_ns + absl::ToInt64Nanoseconds(kDrain);
  while (!shared_.over() && NowNs() < limit) SleepUntil(NowNs() + kPoll);
  shared_.stop = true;
}

void LoadRun::CloseLanes() {
  result_.cut_off = shared_.under_way.load(std::memory_order_acquire);
  for (Lane* lane : lanes_)
    result_.cut_off > 0 ? lane->Cancel() : lane->Close();
  constexpr int64_t kPoll = 200'000;
  constexpr int64_t kPatience = 2'000'000'000;
  int64_t cancel_at = NowNs() + kPatience;
  for (Lane* lane : lanes_) {
    while (!lane->idle()) {
      if (NowNs() > cancel_at) {
        // Whoever does not end a stream when asked to.
        for (Lane* other : lanes_) other->Cancel();
        cancel_at = NowNs() + kPatience;
      }
      SleepUntil(NowNs() + kPoll);
    }
  }
}

}  // namespace

LoadResult RunLoad(const Client& client, const Messages& messages,
                   const LoadOptions& options, uint64_t* next_message) {
  LoadRun run(client, messages, options, *next_message);
  LoadResult result = run.Run();
  *next_message = run.next_message();
  return result;
}

}  // namespace stoker::loadtest
