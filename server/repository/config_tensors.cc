#include "repository/config_tensors.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace stoker {
namespace {

// The position that a name such as "INPUT__0" ends in.
std::optional<size_t> PositionIn(const std::string& name) {
  const size_t mark = name.rfind("__");
  size_t position = 0;
  if (mark == name.npos ||
      name.find_first_not_of("0123456789", mark + 2) != name.npos ||
      !absl::SimpleAtoi(name.substr(mark + 2), &position)) {
    return std::nullopt;
  }
  return position;
}

std::string ShapeText(absl::Span<const DimExpr> dims) {
  return absl::StrCat("[",
                      absl::StrJoin(dims, ", ",
                                    [](std::string* out, const DimExpr& dim) {
                                      absl::StrAppend(out, dim.is_constant()
                                                               ? dim.constant()
                                                               : -1);
                                    }),
                      "]");
}

class TensorMatcher {
 public:
  TensorMatcher(const ConfigPbtxt& file, const ModelSpec& program,
                ConfigNotes& notes)
      : config_(file.config), root_(file, notes), program_(program) {}

  ConfigTensors Match() {
    found_.inputs = MatchAll("input", config_.input(), program_.inputs);
    found_.outputs = MatchAll("output", config_.output(), program_.outputs);
    CheckComplete();
    for (const triton::ModelOutput& output : config_.output()) {
      CheckLabels(output, static_cast<int>(&output - &config_.output(0)));
    }
    for (int i = 0; i < config_.model_warmup_size(); ++i) ReadSample(i);
    return std::move(found_);
  }

 private:
  // Which of the program's tensors each name means; noted where none.
  template <typename Tensors, typename Specs>
  std::vector<ConfigTensors::Name> MatchAll(const std::string& field,
                                            const Tensors& tensors,
                                            const Specs& specs) {
    std::vector<std::string> known;
    known.reserve(specs.size());
    for (const auto& spec : specs) known.push_back(spec.name);
    const auto by_name = [&](const std::string& name) {
      return static_cast<size_t>(std::find(known.begin(), known.end(), name) -
                                 known.begin());
    };
    const bool any_known =
        std::any_of(tensors.begin(), tensors.end(), [&](const auto& tensor) {
          return by_name(tensor.name()) < known.size();
        });
    std::vector<ConfigTensors::Name> renamed;
    std::set<size_t> taken;
    for (int i = 0; i < tensors.size(); ++i) {
      const auto& tensor = tensors[i];
      const PbtxtMessage place = root_.Child(field, tensor, i);
      place.CheckMeanings();
      const size_t index =
          any_known ? by_name(tensor.name())
                    : PositionIn(tensor.name()).value_or(known.size());
      if (index >= known.size()) {
        place.Refuse("name",
                     absl::StrCat("a name of the program's (",
                                  absl::StrJoin(known, ", "),
                                  "), or NAME__0 and so on for all"),
                     tensor.name());
        continue;
      }
      if (!taken.insert(index).second) {
        place.Refuse("name", "each of the program's once", tensor.name());
        continue;
      }
      CheckType(place, tensor, specs[index].dtype);
      CheckShape(place, tensor, specs[index].dims);
      (field == "input" ? input_names_ : output_names_)
          .emplace(tensor.name(), index);
      if (tensor.name() != known[index]) {
        renamed.push_back({known[index], tensor.name(), place.LineOf("name")});
      }
    }
    return renamed;
  }

  // One without inputs or outputs leaves them to the program, as at Triton.
  void CheckComplete() const {
    if (config_.input_size() > 0 &&
        input_names_.size() < program_.inputs.size() &&
        input_names_.size() == static_cast<size_t>(config_.input_size())) {
      root_.Refuse("input",
                   absl::StrCat("the program's ", program_.inputs.size()),
                   absl::StrCat(config_.input_size()));
    }
  }

  template <typename Tensor>
  static void CheckType(const PbtxtMessage& place, const Tensor& tensor,
                        DataType dtype) {
    const std::string expected =
        dtype == DataType::kBytes
            ? "TYPE_STRING"
            : absl::StrCat("TYPE_", std::string(DataTypeName(dtype)));
    const std::string got = triton::DataType_Name(tensor.data_type());
    if (got != expected) {
      place.Refuse("data_type", absl::StrCat("the program's ", expected), got);
    }
  }

  // The batch is not among them where there is a max_batch_size.
  absl::Span<const DimExpr> OwnDims(const std::vector<DimExpr>& dims) const {
    const size_t first = config_.max_batch_size() > 0 && !dims.empty() ? 1 : 0;
    return absl::MakeConstSpan(dims).subspan(first);
  }

