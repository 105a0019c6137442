#include "repository/config_tensors.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "repository/tensor_dims.h"

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

template <typename Names>
std::string NamesOrNone(const Names& names) {
  return names.empty() ? "none" : absl::StrJoin(names, ", ");
}

template <typename Numbers>
Shape ShapeOf(const Numbers& numbers) {
  return Shape(numbers.begin(), numbers.end());
}

class TensorMatcher {
 public:
  TensorMatcher(const ConfigPbtxt& file, const ModelSpec& program,
                ConfigNotes& notes)
      : config_(file.config), root_(file, notes), program_(program) {}

  ConfigTensors Match() {
    found_.inputs = MatchAll("input", config_.input(), program_.inputs);
    found_.outputs = MatchAll("output", config_.output(), program_.outputs);
    for (int i = 0; i < config_.batch_input_size(); ++i) ReadBatchInput(i);
    CheckBatchOutputs();
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
  std::vector<ConfigTensors::Tensor> MatchAll(const std::string& field,
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
    std::vector<ConfigTensors::Tensor> changed;
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
      const bool is_bytes =
          tensor.data_type() == triton::TYPE_STRING &&
          HasRows(specs[index].dtype, specs[index].dims, batched(tensor));
      if (!is_bytes) CheckType(place, tensor, specs[index].dtype);
      const absl::Span<const DimExpr> own =
          OwnDims(specs[index].dims, batched(tensor), is_bytes);
      std::optional<Reshape> reshape = ReadReshape(place, tensor);
      CheckShape(place, reshape, tensor, own, is_bytes);
      if (field == "input" && reshape.has_value()) {
        reshaped_inputs_.emplace(index, *reshape);
      }
      if (field == "input" && is_bytes) bytes_inputs_.insert(index);
      if constexpr (requires { tensor.allow_ragged_batch(); }) {
        if (tensor.allow_ragged_batch()) ragged_inputs_.insert(index);
      }
      (field == "input" ? input_names_ : output_names_)
          .emplace(tensor.name(), index);
      ConfigTensors::Tensor found{known[index], tensor.name(),
                                  place.LineOf("name"), std::move(reshape),
                                  is_bytes};
      if constexpr (requires { tensor.optional(); }) {
        if (tensor.optional()) {
          found.default_value = ReadDefault(place, tensor.name());
        }
      }
      if (found.config != found.program || found.reshape.has_value() ||
          found.is_bytes || found.default_value.has_value()) {
        changed.push_back(std::move(found));
      }
    }
    return changed;
  }

  // Its targets are inputs of the program that no request has.
  void ReadBatchInput(int index) {
    const triton::BatchInput& made = config_.batch_input(index);
    const PbtxtMessage place = root_.Child("batch_input", made, index);
    place.CheckMeanings();
    const std::string kind = triton::BatchInput::Kind_Name(made.kind());
    if (!BatchInputKind(kind).has_value()) {
      return place.Refuse("kind",
                          "a count of elements (BATCH_ELEMENT_COUNT, "
                          "BATCH_ACCUMULATED_ELEMENT_COUNT, the same "
                          "_WITH_ZERO, BATCH_MAX_ELEMENT_COUNT_AS_SHAPE)",
                          kind);
    }
    const auto source = made.source_input_size() == 1
                            ? input_names_.find(made.source_input(0))
                            : input_names_.end();
    if (source == input_names_.end() ||
        !ragged_inputs_.contains(source->second)) {
      return place.Refuse("source_input",
                          "the name of one input with allow_ragged_batch",
                          NamesOrNone(made.source_input()));
    }
    for (const std::string& target : made.target_name()) {
      const auto input = std::find_if(
          program_.inputs.begin(), program_.inputs.end(),
          [&](const InputSpec& known) { return known.name == target; });
      if (input == program_.inputs.end()) {
        place.Refuse("target_name", "inputs of the program", target);
        continue;
      }
      CheckType(place, made, input->dtype);
      found_.batch_inputs.push_back({input->name, kind,
                                     program_.inputs[source->second].name,
                                     place.line()});
    }
  }

  void CheckBatchOutputs() const {
    for (int i = 0; i < config_.batch_output_size(); ++i) {
      const triton::BatchOutput& cut = config_.batch_output(i);
      const PbtxtMessage place = root_.Child("batch_output", cut, i);
      place.CheckMeanings();
      const bool known = cut.source_input_size() == 1 &&
                         input_names_.contains(cut.source_input(0));
      if (!known) {
        place.Refuse("source_input", "the name of one input",
                     NamesOrNone(cut.source_input()));
      }
    }
  }

