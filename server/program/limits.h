// How much of a .pt2 archive is accepted from somebody nobody vouches for, all
// of it in one place. The compile worker's reader holds to the same numbers
// (compiler/program/limits.py).
#pragma once

#include <cstddef>
#include <cstdint>

namespace stoker {

inline constexpr int kMaxArchiveMembers = 1 << 20;

// Bytes of models/model.json. A graph of 100,000 nodes takes some 100 MB.
inline constexpr uint64_t kMaxGraphBytes = uint64_t{512} << 20;
// Of each of the two files that describe the weights and the constants.
inline constexpr uint64_t kMaxConfigBytes = uint64_t{64} << 20;
// Of archive_format and byteorder, one word each.
inline constexpr uint64_t kMaxMarkerBytes = 64;

inline constexpr int kMaxJsonDepth = 200;
// A parsed value takes some ten times the memory of its text.
inline constexpr int64_t kMaxJsonValues = 20'000'000;

// Rows that a loop runs over that is unrolled: each is a copy of its graph, to
// be compiled. And what all of a program's unroll to: the bytes of texts, and
// 32 for every JSON value. An operator takes some 4 KB.
inline constexpr int kMaxUnrolledSteps = 256;
inline constexpr int64_t kMaxUnrolledWeight = 128 << 20;

// Axes of a weight; torch's own kernels stop here.
inline constexpr size_t kMaxStoredRank = 64;
// Axes of an input or output.
inline constexpr size_t kMaxArgumentRank = 32;

// Inputs and outputs each, and the bytes of a name of theirs.
inline constexpr size_t kMaxLeaves = 4096;
inline constexpr size_t kMaxLeafNameBytes = 256;

// The text of a size that is an expression, and what it may be: the last two
// bound how long it takes to evaluate.
inline constexpr size_t kMaxExpressionBytes = 1 << 16;
inline constexpr int kMaxExpressionDepth = 50;
inline constexpr int kMaxExpressionNodes = 256;  // powers written out
inline constexpr int64_t kMaxExponent = 8;

}  // namespace stoker