  template <typename Tensor>
  void CheckShape(const PbtxtMessage& place, const Tensor& tensor,
                  const std::vector<DimExpr>& dims) {
    if (tensor.has_reshape() &&
        !std::equal(tensor.reshape().shape().begin(),
                    tensor.reshape().shape().end(), tensor.dims().begin(),
                    tensor.dims().end())) {
      place.Refuse(
          "reshape", "none, and dims as the program has them",
          absl::StrCat("[", absl::StrJoin(tensor.reshape().shape(), ", "),
                       "]"));
    }
    const absl::Span<const DimExpr> own = OwnDims(dims);
    bool fits = own.size() == static_cast<size_t>(tensor.dims_size());
    for (size_t axis = 0; fits && axis < own.size(); ++axis) {
      const int64_t size = tensor.dims(static_cast<int>(axis));
      fits =
          size == -1 || (own[axis].is_constant()
                             ? own[axis].constant() == size
                             : NameSize(own[axis], size, place.LineOf("dims")));
    }
    if (fits) return;
    place.Refuse("dims",
                 absl::StrCat("the program's ", ShapeText(own),
                              config_.max_batch_size() > 0
                                  ? ", without the batch"
                                  : ", with the batch (max_batch_size is 0)"),
                 absl::StrCat("[", absl::StrJoin(tensor.dims(), ", "), "]"));
  }

  // Whether the dimension can have it.
  bool NameSize(const DimExpr& dim, int64_t size, int line) {
    const auto affine = dim.AsAffine();
    if (!affine) return size > 0;  // what follows from several
    const int64_t times = size - affine->offset;
    if (times % affine->scale != 0) return false;
    const int64_t value = times / affine->scale;
    const DimensionSpec& dimension = program_.dimensions[affine->dimension];
    if (value < dimension.min || value > dimension.max) return false;
    ConfigTensors::Sizes& named = found_.sizes[affine->dimension];
    if (named.sizes.empty()) named.line = line;
    named.sizes.insert(value);
    return true;
  }

  void CheckLabels(const triton::ModelOutput& output, int index) const {
    if (output.label_filename().empty() ||
        output.label_filename() == "labels.txt") {
      return;
    }
    root_.Child("output", output, index)
        .Refuse("label_filename", "labels.txt, which holds for all outputs",
                output.label_filename());
  }

  // Its sizes are compiled and run before the model is ready; its values are
  // not asked for.
  void ReadSample(int index) {
    const triton::ModelWarmup& sample = config_.model_warmup(index);
    const PbtxtMessage place = root_.Child("model_warmup", sample, index);
    place.CheckMeanings();
    if (sample.batch_size() > 0 && program_.batch_dimension &&
        config_.max_batch_size() > 0) {
      ConfigTensors::Sizes& batch = found_.sizes[*program_.batch_dimension];
      if (batch.sizes.empty()) batch.line = place.LineOf("batch_size");
      batch.sizes.insert(sample.batch_size());
    }
    for (const auto& [name, input] : sample.inputs()) {
      const auto named = input_names_.find(name);
      if (named == input_names_.end()) {
        place.Refuse("inputs", "names of inputs", name);
        continue;
      }
      const InputSpec& spec = program_.inputs[named->second];
      const absl::Span<const DimExpr> own = OwnDims(spec.dims);
      bool fits = own.size() == static_cast<size_t>(input.dims_size());
      for (size_t axis = 0; fits && axis < own.size(); ++axis) {
        const int64_t size = input.dims(static_cast<int>(axis));
        fits = own[axis].is_constant()
                   ? own[axis].constant() == size
                   : NameSize(own[axis], size, place.LineOf("inputs"));
      }
      if (!fits) {
        place.Refuse("inputs",
                     absl::StrCat(name, " of the shape ", ShapeText(own)),
                     absl::StrCat("[", absl::StrJoin(input.dims(), ", "), "]"));
      }
    }
    place.Ignore("inputs",
                 "its sizes become buckets, and values for them are made up");
  }

  const triton::ModelConfig& config_;
  const PbtxtMessage root_;
  const ModelSpec& program_;
  std::map<std::string, size_t> input_names_;  // as the file has them
  std::map<std::string, size_t> output_names_;
  ConfigTensors found_;
};

}  // namespace

ConfigTensors MatchTensors(const ConfigPbtxt& file, const ModelSpec& program,
                           ConfigNotes& notes) {
  return TensorMatcher(file, program, notes).Match();
}

}  // namespace stoker
