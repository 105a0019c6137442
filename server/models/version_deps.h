// What a model version works with, handed down from the daemon's composition
// root. Plain pointers: all of it outlives the version.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/clock.h"
#include "compile_broker/compiler.h"
#include "kernel_cache/kernel_cache.h"
#include "metrics/metrics.h"
#include "models/device_places.h"
#include "models/isolated_eager.h"
#include "planning/request_samples.h"
#include "planning/traffic.h"
#include "runner/toolchain.h"

namespace stoker {

class FirstRun;
class RecentRefusals;
class ReferenceRun;
class Telemetry;
class Tokenizers;
class VersionStats;

struct VersionDeps {
  KernelCache* cache = nullptr;  // null: no cache on this host, eager only
  Compiler* compiler = nullptr;  // null with a null cache
  // False: this host compiles nothing (--frozen), and the compiler says so.
  bool compiles = true;
  Placement placement;  // of this version
  Clock* clock = nullptr;
  // The version's own series end with it.
  std::shared_ptr<MetricScope> metrics;
  // Of its requests, whose figures go on while it rests; null: `metrics`.
  std::shared_ptr<MetricScope> request_metrics;
  // What they were before it rested; null: it never did.
  std::shared_ptr<VersionStats> stats;
  int cores = 1;
  Toolchain toolchain;  // its `gpu` is the placement's
  bool verify_promotions = true;
  // A version with a bucket that is not in the cache is not loaded.
  bool require_cache = false;
  // Whether verdicts that are stored beside artifacts are taken for granted.
  bool trust_verdicts = true;
  FirstRun* first_run = nullptr;  // null: everything runs here at once
  // Of programs with unlisted operators; null: they are not loaded.
  const IsolatedEager::Options* isolated = nullptr;
  const ReferenceRun* reference = nullptr;  // null: no float64 runs
  RecentRefusals* refusals = nullptr;       // null: only counted
  Telemetry* telemetry = nullptr;           // null: nobody wants to know
  const Tokenizers* tokenizers = nullptr;   // null: there are none
  std::string machine;  // [a-z0-9]+: what timings are good for
  std::shared_ptr<ModelTraffic> traffic;    // of this model; null: not recorded
  std::shared_ptr<RequestSamples> samples;  // likewise
  std::function<bool()> server_ready;       // empty: it is not
};

}  // namespace stoker
