// `pipeline:` of a model.yaml: the graph that a model without a program of its
// own is made of. Private to this room.
//
// Thread-safe: pure functions.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "repository/pipeline_spec.h"

namespace stoker {

// Null: the text has none. `folder`: of the model, where a tokenizer's file
// lies. INVALID_ARGUMENT, a line for each mistake, as ApplyModelYaml: also for
// a tensor that nobody makes, or two do, an input that nobody uses, and a
// circle.
absl::StatusOr<std::shared_ptr<const PipelineSpec>> ReadPipeline(
    std::string_view yaml, const std::string& yaml_path,
    const std::string& folder);

}  // namespace stoker
