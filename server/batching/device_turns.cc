#include "batching/device_turns.h"

#include <algorithm>
#include <utility>

namespace stoker {

DeviceTurns::DeviceTurns(int capacity, Clock& clock)
    : capacity_(std::max(capacity, 1)), clock_(clock), free_(capacity_) {}

DeviceTurns::Client::Client(DeviceTurns& turns, int share, double weight)
    : turns_(turns),
      share_(std::clamp(share, 1, turns.capacity_)),
      weight_(weight) {}

DeviceTurns::Turn::Turn(Turn&& other) noexcept
    : client_(std::exchange(other.client_, nullptr)), start_(other.start_) {}

DeviceTurns::Turn& DeviceTurns::Turn::operator=(Turn&& other) noexcept {
  End();
  client_ = std::exchange(other.client_, nullptr);
  start_ = other.start_;
  return *this;
}

void DeviceTurns::Turn::End() {
  if (client_ == nullptr) return;
  Client& client = *std::exchange(client_, nullptr);
  client.turns_.End(client, client.turns_.clock_.Now() - start_);
}

DeviceTurns::Turn DeviceTurns::Take(Client& client) {
  DeviceTurns& turns = client.turns_;
  {
    Waiting waiting{&client};
    absl::MutexLock lock(&turns.mu_);
    turns.AddLocked(client);
    turns.waiting_.push_back(&waiting);
    turns.GrantNextLocked();
    turns.mu_.Await(absl::Condition(&waiting.granted));
  }
  return Turn(&client, turns.clock_.Now());
}

std::optional<DeviceTurns::Turn> DeviceTurns::TryTake(Client& client) {
  DeviceTurns& turns = client.turns_;
  {
    absl::MutexLock lock(&turns.mu_);
    if (!turns.waiting_.empty() || client.share_ > turns.free_) {
      return std::nullopt;
    }
    turns.AddLocked(client);
    turns.GrantLocked(client);
  }
  return Turn(&client, turns.clock_.Now());
}

void DeviceTurns::AddLocked(Client& client) {
  if (client.active_++ == 0) {
    client.virtual_time_ = std::max(client.virtual_time_, virtual_now_);
  }
  ++active_;
  ++asked_;
}

void DeviceTurns::GrantLocked(Client& client) {
  free_ -= client.share_;
  virtual_now_ = client.virtual_time_;
}

void DeviceTurns::GrantNextLocked() {
  while (!waiting_.empty()) {
    const auto next = std::min_element(
        waiting_.begin(), waiting_.end(), [](const auto* a, const auto* b) {
          return a->client->virtual_time_ < b->client->virtual_time_;
        });
    Client& client = *(*next)->client;
    // Nobody smaller passes by: else who needs all cores would never get them.
    if (client.share_ > free_) return;
    GrantLocked(client);
    (*next)->granted = true;
    waiting_.erase(next);
  }
}

void DeviceTurns::End(Client& client, absl::Duration used) {
  absl::MutexLock lock(&mu_);
  client.virtual_time_ +=
      absl::ToDoubleSeconds(used) * client.share_ / client.weight_;
  --client.active_;
  --active_;
  free_ += client.share_;
  GrantNextLocked();
}

int DeviceTurns::waiting() const {
  absl::MutexLock lock(&mu_);
  return static_cast<int>(waiting_.size());
}

bool DeviceTurns::idle() const {
  absl::MutexLock lock(&mu_);
  return active_ == 0;
}

uint64_t DeviceTurns::asked() const {
  absl::MutexLock lock(&mu_);
  return asked_;
}

bool DeviceTurns::Contended(const Client& client) {
  absl::MutexLock lock(&client.turns_.mu_);
  return client.turns_.active_ > client.active_;
}

}  // namespace stoker
