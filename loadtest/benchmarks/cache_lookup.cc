// Times EntryStore::Lookup of keys that are there, every file verified as in
// a start.
//
//   cache_lookup --cache FOLDER [--repeat 5] [--at-least BYTES]
//
// Looks each entry of that size up in a shuffled order, `repeat` times over,
// and prints one JSON object: entries, bytes of the largest, and microseconds
// of a lookup. The first pass reads the files into the page cache and isn't
// counted.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "kernel_cache/kernel_cache.h"
#include "loadtest/generator/histogram.h"

int main(int argc, char** argv) {
  stoker::KernelCacheOptions options;
  int repeat = 5;
  int64_t at_least = 0;
  CLI::App app{"times lookups of entries that are there"};
  app.add_option("--cache", options.root, "kernel cache")->required();
  app.add_option("--repeat", repeat, "times over")->check(CLI::Range(1, 1000));
  app.add_option("--at-least", at_least,
                 "bytes of an entry, smaller ones stay");
  CLI11_PARSE(app, argc, argv);

  stoker::MetricRegistry metrics;
  const auto cache =
      stoker::KernelCache::Open(options, stoker::Files::Real(), metrics);
  if (!cache.ok()) {
    std::fprintf(stderr, "cache_lookup: %s\n",
                 std::string(cache.status().message()).c_str());
    return 1;
  }
  std::vector<stoker::ArtifactKey> keys = (*cache)->entries().Keys();
  const size_t entries = keys.size();
  const stoker::CacheLayer& root = (*cache)->entries().layers().front();
  std::erase_if(keys, [&](const stoker::ArtifactKey& key) {
    return root.Bytes(key) < at_least;
  });
  std::mt19937 generator(1);
  stoker::loadtest::Histogram took;
  int64_t largest = 0;
  for (int pass = 0; pass <= repeat; ++pass) {
    std::shuffle(keys.begin(), keys.end(), generator);
    for (const stoker::ArtifactKey& key : keys) {
      const auto start = std::chrono::steady_clock::now();
      const auto entry = (*cache)->entries().Lookup(key);
      const std::chrono::nanoseconds elapsed =
          std::chrono::steady_clock::now() - start;
      if (!entry.has_value()) {
        std::fprintf(stderr, "cache_lookup: %s is no hit\n", key.hex().c_str());
        return 1;
      }
      largest = std::max(largest, entry->bytes);
      if (pass > 0) took.Record(elapsed.count());
    }
  }
  const auto micros = [&took](double percentile) {
    return static_cast<double>(took.Percentile(percentile)) / 1e3;
  };
  std::printf("%s\n", nlohmann::json{{"entries", entries},
                                     {"looked_up", keys.size()},
                                     {"largest_bytes", largest},
                                     {"p50_us", micros(50)},
                                     {"p99_us", micros(99)}}
                          .dump()
                          .c_str());
  return 0;
}
