#include "pipelines/pipeline_interface.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/absl_view.h"
#include "base/error_text.h"
#include "base/status_macros.h"
#include "pipelines/joined_dimensions.h"
#include "repository/pipeline_spec.h"

namespace stoker {
namespace {

constexpr int64_t kMostRows = 1 << 20;

// One axis of a tensor: a constant, a dimension of some step's model, or what
// only values or sizes decide.
struct Axis {
  std::optional<int64_t> constant;
  int dimension = -1;  // of the joined ones
};

struct Known {
  DataType dtype = DataType::kFp32;  // as clients have it
  bool is_bytes = false;
  std::vector<Axis> axes;  // as clients have them, and the rows' of BYTES
  std::string of;          // "'hidden' of step 'encoder'"

  std::string Text() const {
    Shape shape;
    for (const Axis& axis : axes) shape.push_back(axis.constant.value_or(-1));
    if (is_bytes) shape.pop_back();
    return absl::StrCat(Absl(DataTypeName(is_bytes ? DataType::kBytes : dtype)),
                        " ", ShapeExcerpt(shape));
  }
};

class Interface {
 public:
  Interface(const ModelSpec& pipeline,
            absl::Span<const ModelSpec* const> models)
      : spec_(pipeline), pipeline_(*pipeline.pipeline), models_(models) {}

  absl::StatusOr<ModelSpec> Make() {
    for (const PipelineTensor& input : pipeline_.inputs) {
      from_clients_.insert(input.name);
    }
    for (size_t i = 0; i < models_.size(); ++i) {
      AddDimensions(i);
      RETURN_IF_ERROR(AddStep(i));
    }
    for (const PipelineTensor& input : pipeline_.inputs) {
      RETURN_IF_ERROR(AddInput(input));
    }
    for (const PipelineTensor& output : pipeline_.outputs) {
      RETURN_IF_ERROR(AddOutput(output));
    }
    AddBatch();
    AddPriorities();
    return std::move(spec_);
  }

 private:
  static size_t At(int index) { return static_cast<size_t>(index); }

  void AddDimensions(size_t step) {
    std::vector<int>& own = dimensions_of_.emplace_back();
    const ModelSpec& model = *models_[step];
    for (size_t d = 0; d < model.dimensions.size(); ++d) {
      const DimensionSpec& dimension = model.dimensions[d];
      JoinedDimensions::Dimension added;
      added.name = dimension.name;
      added.min = dimension.min;
      added.max = dimension.max;
      if (model.batch_dimension == static_cast<int>(d)) {
        added.max_batch = model.max_batch_size;
      }
      own.push_back(dimensions_.Add(std::move(added)));
    }
  }

  template <typename Spec>
  Known KnownOf(size_t step, const Spec& tensor) const {
    const ModelSpec& model = *models_[step];
    Known known;
    known.dtype = tensor.dtype;
    known.is_bytes = tensor.is_bytes;
    known.of = absl::StrCat("'", tensor.name, "' of step '",
                            pipeline_.steps[step].name, "'");
    for (const DimExpr& dim : tensor.dims) {
      Axis& axis = known.axes.emplace_back();
      if (dim.is_constant()) axis.constant = dim.constant();
      if (dim.is_dimension()) {
        axis.dimension = dimensions_of_[step][At(dim.dimension())];
      }
    }
    if (!tensor.reshape.has_value()) return known;
    const std::vector<Axis> program = std::exchange(known.axes, {});
    for (const int64_t size : tensor.reshape->dims) {
      Axis& axis = known.axes.emplace_back();
      if (size >= 0) axis.constant = size;
    }
    if (model.batch_dimension.has_value()) known.axes[0] = program[0];
    if (known.is_bytes) known.axes.push_back(program.back());
    return known;
  }

  template <typename Specs>
  static auto Find(const Specs& specs, const std::string& name) {
    const auto found =
        std::find_if(specs.begin(), specs.end(),
                     [&](const auto& spec) { return spec.name == name; });
    return found == specs.end() ? nullptr : &*found;
  }

  template <typename Specs>
  absl::Status NoTensor(size_t step, std::string_view kind,
                        const std::string& name, const Specs& specs) const {
    return absl::InvalidArgumentError(absl::StrCat(
        "step '", pipeline_.steps[step].name, "': expected an ", Absl(kind),
        " of model '", models_[step]->name, "' (",
        absl::StrJoin(
            specs, ", ",
            [](std::string* out, const auto& spec) { out->append(spec.name); }),
        "), got ", name));
  }

