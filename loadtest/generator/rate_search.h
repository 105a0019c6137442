// Search for the highest rate that meets an SLO: pure, it only knows what each
// trial said.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "loadtest/generator/scenario.h"

namespace stoker::loadtest {

struct RateTrial {
  double rate = 0;
  bool meets = false;
  std::string why;              // when it does not
  bool client_limited = false;  // it says nothing about the server
};

struct SearchOutcome {
  // nullopt: not even the lowest rate that was tried meets the SLO.
  std::optional<double> rate;
  std::vector<RateTrial> trials;  // in the order they were made
  // A rate that was refused was so because of the client: the server may be
  // able to do more.
  bool client_limited = false;
};

// Walks up or down from `start_rate` until one rate meets the SLO and one does
// not, then bisects between the two until they are search.resolution apart; the
// lower one has to pass search.confirmations more trials, and becomes the upper
// one when it fails any. Stays within search.min_rate and, where it is not 0,
// search.max_rate. Makes kMaxTrials trials at most.
SearchOutcome FindHighestRate(const RateSearch& search, double start_rate,
                              const std::function<RateTrial(double)>& try_rate);

constexpr int kMaxTrials = 40;

}  // namespace stoker::loadtest
