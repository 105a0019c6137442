// The identity of a program's computation and of its weights.
#pragma once

#include <string>

#include "program/program_archive.h"
#include "program/program_signature.h"

namespace stoker {

// Equal for two exports of one model in two processes and folders, different
// whenever generated code could differ: it is in the key of every artifact.
//
// SHA-256 over canonical JSON (sorted members, no white space) of the graph,
// its signature, range constraints and opset, the names of inputs and outputs,
// and name, dtype, sizes, strides, offset, device and sharing of every weight
// and constant. Left out: the weights' values and members' names, nodes'
// metadata (stack traces hold paths), the sizes of the sample inputs (hints),
// torch's version (it belongs to the toolchain, not to the program).
//
// `signature` is what ReadSignature made of `archive`. Nothing of the graph is
// copied.
std::string ProgramDigest(const ProgramArchive& archive,
                          const ProgramSignature& signature);

// What of the file the compiler reads, by its bytes: two exports of one program
// may differ in it. A compile that says what it has read is compared with this:
// content_digest in compiler/program/archive.py.
std::string ContentDigest(const ProgramArchive& archive);

// SHA-256 over the names, sizes and CRC-32s of the members that hold weights
// and constants, which are not read.
std::string WeightsDigest(const ProgramArchive& archive);

}  // namespace stoker
