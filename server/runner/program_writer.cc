#include "runner/program_writer.h"

#include <caffe2/serialize/inline_container.h>
#include <sys/mman.h>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "runner/torch_errors.h"

namespace stoker {
namespace {

// What torch's writer adds by itself.
bool IsWritersOwn(absl::string_view name) {
  return name == "version" || absl::StartsWith(name, ".data/");
}

}  // namespace

absl::StatusOr<FileDescriptor> WriteChangedProgram(
    const ZipArchive& zip,
    absl::FunctionRef<absl::StatusOr<ChangedMember>(absl::string_view name)>
        change) {
  const absl::string_view what = "memory for a changed program";
  FileDescriptor file(memfd_create("stoker-program", MFD_CLOEXEC));
  if (!file.ok()) return LastError("make", std::string(what));
  absl::Status written = absl::OkStatus();
  const auto write = [&](const void* data, size_t bytes) -> size_t {
    if (!written.ok()) return 0;
    written = WriteAll(file.get(), {static_cast<const char*>(data), bytes},
                       std::string(what));
    return written.ok() ? bytes : 0;
  };
  try {
    caffe2::serialize::PyTorchStreamWriter writer(write);
    for (const auto& [full_name, member] : zip.members()) {
      const absl::string_view name =
          absl::string_view(full_name).substr(full_name.find('/') + 1);
      if (IsWritersOwn(name)) continue;
      ASSIGN_OR_RETURN(const ChangedMember changed, change(name));
      if (!changed.is_kept) continue;
      if (changed.text) {
        writer.writeRecord(std::string(name), changed.text->data(),
                           changed.text->size());
        continue;
      }
      ASSIGN_OR_RETURN(const std::string_view bytes, zip.View(full_name));
      writer.writeRecord(std::string(name), bytes.data(), bytes.size());
    }
    writer.writeEndOfFile();
  } catch (...) {
    // torch says of a failed write only that it failed.
    if (written.ok()) return EagerError(zip.path());
  }
  if (written.ok()) return file;
  return absl::ResourceExhaustedError(
      absl::StrCat(zip.path(), ": ", written.message()));
}

std::string PathOfDescriptor(const FileDescriptor& file) {
  return absl::StrCat("/proc/self/fd/", file.get());
}

}  // namespace stoker
