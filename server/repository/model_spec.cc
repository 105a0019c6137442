#include "repository/model_spec.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "program/zip_archive.h"

namespace stoker {

bool IsResourceName(std::string_view name) {
  constexpr size_t kLongest = 64;
  return !name.empty() && name.size() <= kLongest && name != "cpu" &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return absl::ascii_isalnum(c) || c == '_' || c == '-' || c == '.';
         });
}

std::string ModelSpec::Label() const {
  return absl::StrCat(name, ":", version);
}

std::optional<int64_t> ModelSpec::SizeOfRequests(int dimension) const {
  for (const InputSpec& input : inputs) {
    if (!input.batch_input.has_value() ||
        input.batch_input->kind == BatchInput::Kind::kMaxElementCountAsShape) {
      continue;
    }
    const auto affine = input.dims[0].AsAffine();
    if (affine->dimension != dimension) continue;
    return affine->Solve(
        BatchInputSize(input.batch_input->kind, max_ragged_requests, 0));
  }
  return std::nullopt;
}

std::string ModelSpec::HeldPath() const {
  return program_file == nullptr ? program_path : program_file->held_path();
}

absl::Status ModelSpec::ByItsName(const absl::Status& status) const {
  return absl::Status(
      status.code(),
      absl::StrReplaceAll(status.message(), {{HeldPath(), program_path}}));
}

absl::Status ModelSpec::CheckUnchanged() const {
  if (program_file == nullptr || program_file->Unchanged()) {
    return absl::OkStatus();
  }
  return absl::DataLossError(
      absl::StrCat(program_path,
                   " was written to since it was read: put another program "
                   "into another version's folder, or replace the file by a "
                   "rename"));
}

std::vector<std::string> ModelSpec::DimensionNames() const {
  std::vector<std::string> names;
  names.reserve(dimensions.size());
  for (const DimensionSpec& dimension : dimensions) {
    names.push_back(dimension.name);
  }
  return names;
}

}  // namespace stoker