  absl::Status AddStep(size_t step) {
    const PipelineStep& links = pipeline_.steps[step];
    const ModelSpec& model = *models_[step];
    for (const StepTensor& link : links.inputs) {
      const InputSpec* const input = Find(model.inputs, link.own);
      if (input == nullptr) {
        return NoTensor(step, "input", link.own, model.inputs);
      }
      RETURN_IF_ERROR(AddUse(step, link, KnownOf(step, *input)));
    }
    for (const InputSpec& input : model.inputs) {
      const bool given = std::any_of(
          links.inputs.begin(), links.inputs.end(),
          [&](const StepTensor& link) { return link.own == input.name; });
      if (given) continue;
      return absl::InvalidArgumentError(absl::StrCat(
          "step '", links.name, "': expected all inputs of model '", model.name,
          "', got none for '", input.name, "'"));
    }
    for (const StepTensor& link : links.outputs) {
      const OutputSpec* const output = Find(model.outputs, link.own);
      if (output == nullptr) {
        return NoTensor(step, "output", link.own, model.outputs);
      }
      tensors_.emplace(link.tensor, KnownOf(step, *output));
    }
    return absl::OkStatus();
  }

  absl::Status AddUse(size_t step, const StepTensor& link, const Known& taken) {
    const auto [made, is_new] = tensors_.emplace(link.tensor, taken);
    if (is_new) return absl::OkStatus();  // the first that takes an input
    const Known& known = made->second;
    const auto mismatch = [&](std::string_view why) {
      return absl::InvalidArgumentError(absl::StrCat(
          "step '", pipeline_.steps[step].name, "': tensor '", link.tensor,
          "': input '", link.own, "' of model '", models_[step]->name,
          "' takes ", taken.Text(), ", and ", known.of,
          from_clients_.contains(link.tensor) ? " takes " : " is ",
          known.Text(), ": ", Absl(why)));
    };
    if (known.dtype != taken.dtype || known.is_bytes != taken.is_bytes) {
      return mismatch("another datatype");
    }
    if (known.axes.size() != taken.axes.size()) {
      return mismatch("as many dimensions were expected");
    }
    for (size_t axis = 0; axis < taken.axes.size(); ++axis) {
      // Rows of bytes are made as long as they have to be.
      if (known.is_bytes && axis + 1 == taken.axes.size()) break;
      if (!JoinAxes(known.axes[axis], taken.axes[axis])) {
        return mismatch(absl::StrCat("no size of axis ", axis, " fits both"));
      }
    }
    return absl::OkStatus();
  }

  bool JoinAxes(const Axis& one, const Axis& other) {
    if (one.constant.has_value() && other.constant.has_value()) {
      return one.constant == other.constant;
    }
    if (one.dimension >= 0 && other.dimension >= 0) {
      return dimensions_.Join(one.dimension, other.dimension);
    }
    if (one.constant.has_value() && other.dimension >= 0) {
      return dimensions_.Fix(other.dimension, *one.constant);
    }
    if (other.constant.has_value() && one.dimension >= 0) {
      return dimensions_.Fix(one.dimension, *other.constant);
    }
    return true;
  }

  // As a dimension of the pipeline; `is_input`: an axis that has none gets one.
  DimExpr ExprOf(const Axis& axis, bool is_input) {
    if (axis.constant.has_value()) return DimExpr::Constant(*axis.constant);
    if (axis.dimension < 0) {
      return is_input ? DimExpr::Dimension(NewDimension({.min = 0}))
                      : DimExpr::Unknown();
    }
    const JoinedDimensions::Dimension& root = dimensions_.Root(axis.dimension);
    if (root.constant.has_value()) return DimExpr::Constant(*root.constant);
    const auto known = numbers_.find(root.root);
    if (known != numbers_.end()) return DimExpr::Dimension(known->second);
    if (!is_input) return DimExpr::Unknown();
    const int number = NewDimension(root);
    numbers_.emplace(root.root, number);
    return DimExpr::Dimension(number);
  }

  int NewDimension(const JoinedDimensions::Dimension& root) {
    const auto number = static_cast<int>(spec_.dimensions.size());
    std::string name = root.name;
    const bool taken = Find(spec_.dimensions, name) != nullptr;
    if (name.empty() || taken) absl::StrAppend(&name, "d", number);
    spec_.dimensions.push_back({name, "", root.min, root.max, false});
    return number;
  }

  // What is known of it, as `spec`, an InputSpec or OutputSpec, has it.
  template <typename Spec>
  void Describe(const std::string& name, const Known& known, Spec& spec) {
    spec.name = name;
    spec.dtype = known.dtype;
    spec.is_bytes = known.is_bytes;
    for (const Axis& axis : known.axes) {
      spec.dims.push_back(ExprOf(axis, std::is_same_v<Spec, InputSpec>));
    }
  }

