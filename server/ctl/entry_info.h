// What an entry of the kernel cache says of itself, for people and for
// comparisons. Read from its manifest as it is: nothing here is verified.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "kernel_cache/entry_store.h"
#include "nlohmann/json.hpp"

namespace stoker {

struct EntryInfo {
  ArtifactKey key;
  int layer = 0;  // 0: the cache's own folder
  std::string model;
  std::string bucket;
  KeyFactors factors;
  double compile_seconds = 0;
  int64_t bytes = 0;
  absl::Time last_used;
  std::vector<std::string> notes;
  nlohmann::json manifest;  // null when it can't be read
};

// Sorted by model, bucket and key. Each key once: that of the first layer.
std::vector<EntryInfo> ListEntries(const EntryStore& store);

// The only entry whose key begins with `prefix`. NOT_FOUND, or INVALID_ARGUMENT
// when there are several.
absl::StatusOr<EntryInfo> FindEntry(const EntryStore& store,
                                    const std::string& prefix);

// Factors that are not the same in both: name, left value, right value; "-"
// where there is none. Sorted.
struct FactorDifference {
  std::string factor;
  std::string left;
  std::string right;
};
std::vector<FactorDifference> Differences(const KeyFactors& left,
                                          const KeyFactors& right);

// The entry with the fewest differing factors; one of the same graph before any
// other. Null when there is none.
const EntryInfo* Nearest(const std::vector<EntryInfo>& entries,
                         const KeyFactors& wanted);

}  // namespace stoker
