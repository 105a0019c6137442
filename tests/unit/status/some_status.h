// A server with a version in each state that matters to who reads its status.
#pragma once

#include "status/status.h"

namespace stoker {

inline BucketFigures SomeBucket(const std::string& model,
                                const std::string& name, BucketState state) {
  BucketFigures bucket;
  bucket.status.model = model;
  bucket.status.bucket = name;
  bucket.status.slot.state = state;
  bucket.status.slot.key = std::string(64, 'a');
  return bucket;
}

inline Status SomeStatus() {
  Status status;
  status.server = {"9.9",
                   "2.11.0+cpu",
                   "x86-64-v4",
                   absl::FromUnixSeconds(1'700'000'000),
                   absl::Minutes(75),
                   absl::Seconds(60),
                   true};

  ModelStatus& serving = status.models.emplace_back();
  serving.model = "minilm:1";
  serving.state = VersionState::kServing;
  serving.newest = true;
  serving.aliases = {{"stable", 90}};
  serving.device = "cuda:0, cuda:1";
  serving.warmup = {2, 2, std::nullopt};
  serving.answered = 12345;
  serving.failed = 2;
  serving.waiting = 3;
  serving.recent = {20.5, absl::Microseconds(3100), absl::Milliseconds(250)};
  BucketFigures compiled =
      SomeBucket("minilm:1", "batch=1", BucketState::kCompiled);
  Verdict& verdict = compiled.status.slot.verdict;
  verdict.parity = {.equal = true, .max_abs_error = 6.0e-6};
  verdict.parity.cases.resize(4);
  verdict.profit = {.worth = true, .speedup = 1.87};
  compiled.compiled_requests = 12000;
  compiled.compile_seconds = 13.6;
  compiled.saved_seconds = 20.4;
  compiled.break_even_runs = 763;
  BucketFigures eager = SomeBucket("minilm:1", "batch=8", BucketState::kEager);
  eager.status.slot.detail = "profit: 0.93 x eager";
  eager.eager_requests = 345;
  serving.buckets = {compiled, eager};

  ModelStatus& warming = status.models.emplace_back();
  warming.model = "resnet:2";
  warming.state = VersionState::kWarming;
  warming.reason = "warming up: 1 of 3 buckets settled; batch=2: build, 12 s";
  warming.device = "cpu";
  warming.warmup = {1, 3, absl::Seconds(80)};
  BucketFigures building =
      SomeBucket("resnet:2", "batch=2", BucketState::kCompiling);
  building.status.phase = "build";
  building.status.in_phase = absl::Seconds(12);
  warming.buckets = {SomeBucket("resnet:2", "batch=1", BucketState::kCompiled),
                     building,
                     SomeBucket("resnet:2", "batch=4", BucketState::kPending)};

  ModelStatus& failed = status.models.emplace_back();
  failed.model = "broken:1";
  failed.state = VersionState::kFailed;
  failed.reason = "model.pt2: expected a ZIP archive, got 7 bytes";

  status.cache = {true, 8, 15'000'000, 6, 2, 3, {{"checksum", 1}}, 98.5};
  status.refusals = {{absl::FromUnixSeconds(1'699'999'000), "promotion",
                      "minilm:1 batch=8", "profit", "0.93 x eager"},
                     {absl::FromUnixSeconds(1'699'998'000), "cache",
                      "621b6bbffda9", "checksum", "model.so: other bytes"}};
  return status;
}

}  // namespace stoker
