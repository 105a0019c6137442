// Names of the notes that are kept beside an artifact in the kernel cache,
// which itself knows none of them but its own pin. What was found out about an
// artifact is named after its bytes: whatever takes its place, under its key,
// starts without evidence.
//
// Pure.
#pragma once

#include <string>
#include <string_view>

#include "kernel_cache/artifact_key.h"
#include "kernel_cache/pack_index.h"
#include "repository/model_spec.h"

namespace stoker {

inline constexpr std::string_view kParityNotePrefix = "parity-";
inline constexpr std::string_view kProfitNotePrefix = "profit-";
inline constexpr std::string_view kReproducerNotePrefix = "reproducer-";
inline constexpr std::string_view kInt8FactorsNotePrefix = "int8-factors-";
inline constexpr std::string_view kGraphNotePrefix = "graph-";
inline constexpr std::string_view kFirstRunNotePrefix = "ran-";

// Why the compiler refused the key: where there will be no artifact. Whatever
// its answer depends on is in the key.
inline constexpr std::string_view kRefusalNoteName = "refusal.txt";

// Whether an artifact answers like eager, and the inputs and outputs that it
// was refused for. What that depends on besides is in the name too: weights,
// ranges, padding, tolerances.
std::string ParityNoteName(const ArtifactId& artifact, const ModelSpec& spec);
std::string ReproducerNoteName(const ArtifactId& artifact,
                               const ModelSpec& spec);
// By which inputs of layers were evened out for that parity.
std::string Int8FactorsNoteName(const ArtifactId& artifact,
                                const ModelSpec& spec);
// What it gains over eager, computed so, timed on so many threads of a machine,
// and what a CUDA graph of it gains over it: whatever the weights.
std::string ProfitNoteName(const ArtifactId& artifact,
                           ComputePrecision precision, std::string_view machine,
                           int threads);
// Of all of these.
std::string ProfitNotePrefix(const ArtifactId& artifact,
                             ComputePrecision precision);
std::string GraphNoteName(const ArtifactId& artifact, std::string_view machine);
// That the artifact has survived a run on that machine.
std::string FirstRunNoteName(const ArtifactId& artifact,
                             std::string_view machine);

// What a pack leaves at home: what is true of one machine, and what is for
// people, and large.
const LocalNotes& NotesThatStay();

}  // namespace stoker
