#include "loadtest/generator/rate_search.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace stoker::loadtest {
namespace {

// How far a step up or down goes while only one side is known.
constexpr double kStride = 1.3;

class Search {
 public:
  Search(const RateSearch& search,
         const std::function<RateTrial(double)>& try_rate)
      : min_(search.min_rate),
        max_(search.max_rate > 0 ? search.max_rate
                                 : std::numeric_limits<double>::infinity()),
        search_(search),
        try_rate_(try_rate) {}

  SearchOutcome Run(double start) {
    Try(std::clamp(start, min_, max_));
    while (Trials() < kMaxTrials) {
      if (!Closed()) {
        Try(Next());
      } else if (passed_.empty() || Confirm()) {
        break;
      }
    }
    if (!passed_.empty()) outcome_.rate = passed_.back();
    outcome_.client_limited = failed_by_client_;
    return std::move(outcome_);
  }

 private:
  int Trials() const { return static_cast<int>(outcome_.trials.size()); }

  bool Try(double rate) {
    outcome_.trials.push_back(try_rate_(rate));
    const RateTrial& trial = outcome_.trials.back();
    if (trial.meets) {
      passed_.push_back(rate);
      std::sort(passed_.begin(), passed_.end());
    } else {
      Fail(rate, trial.client_limited);
    }
    return trial.meets;
  }

  // Nothing at or above a rate that failed counts as passed.
  void Fail(double rate, bool by_client) {
    failed_ = std::min(failed_, rate);
    failed_by_client_ = by_client;
    std::erase_if(passed_, [&](double passed) { return passed >= failed_; });
  }

  // Whether there is nothing left between the two sides.
  bool Closed() const {
    if (passed_.empty()) return failed_ <= min_;
    return passed_.back() >= max_ ||
           failed_ <= passed_.back() * (1 + search_.resolution);
  }

  double Next() const {
    if (passed_.empty()) return std::max(failed_ / kStride, min_);
    if (std::isinf(failed_)) return std::min(passed_.back() * kStride, max_);
    return std::sqrt(passed_.back() * failed_);
  }

  bool Confirm() {
    const double rate = passed_.back();
    for (int i = 0; i < search_.confirmations && Trials() < kMaxTrials; ++i) {
      if (!Try(rate)) return false;
    }
    return true;
  }

  const double min_, max_;
  const RateSearch& search_;
  const std::function<RateTrial(double)>& try_rate_;
  SearchOutcome outcome_;
  std::vector<double> passed_;  // ascending
  double failed_ = std::numeric_limits<double>::infinity();
  bool failed_by_client_ = false;
};

}  // namespace

SearchOutcome FindHighestRate(
    const RateSearch& search, double start_rate,
    const std::function<RateTrial(double)>& try_rate) {
  return Search(search, try_rate).Run(start_rate);
}

}  // namespace stoker::loadtest
