// What the protocol's descriptive calls answer, computed from plain values.
//
// Thread-safe: pure functions.
#pragma once

#include <cstdint>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "models/model_manager.h"
#include "open_inference.pb.h"

namespace stoker {

// A version as the wire gives it; "" is any. INVALID_ARGUMENT unless it is a
// positive integer or could be an alias, of which nothing is copied.
absl::StatusOr<WantedVersion> ParseVersion(std::string_view version);

// `shared_memory`: whether clients' is allowed.
void FillServerMetadata(std::string_view name, std::string_view version,
                        bool shared_memory,
                        inference::ServerMetadataResponse* response);

// All but `versions`.
void FillModelMetadata(const ModelSpec& spec,
                       inference::ModelMetadataResponse* response);

// Clients drop the first dimension of the metadata's shapes when max_batch_size
// is above 0, and read the presence of a sub-message as the choice of a
// scheduler.
void FillModelConfig(const ModelSpec& spec, inference::ModelConfig* config);

void FillModelStatistics(const ModelSpec& spec, const StatsSnapshot& stats,
                         inference::ModelStatistics* out);

void FillRepositoryIndex(absl::Span<const VersionStatus> versions,
                         bool ready_only,
                         inference::RepositoryIndexResponse* response);

}  // namespace stoker
