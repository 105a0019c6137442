#include "wire/handshakes.h"

namespace stoker {

Connection* Handshakes::Enter(Connection& connection) {
  Connection* out = nullptr;
  if (places_.size() >= most_) {
    out = silent_.empty() ? &connection : silent_.front();
  }
  places_[&connection] = {false, silent_.insert(silent_.end(), &connection)};
  return out;
}

void Handshakes::Queue(Connection& connection) {
  const auto found = places_.find(&connection);
  if (found == places_.end() || found->second.queued) return;
  found->second.queued = true;
  queue_.splice(queue_.end(), silent_, found->second.at);
}

Connection* Handshakes::Next() {
  if (queue_.empty()) return nullptr;
  Connection* const next = queue_.front();
  Place& place = places_.at(next);
  place.queued = false;
  silent_.splice(silent_.end(), queue_, place.at);
  return next;
}

void Handshakes::Leave(Connection& connection) {
  const auto found = places_.find(&connection);
  if (found == places_.end()) return;
  (found->second.queued ? queue_ : silent_).erase(found->second.at);
  places_.erase(found);
}

}  // namespace stoker
