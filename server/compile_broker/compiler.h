// What turns a missing artifact into a cache entry: the door that models see.
// compile_broker.h is the one that compiles; tests script another.
//
// Thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "kernel_cache/entry_store.h"

namespace stoker {

struct CompileRequest {
  ArtifactKey key;
  KeyFactors factors;  // written into the manifest
  std::string model;   // "minilm:1", for logs
  std::string bucket;  // "batch=8,tokens=32", for logs
  std::string program_path;
  std::string passes_path;  // empty: none
  std::map<std::string, int64_t>
      sizes;                   // graph symbol → size; absent: stays dynamic
  std::string march;           // "x86-64-v4"
  int simdlen = 512;           // bits; 0: scalar code
  std::string device = "cpu";  // or "cuda:0", of those that the worker sees
};

class Compiler {
 public:
  using Done = std::function<void(absl::StatusOr<CacheEntry>)>;
  // phase: "wait", "start", "load", "specialise", "lower", "build", "package",
  // "commit".
  using Progress = std::function<void(std::string_view phase)>;

  virtual ~Compiler() = default;

  // Calls `done` exactly once, never from inside Submit, and neither callback
  // blocks. Requests for one key share one compile. Errors:
  //   UNAVAILABLE          no compiler on this host, the worker won't start, or
  //                        the cache can't be written
  //   DEADLINE_EXCEEDED    the compile took too long
  //   RESOURCE_EXHAUSTED   it hit its memory limit, or the disk is full
  //   FAILED_PRECONDITION  refused: the generated code can't be made safe
  //   CANCELLED            the compiler goes away
  //   INTERNAL             it failed; the message ends with its last words
  virtual void Submit(CompileRequest request, Progress progress, Done done) = 0;
};

}  // namespace stoker