  absl::Status AddInput(const PipelineTensor& input) {
    const Known& known = tensors_.at(input.name);
    InputSpec& added = spec_.inputs.emplace_back();
    Describe(input.name, known, added);
    RETURN_IF_ERROR(CheckDeclared("input", input, known));
    const size_t rank = known.axes.size() - (known.is_bytes ? 1 : 0);
    if (input.dims.has_value() && input.dims->size() > rank) {
      // One string for each, as [batch, 1].
      Reshape reshape{*input.dims, *input.dims};
      reshape.shape.pop_back();
      added.reshape = std::move(reshape);
    }
    return absl::OkStatus();
  }

  absl::Status AddOutput(const PipelineTensor& output) {
    const Known& known = tensors_.at(output.name);
    Describe(output.name, known, spec_.outputs.emplace_back());
    return CheckDeclared("output", output, known);
  }

  // What the author says of a tensor, where he does.
  absl::Status CheckDeclared(std::string_view kind,
                             const PipelineTensor& declared,
                             const Known& known) {
    const DataType dtype = known.is_bytes ? DataType::kBytes : known.dtype;
    const size_t rank = known.axes.size() - (known.is_bytes ? 1 : 0);
    bool fits = declared.dtype.value_or(dtype) == dtype;
    if (fits && declared.dims.has_value()) {
      Shape dims = *declared.dims;
      // Where clients send one string for each row.
      if (kind == "input" && known.is_bytes && dims.size() == rank + 1 &&
          dims.back() == 1) {
        dims.pop_back();
      }
      fits = dims.size() == rank;
      for (size_t axis = 0; fits && axis < rank; ++axis) {
        const int64_t size = known.axes[axis].constant.value_or(-1);
        fits = size < 0 || dims[axis] < 0 || size == dims[axis];
      }
    }
    if (fits) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(
        Absl(kind), " '", declared.name, "' of the pipeline: expected ",
        known.Text(), " as ", known.of, ", got ",
        Absl(DataTypeName(declared.dtype.value_or(dtype))), " ",
        declared.dims.has_value() ? ShapeExcerpt(*declared.dims) : ""));
  }

  // The dimension that is axis 0 everywhere, and the batch of models that it
  // goes to.
  void AddBatch() {
    std::optional<int> batch;
    const auto is_batch = [&](const auto& tensor) {
      if (tensor.dims.empty() || !tensor.dims[0].is_dimension()) return false;
      if (!batch.has_value()) batch = tensor.dims[0].dimension();
      return tensor.dims[0].dimension() == *batch;
    };
    if (!std::all_of(spec_.inputs.begin(), spec_.inputs.end(), is_batch) ||
        !std::all_of(spec_.outputs.begin(), spec_.outputs.end(), is_batch)) {
      return;
    }
    for (const auto& [root, number] : numbers_) {
      if (number != *batch) continue;
      const JoinedDimensions::Dimension& dimension = dimensions_.Root(root);
      if (!dimension.max_batch.has_value()) return;
      spec_.batch_dimension = number;
      int64_t most = *dimension.max_batch;
      if (most == 0) most = std::min(dimension.max, kMostRows);
      const int64_t wanted = pipeline_.max_batch_size;
      spec_.max_batch_size = wanted > 0 ? std::min(wanted, most) : most;
    }
  }

  // A request may ask for any level that a step's queue has.
  void AddPriorities() {
    for (const ModelSpec* const model : models_) {
      const DynamicBatchingSpec& batching = model->dynamic_batching;
      if (batching.policies.size() <= spec_.dynamic_batching.policies.size()) {
        continue;
      }
      spec_.dynamic_batching.policies.resize(batching.policies.size());
      spec_.dynamic_batching.default_priority_level =
          batching.default_priority_level;
    }
  }

  ModelSpec spec_;
  const PipelineSpec& pipeline_;
  const absl::Span<const ModelSpec* const> models_;
  std::set<std::string> from_clients_;
  JoinedDimensions dimensions_;
  std::vector<std::vector<int>> dimensions_of_;  // by step
  std::map<std::string, Known> tensors_;
  std::map<int, int> numbers_;  // of the pipeline's dimensions, by root
};

}  // namespace

absl::StatusOr<ModelSpec> WithInterface(
    const ModelSpec& pipeline, absl::Span<const ModelSpec* const> models) {
  return Interface(pipeline, models).Make();
}

}  // namespace stoker
