#include "main/service_manager.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/absl_view.h"
#include "base/environment.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "models/model_manager.h"
#include "rpc/health_client.h"
#include "rpc/rpc_server.h"

namespace stoker {
namespace {

// A path, or a name of its own kind, which "@" stands for.
FileDescriptor Connect(const std::string& name) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (name.empty() || (name[0] != '/' && name[0] != '@') ||
      name.size() >= sizeof(address.sun_path)) {
    return FileDescriptor(-1);
  }
  std::memcpy(address.sun_path, name.data(), name.size());
  if (name[0] == '@') address.sun_path[0] = '\0';
  FileDescriptor socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const auto length =
      static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
  if (connect(socket.get(), reinterpret_cast<const sockaddr*>(&address),
              length) != 0) {
    return FileDescriptor(-1);
  }
  return socket;
}

}  // namespace

ServiceManager ServiceManager::FromEnvironment() {
  ServiceManager manager;
  manager.socket_ = Connect(TakeVariable("NOTIFY_SOCKET"));
  int64_t microseconds = 0;
  int64_t process = getpid();  // where it isn't said, everybody
  const bool watched =
      absl::SimpleAtoi(TakeVariable("WATCHDOG_USEC"), &microseconds) &&
      microseconds > 0;
  const std::string whom = TakeVariable("WATCHDOG_PID");
  if (!whom.empty() && !absl::SimpleAtoi(whom, &process)) process = 0;
  if (watched && process == getpid()) {
    manager.watchdog_ = absl::Microseconds(microseconds);
  }
  return manager;
}

void ServiceManager::Tell(std::string_view what) const {
  if (!socket_.ok()) return;
  // Who doesn't read it must not stop the service.
  send(socket_.get(), what.data(), what.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

void ServiceManager::TellStatus(const std::string& status) {
  if (status == status_) return;
  status_ = status;
  Tell(absl::StrCat("STATUS=", status));
}

absl::StatusOr<bool> AskOwnHealth(RpcServer& server, const std::string& service,
                                  absl::Duration timeout) {
  ASSIGN_OR_RETURN(FileDescriptor connection, server.Connect());
  return AskHealth(std::move(connection), service, timeout);
}

void Watchdog::Look(MonotonicTime now) {
  if (!services_.watchdog().has_value() || now < next_) return;
  const absl::StatusOr<bool> lives =
      AskOwnHealth(server_, "liveness", *services_.watchdog() / 4);
  if (lives.ok() && *lives) {
    services_.Tell("WATCHDOG=1");
    next_ = now + *services_.watchdog() / 3;
  } else {
    log::Error("doesn't answer itself: {}",
               std::string(lives.status().message()));
  }
}

// One line for `systemctl status`.
std::string ServiceStatus(const ModelManager& manager) {
  size_t serving = 0;
  const std::vector<VersionStatus> versions = manager.Index();
  for (const VersionStatus& version : versions) {
    if (version.ready()) ++serving;
  }
  std::string counts =
      absl::StrCat(serving, " of ", versions.size(), " versions served");
  for (const VersionStatus& version : versions) {
    if (version.ready() || version.reason.empty()) {
      continue;
    }
    return absl::StrCat(counts, "; ", version.model, ":", version.version, " ",
                        Absl(VersionStateName(version.state)), ": ",
                        version.reason.substr(0, version.reason.find('\n')));
  }
  return counts;
}

}  // namespace stoker
