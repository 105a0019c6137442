// The metrics' labels of a version.
#pragma once

#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "metrics/metrics.h"
#include "repository/model_spec.h"

namespace stoker {

inline Labels VersionLabels(const ModelSpec& spec) {
  return {{"model", spec.name}, {"version", absl::StrCat(spec.version)}};
}

// `labels` and one more.
inline Labels With(Labels labels, const std::string& key,
                   std::string_view value) {
  labels[key] = value;
  return labels;
}

}  // namespace stoker
