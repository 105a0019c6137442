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
  return Make(sizes, seed, /*extremes=*/false);
}

std::vector<Tensor> MadeUpInputs::Extremes(absl::Span<const int64_t> sizes,
                                           uint64_t seed) const {
  return Make(sizes, seed, /*extremes=*/true);
}

std::vector<Tensor> MadeUpInputs::Make(absl::Span<const int64_t> sizes,
                                       uint64_t seed, bool extremes) const {
  std::vector<InputDomain> domains;
  for (const InputSpec& input : spec_.inputs) {
    domains.push_back(Domain(input, sizes, kKinds[accepted_.load()]));
    domains.back().extremes = extremes;
  }
  return SeededInputs(domains, seed);
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
