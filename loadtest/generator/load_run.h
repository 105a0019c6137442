// One run of requests against a server: closed or open loop, for a time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "absl/time/time.h"
#include "loadtest/generator/arrivals.h"
#include "loadtest/generator/client.h"
#include "loadtest/generator/client_use.h"
#include "loadtest/generator/messages.h"
#include "loadtest/generator/recorder.h"

namespace stoker::loadtest {

struct LoadOptions {
  int concurrency = 0;               // closed loop when above 0
  std::optional<Arrivals> arrivals;  // open loop otherwise
  bool stream = false;
  bool check_answers = false;
  int threads = 1;  // completion threads
  absl::Duration warmup, measure, window, timeout;
  absl::Duration slo_latency;
  // Called by the caller's thread when the measured time begins and ends.
  std::function<void()> on_start = [] {};
  std::function<void()> on_end = [] {};
  // By the same thread at the end of each window.
  std::function<void()> on_window = [] {};
};

struct LoadResult {
  Recording recording;
  double seconds = 0;   // measured
  int64_t due = 0;      // open loop: requests due in the measured time
  int64_t unsent = 0;   // of those: not sent, too many were under way
  int64_t cut_off = 0;  // all requests that the drain did not wait for
  ClientUse use;
};

// Requests under way that an open loop stops at: memory stays bounded when a
// server holds everything back.
constexpr int kMaxUnderWay = 200'000;

// Runs to the end: warm-up, the measured time, and then until every answer is
// there, for at most kDrain; what is left then is cancelled. `next_message`
// goes on from where the run before has stopped.
LoadResult RunLoad(const Client& client, const Messages& messages,
                   const LoadOptions& options, uint64_t* next_message);

constexpr absl::Duration kDrain = absl::Seconds(30);

}  // namespace stoker::loadtest