  // One without inputs or outputs leaves them to the program, as at Triton.
  void CheckComplete() const {
    const size_t made = found_.batch_inputs.size();
    if (!ragged_inputs_.empty() && made == 0) {
      root_.Refuse("batch_input",
                   "what tells the program where each request of a ragged "
                   "batch ends",
                   "none");
    }
    if (config_.input_size() > 0 &&
        input_names_.size() + made < program_.inputs.size() &&
        input_names_.size() == static_cast<size_t>(config_.input_size())) {
      root_.Refuse(
          "input",
          absl::StrCat("the program's ", program_.inputs.size() - made),
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

  // A backend of Triton's sees that an input is absent; a program can't.
  std::optional<std::pair<std::string, int>> ReadDefault(
      const PbtxtMessage& place, const std::string& name) const {
    const std::string key = absl::StrCat(kDefaultKey, name);
    const std::vector<std::string> keys = ParameterKeys(config_);
    const auto found = std::find(keys.begin(), keys.end(), key);
    if (found == keys.end()) {
      place.Refuse("optional",
                   absl::StrCat("parameters with the key ", key,
                                ": the number that the program gets for it "
                                "where a request leaves it out"),
                   "none");
      return std::nullopt;
    }
    return std::pair(
        config_.parameters().at(key).string_value(),
        root_.LineOf("parameters", static_cast<int>(found - keys.begin())));
  }

  // Where the program's shape is another than dims.
  template <typename Tensor>
  static std::optional<Reshape> ReadReshape(const PbtxtMessage& place,
                                            const Tensor& tensor) {
    if (!tensor.has_reshape()) return std::nullopt;
    Reshape reshape{ShapeOf(tensor.dims()), ShapeOf(tensor.reshape().shape())};
    if (reshape.dims == reshape.shape) return std::nullopt;
    const std::string expected =
        reshape.Mistake(absl::StrCat("dims ", DimsText(reshape.dims)));
    if (!expected.empty()) {
      place.Refuse("reshape", expected, DimsText(reshape.shape));
    }
    return reshape;
  }

  bool batched() const { return config_.max_batch_size() > 0; }
  // Axis 0 of the program's is what dims leave out.
  bool batched(const triton::ModelInput& input) const {
    return batched() && !input.allow_ragged_batch();
  }
  // What is cut by an input's shape has its axes.
  bool batched(const triton::ModelOutput& output) const {
    const auto& cut = config_.batch_output();
    return batched() &&
           std::none_of(cut.begin(), cut.end(), [&](const auto& one) {
             const auto& names = one.target_name();
             return std::find(names.begin(), names.end(), output.name()) !=
                    names.end();
           });
  }

  template <typename Tensor>
  void CheckShape(const PbtxtMessage& place,
                  const std::optional<Reshape>& reshape, const Tensor& tensor,
                  absl::Span<const DimExpr> own, bool is_bytes) {
    const char* const field = reshape.has_value() ? "reshape" : "dims";
    const Shape shape =
        reshape.has_value() ? reshape->shape : ShapeOf(tensor.dims());
    if (Fits(own, shape, place.LineOf(field))) return;
    place.Refuse(
        field,
        absl::StrCat("the program's ", DimsText(own),
                     batched() ? ", without the batch"
                               : ", with the batch (max_batch_size is 0)",
                     is_bytes ? " and without the bytes of an element" : ""),
        DimsText(shape));
  }

  // Whether a tensor of these dims can have the shape; its numbers are noted as
  // sizes.
  bool Fits(absl::Span<const DimExpr> own, const Shape& shape, int line) {
    if (own.size() != shape.size()) return false;
    for (size_t axis = 0; axis < own.size(); ++axis) {
      if (!CanBe(own[axis], shape[axis], program_.dimensions)) return false;
      NameSize(own[axis], shape[axis], line);
    }
    return true;
  }

  void NameSize(const DimExpr& dim, int64_t size, int line) {
    const auto affine = dim.AsAffine();
    if (!affine || size == -1) return;
    ConfigTensors::Sizes& named = found_.sizes[affine->dimension];
    if (named.sizes.empty()) named.line = line;
    named.sizes.insert(*affine->Solve(size));
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
      const absl::Span<const DimExpr> own =
          OwnDims(program_.inputs[named->second].dims,
                  batched() && !ragged_inputs_.contains(named->second),
                  bytes_inputs_.contains(named->second));
      const auto reshape = reshaped_inputs_.find(named->second);
      const std::optional<Shape> shape =
          reshape == reshaped_inputs_.end()
              ? ShapeOf(input.dims())
              : reshape->second.ToProgram(ShapeOf(input.dims()));
      const bool chosen =
          shape.has_value() &&
          std::find(shape->begin(), shape->end(), -1) == shape->end();
      if (!chosen || !Fits(own, *shape, place.LineOf("inputs"))) {
        place.Refuse("inputs",
                     absl::StrCat(name, " of the shape ",
                                  reshape == reshaped_inputs_.end()
                                      ? DimsText(own)
                                      : DimsText(reshape->second.dims)),
                     DimsText(ShapeOf(input.dims())));
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
  std::map<size_t, Reshape> reshaped_inputs_;
  std::set<size_t> bytes_inputs_;
  std::set<size_t> ragged_inputs_;
  ConfigTensors found_;
};

}  // namespace

ConfigTensors MatchTensors(const ConfigPbtxt& file, const ModelSpec& program,
                           ConfigNotes& notes) {
  return TensorMatcher(file, program, notes).Match();
}

}  // namespace stoker
