#include "models/int8_layers.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/absl_view.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "models/padded_run.h"
#include "planning/parity_cases.h"
#include "promotion/parity_check.h"
#include "tensor/tensor_file.h"

namespace stoker {
namespace {

// Sets of made-up inputs by which layers are evened out.
constexpr uint64_t kSeeds = 4;
// In a log line.
constexpr size_t kMostNames = 8;

std::string SomeOf(const std::set<std::string>& names) {
  std::vector<std::string> some;
  for (const std::string& name : names) {
    if (some.size() == kMostNames) {
      some.emplace_back("...");
      break;
    }
    some.push_back(name);
  }
  return absl::StrJoin(some, ", ");
}

// Of the bucket; of a form the first that it takes.
DimensionSizes SizesToRun(const ModelSpec& spec, const ShapeBucket& bucket,
                          const Executable& candidate) {
  if (!IsDynamic(bucket)) return bucket.sizes;
  const std::vector<DimensionSizes> taken =
      SizesTaken(spec, SizesOfForm(spec, bucket), candidate);
  return taken.empty() ? bucket.sizes : taken.front();
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

std::set<std::string> Int8Layers::AllNames() {
  std::set<std::string> names;
  for (const Int8Linears::Layer& layer : linears().Layers()) {
    names.insert(layer.weight);
  }
  return names;
}

bool Int8Layers::Restore(const Parity& parity,
                         const std::optional<std::string>& factors) {
  if (version_.tiers.int8() == nullptr || !factors.has_value()) return false;
  if (factors_.empty()) {
    const absl::StatusOr<Int8Factors> read = FactorsIn(*factors);
    if (!read.ok() || !linears().Even(*read).ok()) return false;
    factors_ = *factors;
  } else if (factors_ != *factors) {
    return false;
  }
  in_float32_.insert(parity.float32_layers.begin(),
                     parity.float32_layers.end());
  return linears().KeepInFloat32(in_float32_).ok();
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
  RETURN_IF_ERROR(linears().KeepInFloat32(AllNames()));
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
  return linears().KeepInFloat32(in_float32_);
}

absl::StatusOr<std::vector<std::string>> Int8Layers::Rank(
    Executable& candidate, const DimensionSizes& sizes) {
  const std::set<std::string> all = AllNames();
  RETURN_IF_ERROR(linears().KeepInFloat32(all));
  std::vector<Tensor> inputs;
  ASSIGN_OR_RETURN(const std::vector<Tensor> exact,
                   RunMadeUp(candidate, sizes, /*seed=*/0, inputs));
  std::vector<std::pair<double, std::string>> harms;
  for (const Int8Linears::Layer& layer : linears().Layers()) {
    if (in_float32_.contains(layer.weight)) continue;
    std::set<std::string> others = all;
    others.erase(layer.weight);
    RETURN_IF_ERROR(linears().KeepInFloat32(others));
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

absl::Status Int8Layers::KeepInFloat32(const std::vector<std::string>& ranked,
                                       size_t count) {
  std::set<std::string> names = in_float32_;
  for (size_t i = 0; i < count; ++i) names.insert(ranked[i]);
  return linears().KeepInFloat32(names);
}

absl::StatusOr<CandidateCheck::Evidence> Int8Layers::GiveUp(
    const std::vector<std::string>& ranked, Check check) {
  absl::StatusOr<CandidateCheck::Evidence> last;
  size_t too_few = 0;
  size_t enough = 0;
  // Doubled until it is enough, then halved.
  for (size_t count = 1; enough == 0 && too_few < ranked.size(); count *= 2) {
    const size_t tried = std::min(count, ranked.size());
    RETURN_IF_ERROR(KeepInFloat32(ranked, tried));
    last = check();
    RETURN_IF_ERROR(last.status());
    (last->parity.equal ? enough : too_few) = tried;
  }
  while (enough > too_few + 1) {
    const size_t tried = (enough + too_few) / 2;
    RETURN_IF_ERROR(KeepInFloat32(ranked, tried));
    ASSIGN_OR_RETURN(CandidateCheck::Evidence fewer, check());
    (fewer.parity.equal ? enough : too_few) = tried;
    if (fewer.parity.equal) last = std::move(fewer);
  }
  for (size_t i = 0; i < enough; ++i) in_float32_.insert(ranked[i]);
  return last;
}

absl::StatusOr<CandidateCheck::Evidence> Int8Layers::Settle(
    Executable& candidate, const ShapeBucket& bucket,
    absl::Span<const CandidateCheck::Recorded> recorded, Check check) {
  if (version_.tiers.int8() == nullptr || linears().Layers().empty()) {
    return check();
  }
  const DimensionSizes sizes = SizesToRun(version_.spec, bucket, candidate);
  if (factors_.empty()) RETURN_IF_ERROR(Even(candidate, sizes, recorded));
  ASSIGN_OR_RETURN(CandidateCheck::Evidence evidence, check());
  if (!evidence.parity.equal && in_float32_.size() < AllNames().size()) {
    const std::string why = evidence.parity.reason;
    const auto ranked = Rank(candidate, sizes);
    absl::Status settled = ranked.status();
    if (ranked.ok()) {
      auto found = GiveUp(*ranked, check);
      settled = found.status();
      if (found.ok()) evidence = *std::move(found);
    }
    RETURN_IF_ERROR(linears().KeepInFloat32(in_float32_));
    RETURN_IF_ERROR(settled);
    if (evidence.parity.equal) {
      log::Info("{}: {} of {} linear layers stay with float32: {} ({})",
                version_.spec.Label(), in_float32_.size(), AllNames().size(),
                SomeOf(in_float32_), why);
    }
  }
  evidence.parity.float32_layers.assign(in_float32_.begin(), in_float32_.end());
  return evidence;
}

}  // namespace stoker
