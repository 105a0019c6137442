#include "program/program_archive.h"

#include <new>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/absl_view.h"
#include "base/json_field.h"
#include "base/mapped_file.h"
#include "base/status_macros.h"
#include "program/called_graphs.h"
#include "program/fixed_values.h"
#include "program/inlined_wrappers.h"
#include "program/json_cursor.h"
#include "program/json_member.h"
#include "program/limits.h"
#include "program/number_arguments.h"
#include "program/operator_libraries.h"
#include "program/other_formats.h"
#include "program/payload.h"
#include "program/plain_containers.h"
#include "program/program_check.h"

namespace stoker {
namespace {

using nlohmann::json;

constexpr std::string_view kModels = "models/";

absl::Status BadArchive(const ZipArchive& archive, std::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat(archive.path(), ": ", Absl(what)));
}

std::string ProgramMember(const std::string& folder) {
  return absl::StrCat(folder, Absl(kModels), ProgramArchive::kModelName,
                      ".json");
}

absl::Status CheckMarker(const ZipArchive& archive, const std::string& member,
                         std::string_view expected) {
  const absl::StatusOr<std::string_view> content =
      archive.ReadChecked(member, kMaxMarkerBytes);
  if (content.ok() && *content == expected) return absl::OkStatus();
  const std::string found = content.ok()
                                ? absl::StrCat("\"", Absl(*content), "\"")
                                : std::string(content.status().message());
  return BadArchive(
      archive,
      absl::StrCat("expected an archive written by torch.export.save, ",
                   "with ", member, " = \"", Absl(expected), "\", got ",
                   found));
}

// The folder that all members lie in, with a slash; its name is the saved
// file's.
absl::StatusOr<std::string> TopFolder(const ZipArchive& archive) {
  std::string top;
  for (const auto& [name, member] : archive.members()) {
    const size_t slash = name.find('/');
    if (slash == 0 || slash == name.npos ||
        (!top.empty() && name.substr(0, slash + 1) != top)) {
      return BadArchive(
          archive,
          absl::StrCat("expected all members in one folder, got ", name));
    }
    top = name.substr(0, slash + 1);
  }
  if (top.empty()) return BadArchive(archive, "expected members, got none");
  return top;
}

absl::Status CheckLayout(const ZipArchive& archive, const std::string& folder) {
  RETURN_IF_ERROR(CheckMarker(archive, folder + "archive_format", "pt2"));
  RETURN_IF_ERROR(CheckMarker(archive, folder + "byteorder", "little"));
  const std::string program = ProgramMember(folder);
  for (const auto& [full_name, member] : archive.members()) {
    const std::string_view name =
        std::string_view(full_name).substr(folder.size());
    if (name.starts_with(kModels) && full_name != program) {
      return BadArchive(archive, absl::StrCat("expected one program, ", program,
                                              ", got ", full_name));
    }
    if (name.starts_with("data/aotinductor/")) {
      return BadArchive(
          archive,
          absl::StrCat("expected a program without compiled code, got ",
                       full_name));
    }
    if (name.starts_with("data/constants/custom_obj")) {
      return BadArchive(
          archive, absl::StrCat("expected no custom objects, got ", full_name));
    }
  }
  return absl::OkStatus();
}

// Whether any value of the graph is on a GPU.
bool HasGpuValues(const json& program) {
  const json& graph = Field(Field(program, "graph_module"), "graph");
  for (const json& value : Field(graph, "tensor_values")) {
    if (Field(Field(value, "device"), "type") == "cuda") return true;
  }
  return false;
}

}  // namespace

ProgramArchive::ProgramArchive(std::shared_ptr<const ZipArchive> zip)
    : zip_(std::move(zip)) {}

absl::StatusOr<std::shared_ptr<const ProgramArchive>> ProgramArchive::Open(
    const std::string& pt2_path) {
  absl::StatusOr<std::shared_ptr<const ProgramArchive>> archive =
      OpenExported(pt2_path);
  if (!absl::IsInvalidArgument(archive.status())) return archive;
  const auto file = MappedFile::Open(pt2_path);
  const std::string_view other =
      file.ok() ? OtherFormat((*file)->bytes()) : std::string_view();
  if (other.empty()) return archive;
  return absl::InvalidArgumentError(
      absl::StrCat(archive.status().message(), "; this is ", Absl(other)));
}

absl::StatusOr<std::shared_ptr<const ProgramArchive>>
ProgramArchive::OpenExported(const std::string& pt2_path) {
  ASSIGN_OR_RETURN(auto zip, ZipArchive::Open(pt2_path));
  std::shared_ptr<ProgramArchive> archive(new ProgramArchive(std::move(zip)));
  // Every access is checked, but a JSON library that throws must not take the
  // server with it.
  try {
    RETURN_IF_ERROR(archive->Read());
  } catch (const json::exception& error) {
    return BadArchive(*archive->zip_, error.what());
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError(absl::StrCat(
        pt2_path, ": expected a program that fits into memory, it doesn't"));
  }
  return archive;
}

std::string ProgramArchive::program_place() const {
  return absl::StrCat(path(), ": ", ProgramMember(folder_));
}

absl::Status ProgramArchive::Read() {
  ASSIGN_OR_RETURN(folder_, TopFolder(*zip_));
  RETURN_IF_ERROR(CheckLayout(*zip_, folder_));
  ASSIGN_OR_RETURN(json program, ReadJsonMember(*zip_, ProgramMember(folder_),
                                                kMaxGraphBytes));
  ASSIGN_OR_RETURN(CalledOperators called,
                   CheckGraph(JsonCursor(program, program_place())));
  for (const std::string& name : called.libraries) {
    operator_libraries_[name] = FindOperatorLibrary(name)->digest;
  }
  unlisted_operators_ = std::move(called.unlisted);
  ASSIGN_OR_RETURN(const bool inlined,
                   InlineWrappers(program, program_place()));
  const bool containers = UsePlainContainers(program);
  const bool fixed = DropFixedValues(program);
  const bool numbers = UseNumberOverloads(program);
  is_rewritten_ = inlined || containers || fixed || numbers;
  program_ = std::make_shared<const json>(std::move(program));
  const JsonCursor cursor(*program_, program_place());
  ASSIGN_OR_RETURN(const JsonCursor module, cursor.Member("graph_module"));
  ASSIGN_OR_RETURN(const JsonCursor graph, module.Member("graph"));
  RETURN_IF_ERROR(CheckCalledGraphs(graph));
  ASSIGN_OR_RETURN(Payload payload, ReadPayload(*zip_, folder_));
  tensors_ = std::move(payload.tensors);
  weights_bytes_ = payload.bytes;
  exported_on_gpu_ = HasGpuValues(*program_);
  return CheckWeights(cursor, tensors_);
}

absl::Status ProgramArchive::CheckRunsOnCpu() const {
  if (!exported_on_gpu_) return absl::OkStatus();
  return BadArchive(*zip_,
                    "was exported on a GPU, expected one that was exported on "
                    "the CPU; or say 'device: cuda:0' in model.yaml");
}

}  // namespace stoker
