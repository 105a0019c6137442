// ReadProgram: from an archive of torch.export.save to a ModelSpec.

#include <new>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/absl_view.h"
#include "base/status_macros.h"
#include "program/json_cursor.h"
#include "program/zip_archive.h"
#include "repository/model_repository.h"
#include "repository/payload.h"
#include "repository/program_digest.h"
#include "repository/program_signature.h"

namespace stoker {
namespace {

constexpr uint64_t kMaxProgramBytes = uint64_t{512} << 20;

absl::Status BadArchive(const ZipArchive& archive, std::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat(archive.path(), ": ", Absl(what)));
}

absl::Status CheckMarker(const ZipArchive& archive, const std::string& member,
                         std::string_view expected) {
  constexpr uint64_t kMaxMarkerBytes = 64;
  absl::StatusOr<std::string_view> content =
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

// The folder that all members lie in; its name is the saved file's.
absl::StatusOr<std::string> TopFolder(const ZipArchive& archive) {
  std::string top;
  for (const auto& [name, member] : archive.members()) {
    const size_t slash = name.find('/');
    if (slash == 0 || slash == name.npos ||
        (!top.empty() && name.substr(0, slash) != top)) {
      return BadArchive(
          archive,
          absl::StrCat("expected all members in one folder, got ", name));
    }
    top = name.substr(0, slash);
  }
  if (top.empty()) return BadArchive(archive, "expected members, got none");
  return top;
}

absl::Status CheckLayout(const ZipArchive& archive, const std::string& top) {
  RETURN_IF_ERROR(CheckMarker(archive, top + "/archive_format", "pt2"));
  RETURN_IF_ERROR(CheckMarker(archive, top + "/byteorder", "little"));
  for (const auto& [name, member] : archive.members()) {
    if (name.starts_with(top + "/data/aotinductor/")) {
      return BadArchive(archive,
                        absl::StrCat("expected a program without compiled "
                                     "code, got ",
                                     name));
    }
    if (name.starts_with(top + "/data/constants/custom_obj")) {
      return BadArchive(archive,
                        absl::StrCat("expected no custom objects, got ", name));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckParameters(const ZipArchive& archive,
                             const std::set<std::string>& wanted,
                             const Payload& payload) {
  std::set<std::string_view> stored;
  for (const PayloadTensor& tensor : payload.tensors) {
    stored.insert(tensor.name);
  }
  for (const std::string& name : wanted) {
    if (stored.contains(name)) continue;
    return BadArchive(archive,
                      absl::StrCat("expected a weight or constant ", name,
                                   ", which the program takes, got none"));
  }
  return absl::OkStatus();
}

absl::StatusOr<ModelSpec> ReadArchive(const ZipArchive& archive) {
  ASSIGN_OR_RETURN(const std::string top, TopFolder(archive));
  RETURN_IF_ERROR(CheckLayout(archive, top));
  const std::string member = top + "/models/model.json";
  const std::string where = absl::StrCat(archive.path(), ": ", member);
  ASSIGN_OR_RETURN(const std::string_view text,
                   archive.ReadChecked(member, kMaxProgramBytes));
  ASSIGN_OR_RETURN(nlohmann::json document, ParseJson(text, where));

  ModelSpec spec;
  ASSIGN_OR_RETURN(const std::set<std::string> parameters,
                   ReadSignature(JsonCursor(document, where), spec));
  ASSIGN_OR_RETURN(const Payload payload, ReadPayload(archive, top));
  RETURN_IF_ERROR(CheckParameters(archive, parameters, payload));
  spec.program_path = archive.path();
  spec.weights_digest = payload.digest;
  spec.weights_bytes = payload.bytes;
  spec.program_digest = ProgramDigest(document, spec, payload);
  return spec;
}

}  // namespace

absl::StatusOr<ModelSpec> ReadProgram(const std::string& pt2_path) {
  ASSIGN_OR_RETURN(const std::shared_ptr<const ZipArchive> archive,
                   ZipArchive::Open(pt2_path));
  // Every access is checked, but a JSON library that throws must not take the
  // server with it.
  try {
    return ReadArchive(*archive);
  } catch (const nlohmann::json::exception& error) {
    return BadArchive(*archive, error.what());
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError(absl::StrCat(
        pt2_path, ": expected a program that fits into memory, it doesn't"));
  }
}

}  // namespace stoker
