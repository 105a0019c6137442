// How many connections there are, in all and of each address.
//
// Thread-safe.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"

namespace stoker {

class PeerTicket;

class Peers {
 public:
  // `peer`: an address without its port; empty: is not counted by address.
  PeerTicket Enter(const std::string& peer) ABSL_LOCKS_EXCLUDED(mu_);
  // The process itself.
  PeerTicket EnterWithin() ABSL_LOCKS_EXCLUDED(mu_);

 private:
  friend class PeerTicket;
  void Leave(const std::string& peer) ABSL_LOCKS_EXCLUDED(mu_);

  absl::Mutex mu_;
  int all_ ABSL_GUARDED_BY(mu_) = 0;
  absl::flat_hash_map<std::string, int> of_peer_ ABSL_GUARDED_BY(mu_);
};

// One connection among them, for as long as it lives. Movable; the Peers
// outlive it.
class PeerTicket {
 public:
  PeerTicket(Peers& peers, std::string peer, int all, int of_peer)
      : peers_(&peers), peer_(std::move(peer)), all_(all), of_peer_(of_peer) {}
  PeerTicket(PeerTicket&& other) noexcept
      : peers_(std::exchange(other.peers_, nullptr)),
        peer_(std::move(other.peer_)),
        all_(other.all_),
        of_peer_(other.of_peer_),
        within_(other.within_) {}
  PeerTicket& operator=(PeerTicket&&) = delete;
  ~PeerTicket() {
    if (peers_ != nullptr) peers_->Leave(peer_);
  }

  const std::string& peer() const { return peer_; }
  // When it entered, itself included.
  int all() const { return all_; }
  int of_peer() const { return of_peer_; }
  bool within() const { return within_; }

 private:
  friend class Peers;

  Peers* peers_;
  std::string peer_;
  int all_;
  int of_peer_;
  bool within_ = false;
};

inline PeerTicket Peers::Enter(const std::string& peer) {
  absl::MutexLock lock(&mu_);
  const int of_peer = peer.empty() ? 0 : ++of_peer_[peer];
  return PeerTicket(*this, peer, ++all_, of_peer);
}

inline PeerTicket Peers::EnterWithin() {
  PeerTicket ticket = Enter("");
  ticket.within_ = true;
  return ticket;
}

inline void Peers::Leave(const std::string& peer) {
  absl::MutexLock lock(&mu_);
  --all_;
  const auto entry = of_peer_.find(peer);
  if (entry != of_peer_.end() && --entry->second == 0) of_peer_.erase(entry);
}

}  // namespace stoker
