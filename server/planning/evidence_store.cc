#include "planning/evidence_store.h"

#include "absl/strings/match.h"
#include "base/absl_view.h"
#include "base/log.h"
#include "planning/note_names.h"

namespace stoker {

std::optional<Profit> ReadProfit(const FactStore& facts,
                                 const ArtifactId& artifact,
                                 ComputePrecision precision,
                                 const TimedOn& here) {
  std::optional<Profit> best;
  std::pair<bool, bool> closest;
  const std::string prefix = ProfitNotePrefix(artifact, precision);
  for (const std::string& name : facts.NoteNames(artifact.key)) {
    if (!absl::StartsWith(name, prefix)) continue;
    const std::optional<std::string> text = facts.ReadNote(artifact.key, name);
    Profit profit;
    if (!text.has_value() || !ParseProfit(*text, profit)) continue;
    const std::pair<bool, bool> close(profit.measured_on == here.machine,
                                      profit.threads == here.threads);
    if (best.has_value() && close <= closest) continue;
    best = std::move(profit);
    closest = close;
  }
  return best;
}

std::optional<std::string> EvidenceStore::Read(const ArtifactKey& key,
                                               const std::string& note) const {
  if (!trusted_ || facts_ == nullptr) return std::nullopt;
  return facts_->ReadNote(key, note);
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

std::optional<Parity> EvidenceStore::ReadParity(
    const ArtifactId& artifact) const {
  const std::optional<std::string> text =
      Read(artifact.key, ParityNoteName(artifact, spec_));
  Parity parity;
  if (!text.has_value() || !ParseParity(*text, parity)) return std::nullopt;
  return parity;
}

void EvidenceStore::WriteParity(const ArtifactId& artifact,
                                const Parity& parity) const {
  Write(artifact.key, ParityNoteName(artifact, spec_), ParityToJson(parity),
        "parity");
}

std::optional<std::string> EvidenceStore::ReadReproducer(
    const ArtifactId& artifact) const {
  return Read(artifact.key, ReproducerNoteName(artifact, spec_));
}

void EvidenceStore::WriteReproducer(const ArtifactId& artifact,
                                    const std::string& bytes) const {
  Write(artifact.key, ReproducerNoteName(artifact, spec_), bytes, "reproducer");
}

std::optional<std::string> EvidenceStore::ReadInt8Factors(
    const ArtifactId& artifact) const {
  return Read(artifact.key, Int8FactorsNoteName(artifact, spec_));
}

void EvidenceStore::WriteInt8Factors(const ArtifactId& artifact,
                                     const std::string& bytes) const {
  Write(artifact.key, Int8FactorsNoteName(artifact, spec_), bytes,
        "factors for integers");
}

std::optional<Profit> EvidenceStore::ReadProfit(
    const ArtifactId& artifact) const {
  if (!trusted_ || facts_ == nullptr) return std::nullopt;
  return stoker::ReadProfit(*facts_, artifact, spec_.compile.precision, here_);
}

void EvidenceStore::WriteProfit(const ArtifactId& artifact,
                                const Profit& profit) const {
  Write(artifact.key,
        ProfitNoteName(artifact, spec_.compile.precision, profit.measured_on,
                       profit.threads),
        ProfitToJson(profit), "profit");
}

std::optional<Verdict> EvidenceStore::ReadVerdict(
    const ArtifactId& artifact) const {
  std::optional<Parity> parity = ReadParity(artifact);
  if (!parity.has_value()) return std::nullopt;
  if (!parity->equal) return Verdict{.parity = *std::move(parity)};
  std::optional<Profit> profit = ReadProfit(artifact);
  if (!profit.has_value()) return std::nullopt;
  return Verdict{*std::move(parity), *std::move(profit)};
}

std::optional<Profit> EvidenceStore::ReadGraphGain(
    const ArtifactId& artifact) const {
  const std::optional<std::string> text =
      Read(artifact.key, GraphNoteName(artifact, here_.machine));
  Profit gain;
  if (!text.has_value() || !ParseProfit(*text, gain)) return std::nullopt;
  return gain;
}

void EvidenceStore::WriteGraphGain(const ArtifactId& artifact,
                                   const Profit& gain) const {
  Write(artifact.key, GraphNoteName(artifact, gain.measured_on),
        ProfitToJson(gain), "gain of a graph");
}

std::optional<std::string> EvidenceStore::ReadRefusal(
    const ArtifactKey& key) const {
  return Read(key, std::string(kRefusalNoteName));
}

void EvidenceStore::WriteRefusal(const ArtifactKey& key,
                                 const std::string& why) const {
  Write(key, std::string(kRefusalNoteName), why, "refusal");
}

}  // namespace stoker
