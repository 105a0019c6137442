// Talks to the service manager that started this process, as sd_notify(3) does:
// datagrams to the socket that NOTIFY_SOCKET names. That manual asks who needs
// no more than this to do without the library.
//
// Tell is thread-safe, the rest isn't.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/file_descriptor.h"
#include "base/monotonic_time.h"

namespace stoker {

class ModelManager;
class RpcServer;

class ServiceManager {
 public:
  // Takes the variables out of the environment: children aren't the service.
  static ServiceManager FromEnvironment();

  // "READY=1", "STATUS=..." and so on. Nothing without a service manager, or
  // when it doesn't listen.
  void Tell(std::string_view what) const;
  // STATUS, where it is another than the last.
  void TellStatus(const std::string& status);

  // Unless it hears "WATCHDOG=1" at least that often, the service is started
  // anew; nullopt: it doesn't mind.
  std::optional<absl::Duration> watchdog() const { return watchdog_; }

 private:
  FileDescriptor socket_{-1};
  std::optional<absl::Duration> watchdog_;
  std::string status_;
};

// What the server's own health service says of `service`, asked from within:
// from outside it might want a certificate. Errors as AskHealth has them.
// Thread-safe; not after the server's Shutdown.
absl::StatusOr<bool> AskOwnHealth(RpcServer& server, const std::string& service,
                                  absl::Duration timeout);

// Tells the service manager that the process lives when the server answers
// itself: a process whose threads are stuck doesn't.
//
// Not thread-safe.
class Watchdog {
 public:
  // Both outlive this.
  Watchdog(ServiceManager& services, RpcServer& server)
      : services_(services), server_(server) {}

  // Once every few seconds; asks the server three times in the interval at
  // which the service manager wants to hear of it.
  void Look(MonotonicTime now);

 private:
  ServiceManager& services_;
  RpcServer& server_;
  MonotonicTime next_ = MonotonicTime::InfinitePast();
};

// One line for `systemctl status`.
std::string ServiceStatus(const ModelManager& manager);

}  // namespace stoker
