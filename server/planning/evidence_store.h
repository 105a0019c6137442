// What was found out about a version's artifacts, kept beside them in the
// kernel cache: parity and profit, the inputs that parity refused, what graphs
// gain, why the compiler made none. So a second start checks and times nothing
// again, and one with other weights times nothing. Evidence is about an
// artifact's bytes, not about whatever has its key.
//
// Thread-safe. What can't be written costs a warning, and the next start the
// time to find it out again.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "kernel_cache/fact_store.h"
#include "promotion/verdict.h"
#include "repository/model_spec.h"

namespace stoker {

// Where runs are timed.
struct TimedOn {
  std::string machine;  // [a-z0-9]+
  int threads = 0;      // compute threads of a run
};

// What is known of an artifact's speed, computed so: here, else on this
// machine, else wherever it was timed.
std::optional<Profit> ReadProfit(const FactStore& facts,
                                 const ArtifactId& artifact,
                                 ComputePrecision precision,
                                 const TimedOn& here);

class EvidenceStore {
 public:
  // `facts` may be null, and is not asked then; both outlive this object.
  // `trusted`: false reads nothing, so that all is found out anew.
  EvidenceStore(const ModelSpec& spec, FactStore* facts, TimedOn here,
                bool trusted)
      : spec_(spec), facts_(facts), here_(std::move(here)), trusted_(trusted) {}

  // With the version's weights.
  std::optional<Parity> ReadParity(const ArtifactId& artifact) const;
  void WriteParity(const ArtifactId& artifact, const Parity& parity) const;
  // A tensor file, for people.
  std::optional<std::string> ReadReproducer(const ArtifactId& artifact) const;
  void WriteReproducer(const ArtifactId& artifact,
                       const std::string& bytes) const;

  // A tensor file (models/int8_layers.h).
  std::optional<std::string> ReadInt8Factors(const ArtifactId& artifact) const;
  void WriteInt8Factors(const ArtifactId& artifact,
                        const std::string& bytes) const;

  // As the function's. Written as of where it was measured.
  std::optional<Profit> ReadProfit(const ArtifactId& artifact) const;
  void WriteProfit(const ArtifactId& artifact, const Profit& profit) const;
  // Of both; nullopt while one that the verdict needs is not known.
  std::optional<Verdict> ReadVerdict(const ArtifactId& artifact) const;

  // What a CUDA graph of the artifact gains over it on this machine.
  std::optional<Profit> ReadGraphGain(const ArtifactId& artifact) const;
  void WriteGraphGain(const ArtifactId& artifact, const Profit& gain) const;

  // Why the compiler refuses to make the artifact; nullopt: nobody knows that
  // it does.
  std::optional<std::string> ReadRefusal(const ArtifactKey& key) const;
  void WriteRefusal(const ArtifactKey& key, const std::string& why) const;

 private:
  std::optional<std::string> Read(const ArtifactKey& key,
                                  const std::string& note) const;
  void Write(const ArtifactKey& key, const std::string& note,
             const std::string& bytes, const char* what) const;

  const ModelSpec& spec_;
  FactStore* const facts_;
  const TimedOn here_;
  const bool trusted_;
};

}  // namespace stoker
