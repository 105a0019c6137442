// The buckets that a version is loaded with where model.yaml leaves them to the
// traffic (`buckets: auto`), and whether the traffic of one that serves asks
// for others by now. What was chosen is remembered in the record of the
// traffic.
#pragma once

#include <memory>

#include "models/version_deps.h"
#include "planning/traffic.h"
#include "repository/model_spec.h"
#include "runner/toolchain.h"

namespace stoker {

// The spec itself, or one with the buckets that its traffic asks for. `deps`:
// whose cache says what runs and compiles take; null: the spec itself.
std::shared_ptr<const ModelSpec> WithChosenBuckets(
    std::shared_ptr<const ModelSpec> spec, const VersionDeps& deps,
    const Toolchain& toolchain, ModelTraffic& recorded);

// Null where the traffic speaks for no others than were chosen last.
std::shared_ptr<const ModelSpec> WithBetterBuckets(const ModelSpec& spec,
                                                   const VersionDeps& deps,
                                                   const Toolchain& toolchain,
                                                   ModelTraffic& recorded);

}  // namespace stoker
