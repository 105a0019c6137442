// A changed program for nativert, which only opens files: an archive in an
// anonymous file in memory. Private to this room.
#pragma once

#include <optional>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/file_descriptor.h"
#include "program/zip_archive.h"

namespace stoker {

struct ChangedMember {
  bool is_kept = true;              // else it is left out
  std::optional<std::string> text;  // in place of what it holds
};

// The archive with every member as `change` has it, by its name without the
// archive's top folder. Open it as PathOfDescriptor says. RESOURCE_EXHAUSTED
// when there is no memory for it, and what `change` says where it fails.
absl::StatusOr<FileDescriptor> WriteChangedProgram(
    const ZipArchive& zip,
    absl::FunctionRef<absl::StatusOr<ChangedMember>(absl::string_view name)>
        change);

// "/proc/self/fd/N".
std::string PathOfDescriptor(const FileDescriptor& file);

}  // namespace stoker
