#include "rpc/requested_outputs.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/absl_view.h"
#include "base/error_text.h"
#include "base/status_macros.h"
#include "repository/model_spec.h"
#include "rpc/classification.h"
#include "rpc/request_parameters.h"

namespace stoker {

absl::StatusOr<OutputIndices> SelectOutputs(const RequestView& request,
                                            const ModelSpec& spec) {
  OutputIndices selected;
  if (request.outputs.empty()) {
    for (size_t i = 0; i < spec.outputs.size(); ++i)
      selected.push_back(static_cast<int>(i));
    return selected;
  }
  for (const RequestView::Output& output : request.outputs) {
    const auto found = std::find_if(
        spec.outputs.begin(), spec.outputs.end(),
        [&](const OutputSpec& known) { return known.name == output.name; });
    if (found == spec.outputs.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("unexpected inference output '", Excerpt(output.name),
                       "' for model '", spec.name, "'"));
    }
    const auto index = static_cast<int>(found - spec.outputs.begin());
    if (std::find(selected.begin(), selected.end(), index) != selected.end()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "output '", Absl(output.name),
          "' is requested more than once for model '", spec.name, "'"));
    }
    selected.push_back(index);
  }
  return selected;
}

absl::StatusOr<std::vector<size_t>> SelectClasses(
    const RequestView& request, const ModelSpec& spec,
    const OutputIndices& outputs) {
  std::vector<size_t> classes;
  for (size_t i = 0; i < request.outputs.size(); ++i) {
    const RequestView::Output& output = request.outputs[i];
    if (output.parameters == nullptr) continue;
    ASSIGN_OR_RETURN(const TensorParameters parsed,
                     ParseTensorParameters(
                         absl::StrCat("output '", Excerpt(output.name), "'"),
                         *output.parameters));
    if (parsed.classes == 0) continue;
    RETURN_IF_ERROR(CheckClassified(spec, outputs[i]));
    classes.resize(outputs.size());
    classes[i] = parsed.classes;
  }
  return classes;
}

}  // namespace stoker
