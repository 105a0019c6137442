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
      absl::StrCat("4 ", spec.weights_digest, " ", spec.parity.rtol, " ",
                   spec.parity.atol, " ", spec.parity.cases);
  if (std::isfinite(spec.parity.rms)) {
    absl::StrAppend(&text, " rms ", spec.parity.rms);
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

}  // namespace

std::string VerdictNoteName(const ModelSpec& spec) {
  return absl::StrCat(Absl(kVerdictNotePrefix), Circumstances(spec), ".json");
}

std::string ReproducerNoteName(const ModelSpec& spec) {
  return absl::StrCat(Absl(kReproducerNotePrefix), Circumstances(spec),
                      ".safetensors");
}

std::string GraphNoteName(const ModelSpec& spec) {
  return absl::StrCat(Absl(kGraphNotePrefix), Circumstances(spec), ".json");
}

std::string FirstRunNoteName(std::string_view machine) {
  return absl::StrCat(Absl(kFirstRunNotePrefix), Absl(machine));
}

const LocalNotes& NotesThatStay() {
  static const LocalNotes& notes =
      *new LocalNotes{{kFirstRunNotePrefix, kReproducerNotePrefix}};
  return notes;
}

}  // namespace stoker
