#include "main/open_ports.h"

#include <optional>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "wire/address.h"

namespace stoker {
namespace {

// Whether only this machine can connect.
bool IsLocal(const std::string& address, const PassedSockets& passed) {
  const std::optional<std::string> name = PassedName(address);
  if (name.has_value()) return passed.IsLocal(*name);
  const std::string host = address.substr(0, address.rfind(':'));
  return address.starts_with("unix:") || host.starts_with("127.") ||
         host == "localhost" || host == "[::1]";
}

}  // namespace

void WarnOfOpenPorts(const std::vector<std::string>& addresses,
                     const PassedSockets& passed, bool has_tls,
                     bool has_policy) {
  std::string open;
  for (const std::string& address : addresses) {
    if (address.empty() || IsLocal(address, passed)) continue;
    absl::StrAppend(&open, open.empty() ? "" : " and ", address);
  }
  if (has_tls || open.empty()) return;
  if (has_policy) {
    log::Warn(
        "{} takes tokens and requests in plain text, which others on the way "
        "can read: --tls-certificate and --tls-key change that",
        open);
    return;
  }
  log::Warn(
      "whoever reaches {} may use it, in plain text: --tls-certificate, "
      "--tls-key and --tls-client-ca, or --policy, change that",
      open);
}

}  // namespace stoker
