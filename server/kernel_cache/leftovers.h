// What lies in the root besides entries: the compiler's scratch (precompiled
// headers of 200 MB, mostly), what was set aside, notes, records, locks.
//
// Private to this room. Thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernel_cache/cache_root.h"

namespace stoker {

class Leftovers {
 public:
  // `root` outlives this object.
  explicit Leftovers(CacheRoot& root) : root_(root) {}

  struct Use {
    int64_t kept = 0;       // goes with the entries that it is about
    int64_t removable = 0;  // made again when it is needed, or for people
    int64_t bytes() const { return kept + removable; }
  };
  // Looks at every file.
  Use Measure() const;

  // Removes what is removable until `bytes` of it are gone, or nothing is left:
  // what was set aside first, then scratch, in each the oldest first. Scratch
  // that a compile worker uses stays. How much went.
  int64_t Trim(int64_t bytes);

 private:
  struct Piece {
    std::string path;
    int64_t bytes = 0;
    absl::Time modified;
  };
  int64_t BytesBelow(const std::string& path) const;
  // Children of a folder of the root, the oldest first.
  std::vector<Piece> Children(const std::string& folder) const;
  std::vector<Piece> Scratch() const;
  bool ScratchIsUsed() const;
  void Remove(const Piece& piece);

  CacheRoot& root_;
};

}  // namespace stoker
