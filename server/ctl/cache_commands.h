// `stokerctl cache ...`: looking at a kernel cache and keeping house in it.
//
// Each prints on stdout, a table or with `json` one JSON document, and returns
// the exit code: 0, or kFound for what a script should notice (a damaged entry,
// keys that differ). An error is one that kept the command from its work.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "kernel_cache/entry_store.h"
#include "kernel_cache/fact_store.h"

namespace stoker {

class CommandLine;

inline constexpr int kFound = 1;

struct CacheCommands {
  EntryStore& entries;
  const FactStore& facts;
  Clock& clock;
  bool json = false;

  absl::StatusOr<int> List() const;
  // Factors, files, toolchain, notes of the entry whose key begins with
  // `prefix`.
  absl::StatusOr<int> Show(const std::string& prefix) const;
  // Reads every byte of the entry, or of all for an empty prefix. Damaged ones
  // are set aside, as a daemon would.
  absl::StatusOr<int> Verify(const std::string& prefix) const;
  absl::StatusOr<int> Diff(const std::string& left,
                           const std::string& right) const;
  absl::StatusOr<int> Stats() const;
  absl::StatusOr<int> Collect(const CacheLimits& limits, bool dry_run) const;
  // Lets one entry go, with what is known about it.
  absl::StatusOr<int> Remove(const std::string& prefix) const;
  absl::StatusOr<int> Pin(const std::string& prefix, bool pinned) const;
};

// With those of packs, and `explain`.
void AddCacheCommands(CommandLine& line);

}  // namespace stoker
