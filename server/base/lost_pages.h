// Mappings of files that somebody may cut while they are looked at. A load or
// store where the file has ended raises SIGBUS, which ends a process. After
// OutliveLostPages, what lies beyond the end in a guarded mapping becomes zeros
// of the process' own instead, and the mapping is known to have lost pages.
//
// Thread-safe.
#pragma once

#include <cstddef>

namespace stoker {

// Installs a handler for SIGBUS, for the whole process; again: nothing. One
// that is raised anywhere but in a guarded mapping is handled as before: by
// default it ends the process. A shared library that has this file once more
// has a table of its own, and so calls this itself.
void OutliveLostPages();

// Some bytes of a mapping, from when it was made until before it goes.
class PageGuard {
 public:
  PageGuard(const void* data, size_t size);
  ~PageGuard();
  PageGuard(const PageGuard&) = delete;
  PageGuard& operator=(const PageGuard&) = delete;

  // Whether there was room in the handler's table.
  bool holds() const { return place_ >= 0; }
  // Whether a page was lost so far: what was read from the mapping before may
  // be zeros in place of the file's bytes, and what was written may be nowhere.
  bool lost() const;

 private:
  const int place_;
};

}  // namespace stoker
