// What was found out about a version's artifacts, kept beside them in the
// kernel cache: verdicts, the inputs that refused one, what graphs gain, why
// the compiler made none. So a second start checks and times nothing again.
// Evidence is about an artifact's bytes, not about whatever has its key.
//
// Thread-safe. What can't be written costs a warning, and the next start the
// time to find it out again.
#pragma once

#include <optional>
#include <string>

#include "kernel_cache/fact_store.h"
#include "promotion/verdict.h"
#include "repository/model_spec.h"

namespace stoker {

class EvidenceStore {
 public:
  // `facts` may be null, and is not asked then; both outlive this object.
  // `trusted`: false reads nothing, so that all is found out anew.
  EvidenceStore(const ModelSpec& spec, FactStore* facts, bool trusted)
      : spec_(spec), facts_(facts), trusted_(trusted) {}

  std::optional<Verdict> ReadVerdict(const ArtifactId& artifact) const;
  void WriteVerdict(const ArtifactId& artifact, const Verdict& verdict) const;
  // A tensor file, for people.
  void WriteReproducer(const ArtifactId& artifact,
                       const std::string& bytes) const;

  // Why the compiler refuses to make the artifact; nullopt: nobody knows that
  // it does.
  std::optional<std::string> ReadRefusal(const ArtifactKey& key) const;
  void WriteRefusal(const ArtifactKey& key, const std::string& why) const;

  // What a CUDA graph of the artifact gained over it, measured on whichever
  // machine the verdict names.
  std::optional<Verdict> ReadGraphGain(const ArtifactId& artifact) const;
  void WriteGraphGain(const ArtifactId& artifact, const Verdict& gain) const;

 private:
  std::optional<Verdict> Read(const ArtifactId& artifact,
                              const std::string& note) const;
  void Write(const ArtifactKey& key, const std::string& note,
             const std::string& bytes, const char* what) const;

  const ModelSpec& spec_;
  FactStore* const facts_;
  const bool trusted_;
};

}  // namespace stoker
