#include "ctl/health_command.h"

#include "base/status_macros.h"
#include "ctl/output.h"
#include "nlohmann/json.hpp"
#include "rpc/health_client.h"

namespace stoker {

absl::StatusOr<int> ShowHealth(const std::string& address,
                               const std::string& service,
                               absl::Duration timeout, bool json) {
  ASSIGN_OR_RETURN(const bool serves, AskHealth(address, service, timeout));
  if (json) {
    PrintJson({{"service", service}, {"serving", serves}});
  } else {
    Print(serves ? "serving\n" : "not serving\n");
  }
  return serves ? 0 : 1;
}

}  // namespace stoker
