#include "wire/address.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/host_port.h"

namespace stoker {
namespace {

constexpr char kUnix[] = "unix:";
constexpr char kPassed[] = "fd:";
// Of systemd's FileDescriptorName.
constexpr size_t kMaxName = 255;

constexpr int kBacklog = 1024;

absl::Status CannotListen(const std::string& protocol,
                          const std::string& address, const char* why) {
  return absl::UnavailableError(
      absl::StrCat("can't listen for ", protocol, " on '", address,
                   "': expected host:port with a free port of this machine "
                   "(port 0: any), or unix:PATH: ",
                   why));
}

std::string UnixPath(const std::string& address) {
  return std::string(absl::StripPrefix(address, kUnix));
}

absl::StatusOr<sockaddr_un> UnixAddress(const std::string& address) {
  const std::string path = UnixPath(address);
  sockaddr_un name = {};
  name.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof(name.sun_path)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "expected unix:PATH with a path of 1 to ", sizeof(name.sun_path) - 1,
        " bytes, got \"", address, "\""));
  }
  std::memcpy(name.sun_path, path.data(), path.size());
  return name;
}

// Whether the socket's file is left over from a process that is gone.
bool NobodyListens(const sockaddr_un& name) {
  struct stat file = {};
  if (stat(name.sun_path, &file) != 0 || !S_ISSOCK(file.st_mode)) return false;
  const FileDescriptor probe(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  return connect(probe.get(), reinterpret_cast<const sockaddr*>(&name),
                 sizeof(name)) != 0 &&
         errno == ECONNREFUSED;
}

absl::StatusOr<FileDescriptor> Bound(const sockaddr* name, socklen_t size,
                                     const std::string& address,
                                     const std::string& protocol) {
  FileDescriptor socket(
      ::socket(name->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.ok())
    return CannotListen(protocol, address, std::strerror(errno));
  const int on = 1;
  if (name->sa_family != AF_UNIX) {
    // Not SO_REUSEPORT: two servers on one port would each get some of the
    // connections.
    setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  }
  if (name->sa_family == AF_INET6) {
    // "[::]" is for IPv4 too, as it is elsewhere.
    const int off = 0;
    setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
  }
  if (bind(socket.get(), name, size) != 0 ||
      listen(socket.get(), kBacklog) != 0) {
    return CannotListen(protocol, address, std::strerror(errno));
  }
  return socket;
}

int PortOf(const FileDescriptor& socket) {
  sockaddr_storage name = {};
  socklen_t size = sizeof(name);
  getsockname(socket.get(), reinterpret_cast<sockaddr*>(&name), &size);
  if (name.ss_family == AF_UNIX) return 0;
  if (name.ss_family == AF_INET6) {
    return ntohs(reinterpret_cast<const sockaddr_in6&>(name).sin6_port);
  }
  return ntohs(reinterpret_cast<const sockaddr_in&>(name).sin_port);
}

void SetPort(addrinfo& entry, int port) {
  const auto number = htons(static_cast<uint16_t>(port));
  if (entry.ai_family == AF_INET6) {
    reinterpret_cast<sockaddr_in6*>(entry.ai_addr)->sin6_port = number;
  } else {
    reinterpret_cast<sockaddr_in*>(entry.ai_addr)->sin_port = number;
  }
}

absl::StatusOr<ListeningSockets> ListenUnix(const std::string& address,
                                            const std::string& protocol) {
  absl::StatusOr<sockaddr_un> name = UnixAddress(address);
  if (!name.ok()) return name.status();
  if (NobodyListens(*name)) unlink(name->sun_path);
  absl::StatusOr<FileDescriptor> socket =
      Bound(reinterpret_cast<const sockaddr*>(&*name), sizeof(*name), address,
            protocol);
  if (!socket.ok()) return socket.status();
  ListeningSockets listening;
  listening.sockets.push_back(*std::move(socket));
  return listening;
}

absl::StatusOr<ListeningSockets> ListenPassed(const std::string& address,
                                              const std::string& protocol,
                                              PassedSockets* passed) {
  PassedSockets none;
  auto sockets =
      (passed == nullptr ? none : *passed).Take(*PassedName(address));
  if (!sockets.ok()) {
    return absl::UnavailableError(
        absl::StrCat("can't listen for ", protocol, " on '", address,
                     "': ", sockets.status().message()));
  }
  ListeningSockets listening;
  listening.port = PortOf(sockets->front());
  listening.sockets = *std::move(sockets);
  return listening;
}

}  // namespace

std::optional<std::string> PassedName(const std::string& address) {
  if (!absl::StartsWith(address, kPassed)) return std::nullopt;
  return std::string(absl::StripPrefix(address, kPassed));
}

absl::Status CheckListenAddress(const std::string& address) {
  if (const std::optional<std::string> name = PassedName(address)) {
    if (!name->empty() && name->size() <= kMaxName &&
        name->find(':') == name->npos) {
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(
        absl::StrCat("expected fd:NAME with a name of 1 to ", kMaxName,
                     " bytes without a colon, got \"", address, "\""));
  }
  if (absl::StartsWith(address, kUnix)) return UnixAddress(address).status();
  return CheckHostPort(address);
}

absl::StatusOr<ListeningSockets> Listen(const std::string& address,
                                        const std::string& protocol,
                                        PassedSockets* passed) {
  if (const absl::Status bad = CheckListenAddress(address); !bad.ok()) {
    return bad;
  }
  if (absl::StartsWith(address, kUnix)) return ListenUnix(address, protocol);
  if (absl::StartsWith(address, kPassed)) {
    return ListenPassed(address, protocol, passed);
  }
  const size_t colon = address.rfind(':');
  std::string host = address.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (const int error = getaddrinfo(
          host.c_str(), address.substr(colon + 1).c_str(), &hints, &found);
      error != 0) {
    return CannotListen(protocol, address, gai_strerror(error));
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> entries(
      found, &freeaddrinfo);
  ListeningSockets listening;
  absl::Status failure;
  for (addrinfo* entry = found; entry != nullptr; entry = entry->ai_next) {
    if (entry->ai_family != AF_INET && entry->ai_family != AF_INET6) continue;
    if (listening.port != 0) SetPort(*entry, listening.port);
    absl::StatusOr<FileDescriptor> socket =
        Bound(entry->ai_addr, entry->ai_addrlen, address, protocol);
    if (!socket.ok()) {
      failure = socket.status();
      continue;
    }
    listening.port = PortOf(*socket);
    listening.sockets.push_back(*std::move(socket));
  }
  if (listening.sockets.empty()) {
    return failure.ok() ? CannotListen(protocol, address, "no such address")
                        : failure;
  }
  return listening;
}

}  // namespace stoker
