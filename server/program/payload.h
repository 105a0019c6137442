// A program's weights and constants, as the archive's two config files describe
// them: each held against the member that it points into. No byte of a weight
// is read or copied, and nothing that is pickled is looked at. Private to this
// room.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "program/stored_tensor.h"
#include "program/zip_archive.h"

namespace stoker {

struct Payload {
  StoredTensors tensors;  // their bytes live as long as the archive
  int64_t bytes = 0;      // of all members that they lie in, each once
};

// `folder` is the archive's top folder, with a slash. INVALID_ARGUMENT, with
// path and place, for a pickled entry, a custom object, a member that is
// missing, a name that is there twice, and a tensor that is not dense, of no
// known dtype, not aligned, or that reaches beyond its member.
absl::StatusOr<Payload> ReadPayload(const ZipArchive& archive,
                                    const std::string& folder);

}  // namespace stoker
