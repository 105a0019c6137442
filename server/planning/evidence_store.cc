#include "planning/evidence_store.h"

#include "base/absl_view.h"
#include "base/log.h"
#include "planning/note_names.h"

namespace stoker {

std::optional<Verdict> EvidenceStore::Read(const ArtifactId& artifact,
                                           const std::string& note) const {
  if (!trusted_ || facts_ == nullptr) return std::nullopt;
  const std::optional<std::string> text = facts_->ReadNote(artifact.key, note);
  Verdict verdict;
  if (!text.has_value() || !ParseVerdict(*text, verdict)) return std::nullopt;
  return verdict;
}

void EvidenceStore::Write(const ArtifactKey& key, const std::string& note,
                          const std::string& bytes, const char* what) const {
  if (facts_ == nullptr) return;
  const absl::Status written = facts_->WriteNote(key, note, bytes);
  if (!written.ok()) {
    log::Warn("{} {}: {} not stored: {}", spec_.Label(), key.Short(), what,
              Std(written.message()));
  }
}

std::optional<Verdict> EvidenceStore::ReadVerdict(
    const ArtifactId& artifact) const {
  return Read(artifact, VerdictNoteName(artifact, spec_));
}

void EvidenceStore::WriteVerdict(const ArtifactId& artifact,
                                 const Verdict& verdict) const {
  Write(artifact.key, VerdictNoteName(artifact, spec_), VerdictToJson(verdict),
        "verdict");
}

void EvidenceStore::WriteReproducer(const ArtifactId& artifact,
                                    const std::string& bytes) const {
  Write(artifact.key, ReproducerNoteName(artifact, spec_), bytes, "reproducer");
}

std::optional<std::string> EvidenceStore::ReadRefusal(
    const ArtifactKey& key) const {
  if (!trusted_ || facts_ == nullptr) return std::nullopt;
  return facts_->ReadNote(key, kRefusalNoteName);
}

void EvidenceStore::WriteRefusal(const ArtifactKey& key,
                                 const std::string& why) const {
  Write(key, std::string(kRefusalNoteName), why, "refusal");
}

std::optional<Verdict> EvidenceStore::ReadGraphGain(
    const ArtifactId& artifact) const {
  return Read(artifact, GraphNoteName(artifact, spec_));
}

void EvidenceStore::WriteGraphGain(const ArtifactId& artifact,
                                   const Verdict& gain) const {
  Write(artifact.key, GraphNoteName(artifact, spec_), VerdictToJson(gain),
        "gain of a graph");
}

}  // namespace stoker
