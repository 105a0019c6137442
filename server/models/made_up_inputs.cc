#include "models/made_up_inputs.h"

#include <iterator>
#include <string_view>
#include <utility>

#include "base/log.h"
#include "models/padded_run.h"
#include "promotion/seeded_inputs.h"

namespace stoker {
namespace {

// What inputs are drawn from that nothing says the range of.
struct Kind {
  std::string_view name;  // for the log
  std::pair<double, double> integers;
  std::pair<double, double> floats;
  bool normal;  // floating point from N(0,1) instead
  InputDomain::Pattern pattern;
};

using Pattern = InputDomain::Pattern;
constexpr Kind kKinds[] = {
    {"the usual ones", {0, 1}, {}, true, Pattern::kAny},
    {"small and above zero", {1, 3}, {0.5, 1.5}, false, Pattern::kAny},
    {"all one", {1, 1}, {1, 1}, false, Pattern::kAny},
    {"in ascending order", {0, 7}, {}, true, Pattern::kAscending},
    {"positive definite", {0, 1}, {0, 0.1}, false, Pattern::kDiagonal},
    {"all zero", {0, 0}, {0, 0}, false, Pattern::kAny},
};

// Of inputs that are wide apart; no program is slow for them, or takes much
// memory, as it might for what counts how often a row is repeated.
constexpr double kWide = 1000;
constexpr double kWideByte = 127;

InputDomain Domain(const InputSpec& input, absl::Span<const int64_t> sizes,
                   const Kind& kind) {
  InputDomain domain;
  domain.dtype = input.dtype;
  domain.shape = ShapeOf(input, sizes);
  domain.pattern = kind.pattern;
  const bool floating = IsFloating(input.dtype);
  domain.normal = floating && kind.normal && !input.range.has_value();
  const auto [low, high] =
      input.range.value_or(floating ? kind.floats : kind.integers);
  domain.low = low;
  domain.high = high;
  return domain;
}

}  // namespace

std::vector<Tensor> MadeUpInputs::Of(absl::Span<const int64_t> sizes,
                                     uint64_t seed) const {
  return Made(SeededInputs(Domains(sizes), seed));
}

std::vector<Tensor> MadeUpInputs::Extremes(absl::Span<const int64_t> sizes,
                                           uint64_t seed) const {
  std::vector<InputDomain> domains = Domains(sizes);
  for (InputDomain& domain : domains) domain.extremes = true;
  return Made(SeededInputs(domains, seed));
}

std::vector<Tensor> MadeUpInputs::WideIntegers(absl::Span<const int64_t> sizes,
                                               uint64_t seed) const {
  std::vector<InputDomain> domains = Domains(sizes);
  bool any = false;
  for (size_t i = 0; i < domains.size(); ++i) {
    InputDomain& domain = domains[i];
    if (!IsInteger(domain.dtype) || spec_.inputs[i].range.has_value()) continue;
    domain.low = 0;
    domain.high = DataTypeSize(domain.dtype) == 1 ? kWideByte : kWide;
    any = true;
  }
  return any ? Made(SeededInputs(domains, seed)) : std::vector<Tensor>();
}

std::vector<Tensor> MadeUpInputs::OtherIntegers(absl::Span<const int64_t> sizes,
                                                uint64_t seed) const {
  std::vector<InputDomain> domains = Domains(sizes);
  bool any = false;
  for (InputDomain& domain : domains) {
    domain.shifted = IsInteger(domain.dtype) || domain.dtype == DataType::kBool;
    any |= domain.shifted;
  }
  return any ? Made(SeededInputs(domains, seed)) : std::vector<Tensor>();
}

// One request has all elements, as where the inputs are put together.
std::vector<Tensor> MadeUpInputs::Made(std::vector<Tensor> inputs) const {
  for (size_t i = 0; i < inputs.size(); ++i) {
    const std::optional<BatchInput>& made = spec_.inputs[i].batch_input;
    if (!made.has_value()) continue;
    Tensor& input = inputs[i];
    const int64_t elements =
        ElementCount(inputs[static_cast<size_t>(made->source)].shape)
            .value_or(0);
    const Buffer buffer(input.byte_size);
    FillBatchInput(made->kind, {elements}, input.dtype,
                   ElementCount(input.shape).value_or(0), buffer.data());
    input.data = buffer.data();
    input.owner = buffer.share();
  }
  return inputs;
}

std::vector<InputDomain> MadeUpInputs::Domains(
    absl::Span<const int64_t> sizes) const {
  std::vector<InputDomain> domains;
  for (const InputSpec& input : spec_.inputs) {
    domains.push_back(Domain(input, sizes, kKinds[accepted_.load()]));
  }
  return domains;
}

absl::Status MadeUpInputs::Try(
    absl::Span<const int64_t> sizes, uint64_t seed,
    absl::FunctionRef<absl::Status(absl::Span<const Tensor>)> run) const {
  const size_t first = accepted_.load();
  absl::Status refusal;
  for (size_t i = 0; i < std::size(kKinds); ++i) {
    const size_t kind = (first + i) % std::size(kKinds);
    accepted_.store(kind);
    absl::Status ran = run(Of(sizes, seed));
    if (!absl::IsInvalidArgument(ran)) {
      if (kind != first) {
        log::Info("{}: is tried on inputs that are {}", spec_.Label(),
                  kKinds[kind].name);
      }
      return ran;
    }
    if (refusal.ok()) refusal = std::move(ran);
  }
  accepted_.store(first);
  return refusal;
}

}  // namespace stoker
