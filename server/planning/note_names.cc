#include "planning/note_names.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "base/absl_view.h"
#include "base/sha256.h"
#include "planning/parity_cases.h"

namespace stoker {
namespace {

std::string Circumstances(const ModelSpec& spec) {
  std::string text =
      absl::StrCat("7 ", spec.weights_digest, " ", spec.parity.rtol, " ",
                   spec.parity.atol, " ", spec.parity.cases);
  if (std::isfinite(spec.parity.rms)) {
    absl::StrAppend(&text, " rms ", spec.parity.rms);
  }
  if (spec.parity.cosine > -1) {
    absl::StrAppend(&text, " cosine ", spec.parity.cosine);
  }
  if (spec.parity.argmax > 0) {
    absl::StrAppend(&text, " argmax ", spec.parity.argmax);
  }
  if (spec.compile.precision == ComputePrecision::kInt8) {
    absl::StrAppend(&text, " int8");
  }
  if (spec.parity.recorded > 0) {
    absl::StrAppend(&text, " recorded ", spec.parity.recorded);
  }
  for (const InputSpec& input : spec.inputs) {
    absl::StrAppend(&text, " ", input.pad_value);
    if (input.range.has_value()) {
      absl::StrAppend(&text, ":", input.range->first, ":", input.range->second);
    }
  }
  for (const bool paddable : Paddable(spec)) {
    absl::StrAppend(&text, paddable ? " padded" : " exact");
  }
  return Sha256Hex(text).substr(0, 16);
}

// Of other precisions the artifact itself is another.
std::string ProfitPrefix(ComputePrecision precision) {
  return absl::StrCat(Absl(kProfitNotePrefix),
                      precision == ComputePrecision::kInt8 ? "int8-" : "");
}

// "parity-0123456789abcdef-0123456789abcdef.json"
std::string NameOf(std::string_view prefix, const ArtifactId& artifact,
                   std::string_view circumstances,
                   std::string_view suffix = ".json") {
  return absl::StrCat(Absl(prefix), artifact.manifest_sha256.substr(0, 16), "-",
                      Absl(circumstances), Absl(suffix));
}

}  // namespace

std::string ParityNoteName(const ArtifactId& artifact, const ModelSpec& spec) {
  return NameOf(kParityNotePrefix, artifact, Circumstances(spec));
}

std::string ReproducerNoteName(const ArtifactId& artifact,
                               const ModelSpec& spec) {
  return NameOf(kReproducerNotePrefix, artifact, Circumstances(spec),
                ".safetensors");
}

std::string Int8FactorsNoteName(const ArtifactId& artifact,
                                const ModelSpec& spec) {
  return NameOf(kInt8FactorsNotePrefix, artifact, Circumstances(spec),
                ".safetensors");
}

std::string ProfitNoteName(const ArtifactId& artifact,
                           ComputePrecision precision, std::string_view machine,
                           int threads) {
  return NameOf(ProfitPrefix(precision), artifact,
                absl::StrCat(Absl(machine), "-", threads));
}

std::string ProfitNotePrefix(const ArtifactId& artifact,
                             ComputePrecision precision) {
  return NameOf(ProfitPrefix(precision), artifact, "", "");
}

std::string GraphNoteName(const ArtifactId& artifact,
                          std::string_view machine) {
  return NameOf(kGraphNotePrefix, artifact, machine);
}

std::string FirstRunNoteName(const ArtifactId& artifact,
                             std::string_view machine) {
  return NameOf(kFirstRunNotePrefix, artifact, machine, "");
}

const LocalNotes& NotesThatStay() {
  static const LocalNotes& notes =
      *new LocalNotes{{kFirstRunNotePrefix, kReproducerNotePrefix}};
  return notes;
}

}  // namespace stoker
