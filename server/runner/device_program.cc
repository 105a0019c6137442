#include "runner/device_program.h"

#include <caffe2/serialize/inline_container.h>
#include <sys/mman.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "runner/torch_errors.h"

namespace stoker {
namespace {

using nlohmann::json;

bool IsDevice(const json& value) {
  if (!value.is_object() || value.size() != 2) return false;
  const auto type = value.find("type");
  const auto index = value.find("index");
  return type != value.end() && index != value.end() && type->is_string() &&
         (*type == "cpu" || *type == "cuda") &&
         (index->is_null() || index->is_number_integer());
}

// What torch's writer adds by itself.
bool IsWritersOwn(absl::string_view name) {
  return name == "version" || absl::StartsWith(name, ".data/");
}

// The members that say where tensors are.
bool NamesDevices(absl::string_view name) {
  return name == "models/model.json" ||
         name == "data/weights/model_weights_config.json" ||
         name == "data/constants/model_constants_config.json";
}

}  // namespace

void MoveDevices(json& value, const Device& device) {
  // A list of its own: the text is untrusted and may be nested more deeply than
  // a stack.
  std::vector<json*> open = {&value};
  while (!open.empty()) {
    json& next = *open.back();
    open.pop_back();
    if (IsDevice(next)) {
      next["type"] = device.is_gpu() ? "cuda" : "cpu";
      next["index"] = device.is_gpu() ? json(device.index) : json(nullptr);
      continue;
    }
    if (!next.is_structured()) continue;
    for (json& child : next) {
      if (child.is_structured()) open.push_back(&child);
    }
  }
}

absl::StatusOr<FileDescriptor> WriteDeviceProgram(const ProgramArchive& archive,
                                                  const Device& device) {
  const ZipArchive& zip = *archive.zip();
  const absl::string_view what = "memory for a program's copy";
  FileDescriptor file(memfd_create("stoker-device-program", MFD_CLOEXEC));
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
      if (NamesDevices(name)) {
        const auto text = zip.ReadChecked(full_name, member.size);
        if (!text.ok()) return text.status();
        json document = json::parse(*text, nullptr, false);
        MoveDevices(document, device);
        const std::string moved =
            document.dump(-1, ' ', true, json::error_handler_t::replace);
        writer.writeRecord(std::string(name), moved.data(), moved.size());
      } else {
        const auto bytes = zip.View(full_name);
        if (!bytes.ok()) return bytes.status();
        writer.writeRecord(std::string(name), bytes->data(), bytes->size());
      }
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

void EmptyDeviceProgram(const FileDescriptor& program) {
  // Fails only for what is no file of this process's own.
  if (ftruncate(program.get(), 0) != 0) return;
}

}  // namespace stoker
