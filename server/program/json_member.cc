#include "program/json_member.h"

#include "absl/strings/str_cat.h"
#include "program/json_cursor.h"

namespace stoker {

absl::StatusOr<nlohmann::json> ReadJsonMember(const ZipArchive& archive,
                                              const std::string& member,
                                              uint64_t max_bytes) {
  const absl::StatusOr<std::string_view> text =
      archive.ReadChecked(member, max_bytes);
  if (!text.ok()) {
    // NOT_FOUND is said of the file only.
    return absl::InvalidArgumentError(text.status().message());
  }
  return ParseJson(*text, absl::StrCat(archive.path(), ": ", member));
}

}  // namespace stoker
