// A member of an archive, as JSON. Private to this room.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/status/statusor.h"
#include "program/zip_archive.h"

namespace stoker {

// INVALID_ARGUMENT, with path and member, when there is none of that name, when
// it has more than `max_bytes`, is damaged, or isn't JSON that ParseJson takes.
absl::StatusOr<nlohmann::json> ReadJsonMember(const ZipArchive& archive,
                                              const std::string& member,
                                              uint64_t max_bytes);

}  // namespace stoker
