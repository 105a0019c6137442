// Tables for people: columns as wide as their widest cell, two spaces between.
//
// Not thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"

namespace stoker {

class TextTable {
 public:
  explicit TextTable(std::vector<std::string> header);
  // As many cells as the header has.
  void Add(std::vector<std::string> row);
  bool empty() const { return rows_.size() == 1; }
  // Lines, each ended; no spaces at their ends.
  std::string Text() const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

// "0 B", "412 KiB", "1.3 GiB".
std::string HumanBytes(int64_t bytes);
// "just now", "5 min ago", "3 h ago", "12 days ago"; "never" for InfinitePast.
std::string HumanAge(absl::Time then, absl::Time now);

}  // namespace stoker
