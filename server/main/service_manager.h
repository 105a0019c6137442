// Talks to the service manager that started this process, as sd_notify(3) does:
// datagrams to the socket that NOTIFY_SOCKET names. That manual asks who needs
// no more than this to do without the library.
//
// Tell is thread-safe, the rest isn't.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "absl/time/time.h"
#include "base/file_descriptor.h"

namespace stoker {

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

}  // namespace stoker
