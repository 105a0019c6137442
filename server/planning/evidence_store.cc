#include "planning/evidence_store.h"

#include "base/absl_view.h"
#include "base/log.h"
#include "planning/note_names.h"

namespace stoker {

std::optional<Verdict> EvidenceStore::Read(const ArtifactKey& key,
                                           const std::string& note) const {
  if (!trusted_ || facts_ == nullptr) return std::nullopt;
  const std::optional<std::string> text = facts_->ReadNote(key, note);
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
    const ArtifactKey& key) const {
  return Read(key, VerdictNoteName(spec_));
}

void EvidenceStore::WriteVerdict(const ArtifactKey& key,
                                 const Verdict& verdict) const {
  Write(key, VerdictNoteName(spec_), VerdictToJson(verdict), "verdict");
}

void EvidenceStore::WriteReproducer(const ArtifactKey& key,
                                    const std::string& bytes) const {
  Write(key, ReproducerNoteName(spec_), bytes, "reproducer");
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
    const ArtifactKey& key) const {
  return Read(key, GraphNoteName(spec_));
}

void EvidenceStore::WriteGraphGain(const ArtifactKey& key,
                                   const Verdict& gain) const {
  Write(key, GraphNoteName(spec_), VerdictToJson(gain), "gain of a graph");
}

}  // namespace stoker
