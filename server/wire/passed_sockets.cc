#include "wire/passed_sockets.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/environment.h"
#include "wire/ip_address.h"

namespace stoker {
namespace {

constexpr int kFirstPassed = 3;
// More is a mistake; a process has no more descriptors at its start.
constexpr int kMostPassed = 1000;

absl::Status NotPassed(const std::string& expected, const std::string& got) {
  return absl::InvalidArgumentError(absl::StrCat(
      "expected ", expected, " from the service manager, got ", got));
}

bool OnlyThisMachineConnects(int descriptor) {
  sockaddr_storage name = {};
  socklen_t size = sizeof(name);
  getsockname(descriptor, reinterpret_cast<sockaddr*>(&name), &size);
  const std::optional<IpAddress> address = IpAddress::Of(name);
  return !address.has_value() || address->is_loopback();
}

int OptionOf(int descriptor, int option) {
  int value = -1;
  socklen_t size = sizeof(value);
  getsockopt(descriptor, SOL_SOCKET, option, &value, &size);
  return value;
}

// What it is instead; empty: it listens for streams.
std::string OtherThanListening(int descriptor) {
  const int type = OptionOf(descriptor, SO_TYPE);
  const int family = OptionOf(descriptor, SO_DOMAIN);
  if (type == -1) return "no socket";
  if (type != SOCK_STREAM) return "a socket that is none of streams";
  if (family != AF_INET && family != AF_INET6 && family != AF_UNIX) {
    return "a socket of another family than IP and unix";
  }
  if (OptionOf(descriptor, SO_ACCEPTCONN) != 1) {
    return "a socket that doesn't listen, as one of Accept=yes";
  }
  return "";
}

}  // namespace

absl::StatusOr<PassedSockets> PassedSockets::FromEnvironment() {
  const std::string process = TakeVariable("LISTEN_PID");
  const std::string number = TakeVariable("LISTEN_FDS");
  const std::string names = TakeVariable("LISTEN_FDNAMES");
  TakeVariable("LISTEN_PIDFDID");  // of newer ones; the id says the same
  PassedSockets passed;
  int64_t whose = 0;
  if (process.empty() || number.empty()) return passed;
  if (!absl::SimpleAtoi(process, &whose)) {
    return NotPassed("a process' number in LISTEN_PID",
                     absl::StrCat("\"", absl::CHexEscape(process), "\""));
  }
  if (whose != getpid()) return passed;
  int count = 0;
  if (!absl::SimpleAtoi(number, &count) || count < 0 || count > kMostPassed) {
    return NotPassed(absl::StrCat("a number of sockets from 0 to ", kMostPassed,
                                  " in LISTEN_FDS"),
                     absl::StrCat("\"", absl::CHexEscape(number), "\""));
  }
  std::vector<std::string> named;
  if (!names.empty() && count > 0) named = absl::StrSplit(names, ':');
  if (!names.empty() && std::ssize(named) != count) {
    return NotPassed(
        absl::StrCat(count, " names in LISTEN_FDNAMES, as many as sockets"),
        absl::StrCat(named.size(), ": \"", absl::CHexEscape(names), "\""));
  }
  for (int i = 0; i < count; ++i) {
    const int descriptor = kFirstPassed + i;
    if (fcntl(descriptor, F_SETFD, FD_CLOEXEC) != 0) {
      return NotPassed(
          absl::StrCat(count, " open descriptors from ", kFirstPassed, " on"),
          absl::StrCat("none as number ", descriptor));
    }
    passed.sockets_.push_back({names.empty() ? "unknown" : named[i],
                               FileDescriptor(descriptor),
                               OnlyThisMachineConnects(descriptor)});
  }
  return passed;
}

absl::StatusOr<std::vector<FileDescriptor>> PassedSockets::Take(
    const std::string& name) {
  const std::string left = Names();
  std::vector<FileDescriptor> taken;
  for (Socket& socket : sockets_) {
    if (socket.name != name || !socket.descriptor.ok()) continue;
    const std::string other = OtherThanListening(socket.descriptor.get());
    if (!other.empty()) {
      return NotPassed("a socket that listens for streams", other);
    }
    const int flags = fcntl(socket.descriptor.get(), F_GETFL);
    fcntl(socket.descriptor.get(), F_SETFL, flags | O_NONBLOCK);
    taken.push_back(std::move(socket.descriptor));
  }
  if (!taken.empty()) return taken;
  return absl::NotFoundError(absl::StrCat(
      "expected a socket of that name from the service manager (LISTEN_FDS, "
      "LISTEN_FDNAMES), got ",
      left.empty() ? "none" : left));
}

bool PassedSockets::IsLocal(const std::string& name) const {
  return std::all_of(sockets_.begin(), sockets_.end(),
                     [&name](const Socket& socket) {
                       return socket.name != name || socket.local;
                     });
}

std::string PassedSockets::Names() const {
  std::vector<std::string> names;
  for (const Socket& socket : sockets_) {
    if (!socket.descriptor.ok()) continue;
    names.push_back(absl::StrCat("'", absl::CHexEscape(socket.name), "'"));
  }
  return absl::StrJoin(names, ", ");
}

std::string PassedSockets::CloseOthers() {
  std::string names = Names();
  for (Socket& socket : sockets_) {
    const FileDescriptor closed = std::move(socket.descriptor);
  }
  return names;
}

}  // namespace stoker
