#include "rpc/client_outputs.h"

#include <optional>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/error_text.h"
#include "base/status_macros.h"
#include "repository/model_spec.h"
#include "rpc/bytes_elements.h"
#include "rpc/classification.h"

namespace stoker {

absl::Status ToClients(const ModelSpec& spec, absl::Span<const int> indices,
                       absl::Span<const size_t> classes,
                       absl::Span<Tensor> outputs) {
  for (size_t i = 0; i < indices.size(); ++i) {
    const auto index = static_cast<size_t>(indices[i]);
    Tensor& output = outputs[index];
    if (i < classes.size() && classes[i] > 0) {
      ASSIGN_OR_RETURN(output, Classify(spec, indices[i], output, classes[i]));
      continue;
    }
    const OutputSpec& known = spec.outputs[index];
    if (known.is_bytes) output = RowsToBytes(output);
    if (!known.reshape.has_value()) continue;
    std::optional<Shape> shape = known.reshape->ToClients(output.shape);
    if (!shape.has_value()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "output '", known.name, "' for model '", spec.name, "' is ",
          ShapeExcerpt(output.shape), " for this request, expected ",
          ShapeExcerpt(known.reshape->shape), ", to be reshaped to ",
          ShapeExcerpt(known.reshape->dims)));
    }
    output.shape = *std::move(shape);
  }
  return absl::OkStatus();
}

}  // namespace stoker
