#include "runner/device_program.h"

#include <unistd.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/json_text.h"
#include "base/status_macros.h"
#include "nlohmann/json.hpp"
#include "program/limits.h"
#include "runner/program_writer.h"

namespace stoker {
namespace {

using nlohmann::json;

constexpr absl::string_view kGraph = "models/model.json";

bool IsDevice(const json& value) {
  if (!value.is_object() || value.size() != 2) return false;
  const auto type = value.find("type");
  const auto index = value.find("index");
  return type != value.end() && index != value.end() && type->is_string() &&
         (*type == "cpu" || *type == "cuda") &&
         (index->is_null() || index->is_number_integer());
}

// The members that say where tensors are.
bool NamesDevices(absl::string_view name) {
  return name == kGraph || name == "data/weights/model_weights_config.json" ||
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
  return WriteChangedProgram(
      zip, [&](absl::string_view name) -> absl::StatusOr<ChangedMember> {
        ChangedMember member;
        if (!NamesDevices(name)) return member;
        json document;
        if (name == kGraph) {
          // As nativert can run it.
          document = archive.program();
        } else {
          const std::string full_name = absl::StrCat(archive.folder(), name);
          ASSIGN_OR_RETURN(const std::string_view text,
                           zip.ReadChecked(full_name, kMaxConfigBytes));
          document = ReadJson(text);
        }
        MoveDevices(document, device);
        member.text = JsonText(document, {.ascii = true});
        return member;
      });
}

void EmptyDeviceProgram(const FileDescriptor& program) {
  // Fails only for what is no file of this process's own.
  if (ftruncate(program.get(), 0) != 0) return;
}

}  // namespace stoker
