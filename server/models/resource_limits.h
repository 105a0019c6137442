// How much there is of the resources that models name: what the command line
// says.
#pragma once

#include <string>
#include <vector>

namespace stoker {

struct ResourceLimit {
  std::string name;
  int count = 1;
  std::string device;  // "cpu", "cuda:0"; empty: of each
};

struct ResourceLimits {
  bool enforced = true;  // false: nobody waits for any
  // Of a resource without a limit there is as much as the model that takes most
  // of it at a time.
  std::vector<ResourceLimit> limits;
};

}  // namespace stoker
