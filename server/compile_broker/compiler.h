// What turns a missing artifact into a cache entry: the door that models see.
// compile_broker.h is the one that compiles; tests script another.
//
// Thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "kernel_cache/entry_store.h"

namespace stoker {

struct CompileRequest {
  ArtifactKey key;
  KeyFactors factors;        // written into the manifest
  std::string model;         // "minilm:1", for logs
  std::string bucket;        // "batch=8,tokens=32", for logs
  std::string program_path;  // what the compiler opens, when its turn comes
  std::string program_name;  // what people call it; empty: by its path
  std::shared_ptr<const void> program_file;  // keeps that path leading there
  // What the compiler must say that it has compiled, and with what: the digest
  // of the file's content under "program", and others of the key's factors.
  // What it says otherwise is not committed.
  std::map<std::string, std::string> attest;
  std::string passes_path;  // empty: none
  // The libraries whose operators the program calls: name → path. What they
  // hold is among the factors, as "operators.<name>".
  std::map<std::string, std::string> operator_libraries;
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
  // blocks. Requests for one key share one compile. One that has not begun is
  // not made when `stop` is requested by all who asked for it. Errors:
  //   UNAVAILABLE          no compiler on this host, or none for requests with
  //                        passes, the worker won't start, or the cache can't
  //                        be written
  //   DEADLINE_EXCEEDED    the compile took too long
  //   RESOURCE_EXHAUSTED   it hit its memory limit, or the disk is full
  //   FAILED_PRECONDITION  refused: the generated code can't be made safe
  //   DATA_LOSS            what was compiled is not what was asked for: the
  //                        program's file was written to meanwhile
  //   CANCELLED            the compiler goes away, or `stop` was requested
  //   INTERNAL             it failed; the message ends with its last words
  virtual void Submit(CompileRequest request, Progress progress, Done done,
                      std::stop_token stop) = 0;
  // Something is about to be submitted: what takes seconds to get ready may
  // begin to. A hint; nothing comes of it that Submit wouldn't bring.
  virtual void Expect() = 0;
};

}  // namespace stoker
