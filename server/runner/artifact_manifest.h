// manifest.json of a compiled artifact, as the compile worker writes it
// (compiler/job/protocol.py documents the fields): the part that running needs.
//
// Immutable values; the functions are pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tensor/run_result.h"
#include "tensor/tensor.h"

namespace stoker {

struct ArtifactInput {
  std::string name;
  DataType dtype = DataType::kFp32;
  Shape shape;  // -1: any size of `range`
  // By dimension, least and most; empty where the shape is fixed.
  std::vector<std::pair<int64_t, int64_t>> range;
};

// A check that the worker put into the graph; `bit` of the validity output is
// set in the rows where it failed.
struct ArtifactGuard {
  int bit = 0;
  std::string text;  // "ids: index out of range, ... (aten.embedding.default)"
};

struct ArtifactManifest {
  std::string bucket;
  std::string torch;  // "2.11.0+cu130"
  std::string march;
  std::vector<ArtifactInput> inputs;
  int outputs = 0;                     // of the program
  std::optional<int> validity_output;  // index of the additional output
  std::vector<ArtifactGuard> guards;
  // Name and digest of each operator library whose operators it calls.
  std::map<std::string, std::string> operator_libraries;
  std::vector<std::string> constants;  // qualified names that it must be given
  // Those that it takes in oneDNN's layout; on a GPU, rounded to `packed_as`.
  std::set<std::string> packed;
  DataType packed_as = DataType::kFp32;  // of these, once packed
  // Those that oneDNN takes in the layout that a run's convolution wants; none
  // on a GPU.
  std::set<std::string> convolutions;
  std::string device = "cpu";  // or "cuda"
  std::string gpu_arch;        // "sm_90"; empty for a CPU
  bool tf32 = false;  // its float32 matrix products may be computed in TF32
  // Why its runs can't be captured as a CUDA graph, in one line; empty: they
  // can.
  std::string not_capturable;
};

// INVALID_ARGUMENT naming the first field that is missing or malformed.
absl::StatusOr<ArtifactManifest> ParseArtifactManifest(std::string_view text);

// The rows whose bits are not 0. One element for a batch of several rows means
// that they can't be told apart: the fault's row is -1.
std::vector<RowFault> DecodeValidity(absl::Span<const int64_t> validity,
                                     absl::Span<const ArtifactGuard> guards);

}  // namespace stoker
