// Accepts connections and deals them out to the loops. It is never out of
// descriptors for long: one is kept in reserve to take a connection with that
// can't be kept, so that it doesn't stay in the queue and the thread with it.
//
// Used on the first loop's thread, but for Open and Close.
#pragma once

#include <sys/socket.h>

#include <memory>
#include <string>
#include <vector>

#include "base/file_descriptor.h"
#include "wire/ip_address.h"
#include "wire/loop.h"
#include "wire/peer_connection.h"
#include "wire/peers.h"
#include "wire/protocol.h"
#include "wire/rare_line.h"
#include "wire/wire_metrics.h"

namespace stoker {

class Listener {
 public:
  // `proxies`: not empty: those connections to sockets of IP are taken which
  // come from them, and begin with a PROXY header. All that is passed by
  // reference outlives it. The first loop does its work.
  Listener(std::vector<FileDescriptor> sockets, Protocol protocol,
           const std::vector<IpNetwork>& proxies,
           const std::vector<std::unique_ptr<WireLoop>>& loops, Peers& peers,
           WireMetrics& metrics);
  ~Listener();

  // Once, when the loops run.
  void Open();
  // When the first loop's thread has ended, or runs this.
  void Close();

 private:
  class Socket final : public EventSource {
   public:
    Socket(Listener& listener, FileDescriptor descriptor)
        : listener_(listener), descriptor_(std::move(descriptor)) {}
    void OnReady(uint32_t events) override;
    int descriptor() const { return descriptor_.get(); }

   private:
    Listener& listener_;
    const FileDescriptor descriptor_;
  };

  // False: there is nothing to accept now.
  bool AcceptOne(int descriptor);
  void Take(FileDescriptor socket, const sockaddr_storage& name);
  void TakeProxied(WireLoop& loop, FileDescriptor socket,
                   const IpAddress& proxy);
  void OnFailure(int descriptor, int error);
  void Complain(int error);

  const Protocol protocol_;
  const std::vector<IpNetwork>& proxies_;
  const std::vector<std::unique_ptr<WireLoop>>& loops_;
  Peers& peers_;
  WireMetrics& metrics_;
  std::vector<std::unique_ptr<Socket>> sockets_;
  FileDescriptor reserve_;
  size_t next_loop_ = 0;
  RareLine of_failures_;
};

}  // namespace stoker
