#include "program/operator_libraries.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/absl_view.h"
#include "base/errno_status.h"
#include "base/files.h"
#include "base/sha256.h"
#include "base/status_macros.h"

namespace stoker {
namespace {

constexpr std::string_view kOwn[] = {
    "aten",         "prims",       "quantized",   "quantized_decomposed",
    "higher_order", "torchvision", "transformers"};

struct Allowed {
  std::vector<OperatorLibrary> own;
  const std::vector<OperatorLibrary>* used = &own;  // or somebody else's
};
Allowed& TheAllowed() {
  static auto& allowed = *new Allowed;
  return allowed;
}

// As Python and torch's schemas have it.
bool IsName(std::string_view text) {
  return !text.empty() && !absl::ascii_isdigit(text.front()) &&
         std::all_of(text.begin(), text.end(), [](unsigned char c) {
           return absl::ascii_isalnum(c) || c == '_';
         });
}

absl::Status CheckOwner(const std::string& path, FileInfo::Type type) {
  ASSIGN_OR_RETURN(const FileInfo info, Files::Real().Stat(path));
  if (info.type != type) {
    return absl::InvalidArgumentError(absl::StrCat(path, " is not a file"));
  }
  return CheckOnlyOwnerWrites(
      info, absl::StrCat(path, ", which code that runs here is read from,"),
      /*root_may_own=*/true, "0755");
}

absl::StatusOr<OperatorLibrary> ReadOperatorLibrary(std::string_view text) {
  const size_t equals = text.find('=');
  const std::string_view name = text.substr(0, equals);
  if (equals == text.npos || !IsName(name) || equals + 1 == text.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected NAME=FILE, NAME being that of "
                     "torch.ops.NAME.<operator>, got \"",
                     Absl(text), "\""));
  }
  if (IsOwnLibrary(name)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "expected operators that the server lacks, got those of torch.ops.",
        Absl(name)));
  }
  const std::string given(text.substr(equals + 1));
  std::error_code error;
  const std::filesystem::path path = std::filesystem::canonical(given, error);
  if (error) return ErrnoStatus(error.value(), given);
  RETURN_IF_ERROR(CheckOwner(path, FileInfo::Type::kFile));
  RETURN_IF_ERROR(CheckOwner(path.parent_path(), FileInfo::Type::kFolder));
  ASSIGN_OR_RETURN(std::string digest, Sha256File(path));
  return OperatorLibrary{std::string(name), path, std::move(digest)};
}

}  // namespace

absl::StatusOr<std::vector<OperatorLibrary>> AllowOperatorLibraries(
    const std::vector<std::string>& texts) {
  std::vector<OperatorLibrary> libraries;
  for (const std::string& text : texts) {
    ASSIGN_OR_RETURN(OperatorLibrary library, ReadOperatorLibrary(text));
    for (const OperatorLibrary& other : libraries) {
      if (other.name == library.name) {
        return absl::InvalidArgumentError(absl::StrCat(
            "expected one library with the operators of torch.ops.", other.name,
            ", got ", other.path, " and ", library.path));
      }
    }
    libraries.push_back(std::move(library));
  }
  TheAllowed().own = libraries;
  return libraries;
}

const std::vector<OperatorLibrary>& AllowedOperatorLibraries() {
  return *TheAllowed().used;
}

void ShareOperatorLibraries(const std::vector<OperatorLibrary>& allowed) {
  TheAllowed().used = &allowed;
}

const OperatorLibrary* FindOperatorLibrary(std::string_view name) {
  const std::vector<OperatorLibrary>& allowed = AllowedOperatorLibraries();
  const auto found = std::find_if(
      allowed.begin(), allowed.end(),
      [name](const auto& library) { return library.name == name; });
  return found == allowed.end() ? nullptr : &*found;
}

bool IsOwnLibrary(std::string_view name) {
  return std::find(std::begin(kOwn), std::end(kOwn), name) != std::end(kOwn);
}

}  // namespace stoker
