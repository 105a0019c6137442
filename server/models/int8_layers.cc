#include "models/int8_layers.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/absl_view.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "models/padded_run.h"
#include "promotion/parity_check.h"
#include "tensor/tensor_file.h"

namespace stoker {
namespace {

// Sets of made-up inputs by which layers are evened out.
constexpr uint64_t kSeeds = 4;
// In a log line.
constexpr size_t kMostNames = 8;

std::string SomeOf(const LayerPrecisions& layers) {
  std::vector<std::string> some;
  for (const auto& [name, precision] : layers) {
    if (some.size() == kMostNames) {
      some.emplace_back("...");
      break;
    }
    some.push_back(name);
  }
  return absl::StrJoin(some, ", ");
}

constexpr char kBfloat16Name[] = "bfloat16";
constexpr char kFloat32Name[] = "float32";

size_t CountOf(const LayerPrecisions& layers, LayerPrecision precision) {
  return static_cast<size_t>(absl::c_count_if(
      layers,
      [precision](const auto& layer) { return layer.second == precision; }));
}

absl::StatusOr<std::string> FileOf(const Int8Factors& factors) {
  NamedTensors tensors;
  for (const auto& [name, numbers] : factors) {
    Tensor& tensor = tensors[name];
    tensor.dtype = DataType::kFp32;
    tensor.shape = {static_cast<int64_t>(numbers.size())};
    tensor.byte_size = numbers.size() * sizeof(float);
    tensor.data = reinterpret_cast<std::byte*>(
        const_cast<float*>(numbers.data()));  // read only, and not kept
  }
  return TensorFileBytes(tensors);
}

absl::StatusOr<Int8Factors> FactorsIn(const std::string& file) {
  ASSIGN_OR_RETURN(const NamedTensors tensors, ParseTensorFile(file));
  Int8Factors factors;
  for (const auto& [name, tensor] : tensors) {
    if (tensor.dtype != DataType::kFp32) {
      return absl::InvalidArgumentError(
          absl::StrCat("factors for '", name, "': expected FP32"));
    }
    std::vector<float>& numbers = factors[name];
    numbers.resize(tensor.byte_size / sizeof(float));
    std::memcpy(numbers.data(), tensor.data, numbers.size() * sizeof(float));
  }
  return factors;
}

}  // namespace

LayerPrecisions Int8Layers::AllFloat32() {
  LayerPrecisions all;
  for (const Int8Linears::Layer& layer : linears().Layers()) {
    all.emplace(layer.weight, LayerPrecision::kFloat32);
  }
  return all;
}

bool Int8Layers::Restore(const Parity& parity,
                         const std::optional<std::string>& factors) {
  if (version_.tiers.int8() == nullptr || !factors.has_value()) return false;
  if (*factors != factors_) {
    if (!factors_.empty()) return false;
    const absl::StatusOr<Int8Factors> read = FactorsIn(*factors);
    if (!read.ok() || !linears().Even(*read).ok()) return false;
    factors_ = *factors;
  }
  for (const auto& [name, text] : parity.layers) {
    const LayerPrecision precision = text == kBfloat16Name
                                         ? LayerPrecision::kBfloat16
                                         : LayerPrecision::kFloat32;
    LayerPrecision& held = precisions_[name];
    held = std::max(held, precision);
  }
  return linears().Use(precisions_).ok();
}

absl::StatusOr<std::vector<Tensor>> Int8Layers::Run(
    Executable& candidate, absl::Span<const Tensor> inputs) {
  std::vector<Tensor> outputs;
  RETURN_IF_ERROR(version_.device_threads.Run(
      0, [&](ExecutionContext& context) -> absl::Status {
        ASSIGN_OR_RETURN(RunResult result, candidate.Run(context, inputs));
        outputs = std::move(result.outputs);
        return absl::OkStatus();
      }));
  return outputs;
}

absl::StatusOr<std::vector<Tensor>> Int8Layers::RunMadeUp(
    Executable& candidate, const DimensionSizes& sizes, uint64_t seed,
    std::vector<Tensor>& inputs) {
  std::vector<Tensor> outputs;
  RETURN_IF_ERROR(version_.made_up.Try(
      sizes, seed, [&](absl::Span<const Tensor> tried) -> absl::Status {
        inputs.assign(tried.begin(), tried.end());
        ASSIGN_OR_RETURN(outputs, Run(candidate, inputs));
        return absl::OkStatus();
      }));
  return outputs;
}

absl::Status Int8Layers::Even(
    Executable& candidate, const DimensionSizes& sizes,
    absl::Span<const CandidateCheck::Recorded> recorded) {
  RETURN_IF_ERROR(linears().Use(AllFloat32()));
  linears().Note(true);
  absl::Status ran;
  std::vector<Tensor> inputs;
  for (uint64_t seed = 0; seed < kSeeds && ran.ok(); ++seed) {
    ran = RunMadeUp(candidate, sizes, seed, inputs).status();
  }
  for (const CandidateCheck::Recorded& one : recorded) {
    // One that eager refuses is no evidence.
    if (ran.ok() && candidate.Takes(one.inputs)) {
      Run(candidate, one.inputs).IgnoreError();
    }
  }
  linears().Note(false);
  RETURN_IF_ERROR(ran);
  const Int8Factors factors = linears().FactorsOfNoted();
  RETURN_IF_ERROR(linears().Even(factors));
  ASSIGN_OR_RETURN(factors_, FileOf(factors));
  return linears().Use(precisions_);
}

absl::StatusOr<std::vector<std::string>> Int8Layers::Rank(
    Executable& candidate, const DimensionSizes& sizes) {
  const LayerPrecisions all = AllFloat32();
  RETURN_IF_ERROR(linears().Use(all));
  std::vector<Tensor> inputs;
  ASSIGN_OR_RETURN(const std::vector<Tensor> exact,
                   RunMadeUp(candidate, sizes, /*seed=*/0, inputs));
  std::vector<std::pair<double, std::string>> harms;
  for (const Int8Linears::Layer& layer : linears().Layers()) {
    if (precisions_.contains(layer.weight)) continue;
    LayerPrecisions others = all;
    others.erase(layer.weight);
    RETURN_IF_ERROR(linears().Use(others));
    ASSIGN_OR_RETURN(const std::vector<Tensor> outputs, Run(candidate, inputs));
    // Squares of errors add up; time is lost by the number of weights.
    const double error = RelativeError(exact, outputs);
    harms.emplace_back(error * error / static_cast<double>(layer.numbers),
                       layer.weight);
  }
  std::stable_sort(
      harms.begin(), harms.end(),
      [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<std::string> ranked;
  ranked.reserve(harms.size());
  for (auto& [harm, name] : harms) ranked.push_back(std::move(name));
  return ranked;
}

std::vector<Int8Layers::Step> Int8Layers::Steps(
    const std::vector<std::string>& ranked) {
  const bool rounds = linears().HasBfloat16();
  std::vector<Step> steps;
  steps.reserve(2 * ranked.size() + precisions_.size());
  for (const std::string& name : ranked) {
    steps.emplace_back(
        name, rounds ? LayerPrecision::kBfloat16 : LayerPrecision::kFloat32);
  }
  if (rounds) {
    for (const std::string& name : ranked) {
      steps.emplace_back(name, LayerPrecision::kFloat32);
    }
  }
  for (const auto& [name, precision] : precisions_) {
    if (precision != LayerPrecision::kFloat32) {
      steps.emplace_back(name, LayerPrecision::kFloat32);
    }
  }
  return steps;
}

LayerPrecisions Int8Layers::With(const std::vector<Step>& steps,
                                 size_t count) const {
  LayerPrecisions with = precisions_;
  for (size_t i = 0; i < count; ++i) {
    with.insert_or_assign(steps[i].first, steps[i].second);
  }
  return with;
}

absl::StatusOr<CandidateCheck::Evidence> Int8Layers::Take(
    const std::vector<Step>& steps, Check check) {
  absl::StatusOr<CandidateCheck::Evidence> last;
  size_t too_few = 0;
  size_t enough = 0;
  // Doubled until it is enough, then halved.
  for (size_t count = 1; enough == 0 && too_few < steps.size(); count *= 2) {
    const size_t tried = std::min(count, steps.size());
    RETURN_IF_ERROR(linears().Use(With(steps, tried)));
    last = check();
    RETURN_IF_ERROR(last.status());
    (last->parity.equal ? enough : too_few) = tried;
  }
  while (enough > too_few + 1) {
    const size_t tried = (enough + too_few) / 2;
    RETURN_IF_ERROR(linears().Use(With(steps, tried)));
    ASSIGN_OR_RETURN(CandidateCheck::Evidence fewer, check());
    (fewer.parity.equal ? enough : too_few) = tried;
    if (fewer.parity.equal) last = std::move(fewer);
  }
  precisions_ = With(steps, enough);
  return last;
}

absl::StatusOr<CandidateCheck::Evidence> Int8Layers::Refine(
    Executable& candidate, const DimensionSizes& sizes,
    CandidateCheck::Evidence refused, Check check) {
  ASSIGN_OR_RETURN(const std::vector<std::string> ranked,
                   Rank(candidate, sizes));
  const std::vector<Step> steps = Steps(ranked);
  if (steps.empty()) return refused;
  return Take(steps, check);
}

void Int8Layers::Tell(const std::string& why) {
  log::Info(
      "{}: of {} linear layers {} compute with bfloat16 and {} with float32: "
      "{} ({})",
      version_.spec.Label(), linears().Layers().size(),
      CountOf(precisions_, LayerPrecision::kBfloat16),
      CountOf(precisions_, LayerPrecision::kFloat32), SomeOf(precisions_), why);
}

absl::StatusOr<CandidateCheck::Evidence> Int8Layers::Settle(
    Executable& candidate, const ShapeBucket& bucket,
    absl::Span<const CandidateCheck::Recorded> recorded, Check check) {
  if (version_.tiers.int8() == nullptr || linears().Layers().empty()) {
    return check();
  }
  ASSIGN_OR_RETURN(const DimensionSizes sizes,
                   SizesToRun(version_.spec, bucket, candidate));
  if (factors_.empty()) RETURN_IF_ERROR(Even(candidate, sizes, recorded));
  ASSIGN_OR_RETURN(CandidateCheck::Evidence evidence, check());
  if (!evidence.parity.equal) {
    const std::string why = evidence.parity.reason;
    auto refined = Refine(candidate, sizes, std::move(evidence), check);
    RETURN_IF_ERROR(linears().Use(precisions_));
    RETURN_IF_ERROR(refined.status());
    evidence = *std::move(refined);
    if (evidence.parity.equal) Tell(why);
  }
  for (const auto& [name, precision] : precisions_) {
    evidence.parity.layers[name] =
        precision == LayerPrecision::kBfloat16 ? kBfloat16Name : kFloat32Name;
  }
  return evidence;
}

}  // namespace stoker
