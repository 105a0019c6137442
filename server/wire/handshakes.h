// The connections of a loop whose TLS handshake is not over. A handshake costs
// the thread half a millisecond and its client a recorded hello: so those whose
// peer has sent something stand in a queue, and the loop takes a few of them
// each turn. There are no more than so many altogether.
//
// Not thread-safe. Owns no connection.
#pragma once

#include <cstddef>
#include <list>

#include "absl/container/flat_hash_map.h"

namespace stoker {

class PeerConnection;

class Handshakes {
 public:
  explicit Handshakes(size_t most) : most_(most) {}

  // One begins. Where there are too many, the one that has to make room: that
  // whose peer has been silent for longest, and where all wait for this side,
  // the one that came. Null: none.
  PeerConnection* Enter(PeerConnection& connection);
  // Its peer has sent something. It has entered.
  void Queue(PeerConnection& connection);
  // The next of the queue, which waits for its peer again; null: none.
  PeerConnection* Next();
  // It is over, either way. Idempotent.
  void Leave(PeerConnection& connection);

  // Whether somebody waits for this side.
  bool waiting() const { return !queue_.empty(); }
  size_t size() const { return places_.size(); }

 private:
  using List = std::list<PeerConnection*>;
  struct Place {
    bool queued;
    List::iterator at;
  };

  const size_t most_;
  List silent_;  // the first for longest
  List queue_;
  absl::flat_hash_map<PeerConnection*, Place> places_;
};

}  // namespace stoker
