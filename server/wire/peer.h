// Who is at the other end of a connection, as far as the transport can tell,
// and a place for what others have found out about it.
//
// Lives as long as the connection, and as long as somebody holds it. Constant
// but for the note, which is for the connection's loop alone.
#pragma once

#include <memory>
#include <string>
#include <vector>

namespace stoker {

// What users of the transport keep with a peer.
class PeerNote {
 public:
  virtual ~PeerNote() = default;
};

struct Peer {
  std::string address;  // without its port; empty: a unix socket
  bool within = false;  // the process itself
  bool local = false;   // this machine; the process, too
  // DNS, URI and e-mail names of its certificate, which was verified.
  std::vector<std::string> names;
  std::unique_ptr<PeerNote> note;

  // "10.0.0.1", "unix" or "within".
  std::string shown() const {
    if (within) return "within";
    return address.empty() ? "unix" : address;
  }
};

}  // namespace stoker
