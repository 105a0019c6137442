#include "repository/ragged_yaml.h"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/absl_view.h"

namespace stoker {
namespace {

// Of a batch where model.yaml gives no max_batch_size.
constexpr int64_t kDefaultRequests = 8;
constexpr int64_t kMostRequests = 1024;

constexpr char kCounted[] =
    "an input of one dynamic axis that requests bring, whose elements are "
    "counted";

std::optional<int> IndexOf(const ModelSpec& spec, std::string_view name) {
  for (size_t i = 0; i < spec.inputs.size(); ++i) {
    if (spec.inputs[i].name == name) return static_cast<int>(i);
  }
  return std::nullopt;
}

void ReadBatchInput(const YamlValue& value, ModelSpec& spec, int index) {
  InputSpec& input = spec.inputs[static_cast<size_t>(index)];
  const auto fields = value.Map({"kind", "source"});
  if (!fields) return;
  BatchInput made;
  bool has_kind = false, has_source = false;
  for (const auto& [key, field] : *fields) {
    if (key == "kind") {
      const auto kind = BatchInputKind(field.text());
      has_kind = kind.has_value();
      if (!has_kind) {
        return field.Error(absl::StrCat(
            "one of ",
            absl::StrJoin(
                kBatchInputKinds, ", ", [](std::string* out, auto known) {
                  absl::StrAppend(out, Absl(BatchInputKindName(known)));
                })));
      }
      made.kind = *kind;
    } else {
      const auto source = IndexOf(spec, field.text());
      has_source = source.has_value();
      if (!has_source) return field.Error(kCounted);
      made.source = *source;
    }
  }
  if (!has_kind || !has_source) return value.Error("a kind and a source");
  if (input.dims.size() != 1 || !input.dims[0].AsAffine().has_value()) {
    return value.Error("an input of one dynamic axis", "another");
  }
  input.batch_input = made;
  input.default_value = 0;
}

// The dimension that is axis 0 of every input that requests bring; -1: none is.
int ElementDimension(const ModelSpec& spec) {
  int found = -1;
  for (const InputSpec& input : spec.inputs) {
    if (input.batch_input.has_value()) continue;
    if (input.dims.empty() || !input.dims[0].is_dimension()) return -1;
    const int dimension = input.dims[0].dimension();
    if (found >= 0 && dimension != found) return -1;
    found = dimension;
  }
  return found;
}

}  // namespace

void ReadRagged(const YamlValue& value, ModelSpec& spec) {
  std::vector<std::string> names;
  for (const InputSpec& input : spec.inputs) names.push_back(input.name);
  const auto entries = value.Map(names);
  if (!entries) return;
  if (entries->empty()) return value.Error("an input that is made of batches");
  for (const auto& [name, entry] : *entries) {
    ReadBatchInput(entry, spec, *IndexOf(spec, name));
  }
  const int elements = ElementDimension(spec);
  if (elements < 0) {
    return value.Error("a dynamic dimension that is axis 0 of all other inputs",
                       "none");
  }
  for (const InputSpec& input : spec.inputs) {
    if (!input.batch_input.has_value()) continue;
    const InputSpec& source =
        spec.inputs[static_cast<size_t>(input.batch_input->source)];
    if (source.batch_input.has_value() || source.dims.size() != 1) {
      return value.Error(kCounted, source.name);
    }
    const int dimension = input.dims[0].AsAffine()->dimension;
    if (dimension == elements) {
      return value.Error(
          absl::StrCat("a dimension of its own for ", input.name),
          "that of the elements");
    }
    DimensionSpec& its = spec.dimensions[static_cast<size_t>(dimension)];
    its.padding = true;
    // How long a request has to be is each request's matter.
    if (input.batch_input->kind == BatchInput::Kind::kMaxElementCountAsShape) {
      continue;
    }
    const int64_t alone = BatchInputSize(input.batch_input->kind, 1, 1);
    const auto least = input.dims[0].AsAffine()->Solve(alone);
    if (!least.has_value() || *least < its.min) {
      return value.Error(
          absl::StrCat("a program that takes one request, ", input.name, " of ",
                       alone),
          absl::StrCat("a least size of ", its.min, " of ", its.name));
    }
  }
  spec.batch_dimension = elements;
  spec.max_ragged_requests =
      std::min(kDefaultRequests, MostRaggedRequests(spec));
}

int64_t MostRaggedRequests(const ModelSpec& spec) {
  int64_t most = kMostRequests;
  for (const InputSpec& input : spec.inputs) {
    if (!input.batch_input.has_value() ||
        input.batch_input->kind == BatchInput::Kind::kMaxElementCountAsShape) {
      continue;
    }
    const DimExpr::Affine size = *input.dims[0].AsAffine();
    const int64_t max =
        spec.dimensions[static_cast<size_t>(size.dimension)].max;
    const int64_t more = BatchInputSize(input.batch_input->kind, 0, 0);
    if (max > kMostRequests) continue;
    most = std::min(most, size.scale * max + size.offset - more);
  }
  return most;
}

}  // namespace stoker
