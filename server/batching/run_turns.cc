#include "batching/run_turns.h"

#include <utility>

#include "metrics/catalog.h"

namespace stoker {
namespace {

DeviceTurns::Record RecordOf(MetricSource& metrics, Labels labels,
                             const std::string& resource) {
  labels["resource"] = resource;
  return {.held = metrics.Counter(metric::kResourceSeconds, labels),
          .waited = metrics.Counter(metric::kResourceWaitSeconds, labels)};
}

}  // namespace

RunTurns::RunTurns(const RunDemand& demand, int share, double weight,
                   MetricSource& metrics, const Labels& labels) {
  for (const RunDemand::Resource& resource : demand.resources) {
    clients_.emplace_back(*resource.turns, resource.count, weight,
                          RecordOf(metrics, labels, resource.name));
  }
  clients_.emplace_back(*demand.turns, share, weight,
                        RecordOf(metrics, labels, demand.device));
}

void RunTurns::Leave() {
  for (DeviceTurns::Client& client : clients_) client.Leave();
}

RunTurns::Turn& RunTurns::Turn::operator=(Turn&& other) noexcept {
  End();
  parts_ = std::move(other.parts_);
  other.parts_.clear();
  return *this;
}

void RunTurns::Turn::End() {
  while (!parts_.empty()) parts_.pop_back();  // the device first
}

bool RunTurns::Turn::Renew() {
  bool has_come = true;
  for (DeviceTurns::Turn& part : parts_) {
    // What comes later in the order isn't kept by who waits for this.
    if (has_come) {
      has_come = part.Renew();
    } else {
      part.End();
    }
  }
  return has_come;
}

void RunTurns::Complete(Turn& turn) {
  turn.parts_.resize(clients_.size());
  for (size_t i = 0; i < clients_.size(); ++i) {
    DeviceTurns::Turn& part = turn.parts_[i];
    if (part.empty()) {
      part = DeviceTurns::Take(clients_[i]);
    } else {
      part.Await();
    }
  }
}

std::optional<RunTurns::Turn> RunTurns::TryTake() {
  Turn turn;
  for (DeviceTurns::Client& client : clients_) {
    std::optional<DeviceTurns::Turn> part = DeviceTurns::TryTake(client);
    if (!part) return std::nullopt;
    turn.parts_.push_back(*std::move(part));
  }
  return turn;
}

}  // namespace stoker
