// A piece of work of the server's own, for who is told what it does: a version
// that was loaded, an artifact that was compiled.
//
// A value.
#pragma once

#include <cstdint>
#include <string>

#include "absl/time/time.h"

namespace stoker {

struct WorkRecord {
  std::string name;  // "load", "compile"
  std::string model;
  int64_t version = 0;
  std::string bucket;  // empty: it is of none
  absl::Time began;
  absl::Duration took;
  std::string error;  // empty: it went well
};

}  // namespace stoker
