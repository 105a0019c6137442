#include "wire/handshakes.h"

namespace stoker {

PeerConnection* Handshakes::Enter(PeerConnection& connection) {
  PeerConnection* out = nullptr;
  if (places_.size() >= most_) {
    out = silent_.empty() ? &connection : silent_.front();
  }
  places_[&connection] = {false, silent_.insert(silent_.end(), &connection)};
  return out;
}

void Handshakes::Queue(PeerConnection& connection) {
  const auto found = places_.find(&connection);
  if (found == places_.end() || found->second.queued) return;
  found->second.queued = true;
  queue_.splice(queue_.end(), silent_, found->second.at);
}

PeerConnection* Handshakes::Next() {
  if (queue_.empty()) return nullptr;
  PeerConnection* const next = queue_.front();
  Place& place = places_.at(next);
  place.queued = false;
  silent_.splice(silent_.end(), queue_, place.at);
  return next;
}

void Handshakes::Leave(PeerConnection& connection) {
  const auto found = places_.find(&connection);
  if (found == places_.end()) return;
  (found->second.queued ? queue_ : silent_).erase(found->second.at);
  places_.erase(found);
}

}  // namespace stoker
