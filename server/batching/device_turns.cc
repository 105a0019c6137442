#include "batching/device_turns.h"

#include <algorithm>
#include <utility>

namespace stoker {

DeviceTurns::DeviceTurns(int capacity, Clock& clock, absl::Duration patience)
    : capacity_(std::max(capacity, 1)),
      clock_(clock),
      patience_(patience),
      free_(capacity_) {}

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
  client.turns_.End(client, start_);
}

DeviceTurns::Turn DeviceTurns::Take(Client& client) {
  DeviceTurns& turns = client.turns_;
  Waiting waiting{&client, std::nullopt};
  const MonotonicTime now = turns.clock_.Now();
  absl::MutexLock lock(&turns.mu_);
  turns.AddLocked(client);
  turns.waiting_.push_back(&waiting);
  turns.GrantNextLocked(now);
  turns.AwaitGrantLocked(waiting);
  return Turn(&client, *waiting.granted);
}

void DeviceTurns::AwaitGrantLocked(Waiting& waiting) {
  const absl::Condition granted(
      +[](Waiting* mine) { return mine->granted.has_value(); }, &waiting);
  if (patience_ == absl::InfiniteDuration()) return mu_.Await(granted);
  while (!granted.Eval()) {
    clock_.AwaitWithDeadline(&mu_, granted, NextLoanLocked());
    LendLocked();
  }
}

MonotonicTime DeviceTurns::NextLoanLocked() const {
  MonotonicTime next = MonotonicTime::InfiniteFuture();
  for (const Held& held : held_) {
    if (!held.lent) next = std::min(next, held.start + patience_);
  }
  return next;
}

void DeviceTurns::LendLocked() {
  if (waiting_.empty()) return;
  const MonotonicTime now = clock_.Now();
  for (Held& held : held_) {
    if (held.lent || now < held.start + patience_) continue;
    held.lent = true;
    free_ += held.client->share_;
  }
  GrantNextLocked(now);
}

std::optional<DeviceTurns::Turn> DeviceTurns::TryTake(Client& client) {
  DeviceTurns& turns = client.turns_;
  const MonotonicTime now = turns.clock_.Now();
  absl::MutexLock lock(&turns.mu_);
  if (!turns.waiting_.empty() || client.share_ > turns.free_) {
    return std::nullopt;
  }
  turns.AddLocked(client);
  turns.GrantLocked(client, now);
  return Turn(&client, now);
}

void DeviceTurns::AddLocked(Client& client) {
  if (client.active_++ == 0) {
    client.virtual_time_ = std::max(client.virtual_time_, virtual_now_);
  }
  ++active_;
  ++asked_;
}

void DeviceTurns::GrantLocked(Client& client, MonotonicTime now) {
  free_ -= client.share_;
  virtual_now_ = client.virtual_time_;
  held_.push_back({&client, now});
}

void DeviceTurns::GrantNextLocked(MonotonicTime now) {
  while (!waiting_.empty()) {
    const auto next = std::min_element(
        waiting_.begin(), waiting_.end(), [](const auto* a, const auto* b) {
          return a->client->virtual_time_ < b->client->virtual_time_;
        });
    Client& client = *(*next)->client;
    // Nobody smaller passes by: else who needs all cores would never get them.
    if (client.share_ > free_) return;
    GrantLocked(client, now);
    (*next)->granted = now;
    waiting_.erase(next);
  }
}

void DeviceTurns::End(Client& client, MonotonicTime start) {
  const MonotonicTime now = clock_.Now();
  absl::MutexLock lock(&mu_);
  // Turns of one client that began in the same instant are alike.
  const auto held =
      std::find_if(held_.begin(), held_.end(), [&](const Held& one) {
        return one.client == &client && one.start == start;
      });
  client.virtual_time_ +=
      absl::ToDoubleSeconds(now - start) * client.share_ / client.weight_;
  --client.active_;
  --active_;
  if (!held->lent) free_ += client.share_;
  held_.erase(held);
  GrantNextLocked(now);
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
