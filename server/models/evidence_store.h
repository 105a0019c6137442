// What was found out about a version's artifacts, kept beside them in the
// kernel cache: verdicts, the inputs that refused one, what graphs gain. So a
// second start checks and times nothing again.
//
// Thread-safe. What can't be written costs a warning, and the next start the
// time to find it out again.
#pragma once

#include <optional>
#include <string>

#include "kernel_cache/kernel_cache.h"
#include "promotion/verdict.h"
#include "repository/model_spec.h"

namespace stoker {

class EvidenceStore {
 public:
  // `cache` may be null, and is not asked then; both outlive this object.
  // `trusted`: false reads nothing, so that all is found out anew.
  EvidenceStore(const ModelSpec& spec, KernelCache* cache, bool trusted)
      : spec_(spec), cache_(cache), trusted_(trusted) {}

  std::optional<Verdict> ReadVerdict(const ArtifactKey& key) const;
  void WriteVerdict(const ArtifactKey& key, const Verdict& verdict) const;
  // A tensor file, for people.
  void WriteReproducer(const ArtifactKey& key, const std::string& bytes) const;

  // What a CUDA graph of the artifact gained over it, measured on whichever
  // machine the verdict names.
  std::optional<Verdict> ReadGraphGain(const ArtifactKey& key) const;
  void WriteGraphGain(const ArtifactKey& key, const Verdict& gain) const;

 private:
  std::optional<Verdict> Read(const ArtifactKey& key,
                              const std::string& note) const;
  void Write(const ArtifactKey& key, const std::string& note,
             const std::string& bytes, const char* what) const;

  const ModelSpec& spec_;
  KernelCache* const cache_;
  const bool trusted_;
};

}  // namespace stoker
