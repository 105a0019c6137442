#include "batching/device_turns.h"

#include <algorithm>
#include <utility>

namespace stoker {

DeviceTurns::DeviceTurns(int capacity, Clock& clock, absl::Duration patience)
    : as_asked_(capacity == kAsAsked),
      clock_(clock),
      patience_(patience),
      capacity_(std::max(capacity, 1)),
      free_(capacity_) {}

void DeviceTurns::Show(Gauge capacity, Gauge taken) {
  absl::MutexLock lock(&mu_);
  shows_capacity_ = capacity;
  shows_taken_ = taken;
  ShowLocked();
}

void DeviceTurns::ShowLocked() {
  if (!shows_taken_) return;
  shows_capacity_->Set(capacity_);
  shows_taken_->Set(capacity_ - free_);
}

int DeviceTurns::Join(int share) {
  absl::MutexLock lock(&mu_);
  if (!as_asked_) share = std::min(share, capacity_);
  share = std::max(share, 1);
  shares_.insert(share);
  FitCapacityLocked();
  return share;
}

void DeviceTurns::Leave(int share) {
  absl::MutexLock lock(&mu_);
  shares_.erase(shares_.find(share));
  FitCapacityLocked();
}

void DeviceTurns::FitCapacityLocked() {
  if (!as_asked_) return;
  const int most = shares_.empty() ? 1 : *shares_.rbegin();
  free_ += most - capacity_;
  capacity_ = most;
  ShowLocked();
}

DeviceTurns::Client::Client(DeviceTurns& turns, int share, double weight,
                            Record record)
    : turns_(turns),
      share_(turns.Join(share)),
      weight_(weight),
      record_(record) {}

void DeviceTurns::Client::Leave() {
  if (!std::exchange(left_, true)) turns_.Leave(share_);
}

DeviceTurns::Turn::Turn() = default;

DeviceTurns::Turn::Turn(Client* client, MonotonicTime start)
    : client_(client), start_(start) {}

DeviceTurns::Turn::Turn(Turn&& other) noexcept
    : client_(std::exchange(other.client_, nullptr)),
      start_(other.start_),
      asked_(std::move(other.asked_)) {}

DeviceTurns::Turn& DeviceTurns::Turn::operator=(Turn&& other) noexcept {
  End();
  client_ = std::exchange(other.client_, nullptr);
  start_ = other.start_;
  asked_ = std::move(other.asked_);
  return *this;
}

DeviceTurns::Turn::~Turn() { End(); }

void DeviceTurns::Turn::End() {
  if (client_ == nullptr) return;
  Client& client = *std::exchange(client_, nullptr);
  if (asked_ == nullptr) return client.turns_.End(client, start_);
  client.turns_.Forgo(*asked_);
  asked_.reset();
}

bool DeviceTurns::Turn::Renew() {
  asked_ = std::make_unique<Waiting>(Waiting{client_, {}, std::nullopt});
  if (!client_->turns_.Renew(start_, *asked_)) return false;
  start_ = *asked_->granted;
  asked_.reset();
  return true;
}

void DeviceTurns::Turn::Await() {
  if (asked_ == nullptr) return;
  client_->turns_.Await(*asked_);
  start_ = *asked_->granted;
  asked_.reset();
}

DeviceTurns::Turn DeviceTurns::Take(Client& client) {
  DeviceTurns& turns = client.turns_;
  const MonotonicTime now = turns.clock_.Now();
  Waiting waiting{&client, now, std::nullopt};
  {
    absl::MutexLock lock(&turns.mu_);
    turns.AddLocked(client);
    turns.waiting_.push_back(&waiting);
    turns.GrantNextLocked(now);
  }
  turns.Await(waiting);
  return Turn(&client, *waiting.granted);
}

void DeviceTurns::Await(Waiting& waiting) {
  const absl::Condition granted(
      +[](Waiting* mine) { return mine->granted.has_value(); }, &waiting);
  absl::MutexLock lock(&mu_);
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
  ShowLocked();
}

void DeviceTurns::GrantNextLocked(MonotonicTime now) {
  while (!waiting_.empty()) {
    const auto next = std::min_element(
        waiting_.begin(), waiting_.end(), [](const auto* a, const auto* b) {
          return a->client->virtual_time_ < b->client->virtual_time_;
        });
    Waiting& waiting = **next;
    Client& client = *waiting.client;
    // Nobody smaller passes by: else who needs all cores would never get them.
    if (client.share_ > free_) return;
    GrantLocked(client, now);
    waiting.granted = now;
    if (client.record_.waited && now > waiting.since) {
      client.record_.waited->Add(absl::ToDoubleSeconds(now - waiting.since));
    }
    waiting_.erase(next);
  }
}

void DeviceTurns::EndLocked(Client& client, MonotonicTime start,
                            MonotonicTime now) {
  // Turns of one client that began in the same instant are alike.
  const auto held =
      std::find_if(held_.begin(), held_.end(), [&](const Held& one) {
        return one.client == &client && one.start == start;
      });
  const double used = absl::ToDoubleSeconds(now - start) * client.share_;
  client.virtual_time_ += used / client.weight_;
  if (client.record_.held) client.record_.held->Add(used);
  --client.active_;
  --active_;
  if (!held->lent) free_ += client.share_;
  held_.erase(held);
  ShowLocked();
}

void DeviceTurns::End(Client& client, MonotonicTime start) {
  const MonotonicTime now = clock_.Now();
  absl::MutexLock lock(&mu_);
  EndLocked(client, start, now);
  GrantNextLocked(now);
}

bool DeviceTurns::Renew(MonotonicTime start, Waiting& waiting) {
  const MonotonicTime now = clock_.Now();
  absl::MutexLock lock(&mu_);
  waiting.since = now;
  AddLocked(*waiting.client);  // first: it has not been idle
  EndLocked(*waiting.client, start, now);
  waiting_.push_back(&waiting);
  GrantNextLocked(now);
  return waiting.granted.has_value();
}

void DeviceTurns::Forgo(Waiting& waiting) {
  const MonotonicTime now = clock_.Now();
  Client& client = *waiting.client;
  absl::MutexLock lock(&mu_);
  if (waiting.granted.has_value()) {
    EndLocked(client, *waiting.granted, now);
  } else {
    waiting_.remove(&waiting);
    --client.active_;
    --active_;
  }
  GrantNextLocked(now);
}

int DeviceTurns::waiting() const {
  absl::MutexLock lock(&mu_);
  return static_cast<int>(waiting_.size());
}

int DeviceTurns::clients() const {
  absl::MutexLock lock(&mu_);
  return static_cast<int>(shares_.size());
}

bool DeviceTurns::idle() const {
  absl::MutexLock lock(&mu_);
  return active_ == 0;
}

uint64_t DeviceTurns::asked() const {
  absl::MutexLock lock(&mu_);
  return asked_;
}

}  // namespace stoker
