// Lifecycle's part that keeps to the budget of the host's memory. What is
// loaded takes more than the budget by one version at most: the one that is
// being loaded, or that was while all others had requests under way.
//
// Room is made for what a version took last time, or for its weights. A load
// begins at once, beside the unloads that make its room, where no other is
// under way; several do where the budget has room for the most that they may
// take. What `memory: {keep: true}` keeps is loaded whatever it takes; and a
// version that is larger than all of the budget is served alone.

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "metrics/catalog.h"
#include "models/lifecycle.h"
#include "models/model_version.h"
#include "models/version_labels.h"

namespace stoker {
namespace {

constexpr char kHost[] = "cpu";

bool Loads(VersionState state) {
  return state == VersionState::kLoading || state == VersionState::kWarming;
}

double Megabytes(int64_t bytes) {
  return static_cast<double>(bytes) / (1 << 20);
}

}  // namespace

void Lifecycle::KeepBudget() {
  ShowMemory();
  if (options_.memory_budget == 0) return;
  // Who was asked last stays, even where he alone is more than that.
  RestWhileOver(HeldBytes().least, "the memory budget", /*leave=*/1);
  std::vector<Managed*> coming;
  for (const auto& managed : versions_) {
    if (managed->state == VersionState::kNew && managed->spec != nullptr &&
        managed->spec->pipeline == nullptr) {
      coming.push_back(managed.get());
    }
  }
  // What somebody waits for comes first.
  std::stable_partition(
      coming.begin(), coming.end(),
      [](const Managed* managed) { return managed->resting != nullptr; });
  bool full = false;
  Need promised;
  for (Managed* const managed : coming) {
    full = full || !FindRoom(*managed, promised);
    managed->awaits_room = full;
    if (full) continue;
    const Need need = NeedOf(*managed);
    promised.least += need.least;
    promised.most += std::max<int64_t>(need.most, 1);
  }
}

bool Lifecycle::FindRoom(const Managed& coming, const Need& promised) {
  const Need need = NeedOf(coming);
  RestWhileOver(HeldBytes().least + promised.least + need.least,
                coming.spec->Label(), /*leave=*/0);
  const Need held = HeldBytes();
  const int64_t leaving = LeavingBytes();
  if (held.most + promised.most + leaving + need.most <=
      options_.memory_budget) {
    return true;
  }
  const bool others_load =
      std::any_of(versions_.begin(), versions_.end(),
                  [](const auto& managed) { return Loads(managed->state); });
  if (others_load || promised.most > 0) return false;
  // What it takes the place of can't rest, and goes when this serves.
  const bool replaces =
      std::any_of(versions_.begin(), versions_.end(), [&](const auto& managed) {
        return managed->running != nullptr && !managed->wanted &&
               managed->model == coming.model;
      });
  const bool alone =
      leaving == 0 &&
      std::none_of(versions_.begin(), versions_.end(), [](const auto& managed) {
        return managed->running != nullptr && !managed->spec->keep_in_memory;
      });
  return coming.spec->keep_in_memory || replaces || alone ||
         held.least + leaving <= options_.memory_budget;
}

void Lifecycle::RestWhileOver(int64_t bytes, const std::string& for_whom,
                              size_t leave) {
  if (bytes <= options_.memory_budget) return;
  std::vector<Managed*> all = IdleVersions();
  std::erase_if(all, [](const Managed* idle) { return idle->spec->on_gpu(); });
  all.resize(all.size() - std::min(leave, all.size()));
  for (Managed* const idle : all) {
    if (bytes <= options_.memory_budget) return;
    const int64_t freed = idle->running->host_memory().total();
    Rest(*idle, kHost, for_whom);
    bytes -= freed;
  }
}

Lifecycle::Need Lifecycle::NeedOf(const Managed& coming) {
  if (coming.host_bytes > 0) return {coming.host_bytes, coming.host_bytes};
  if (coming.spec->on_gpu()) return {};
  // Eager may have a copy of the weights, and there may be one for oneDNN.
  return {coming.spec->weights_bytes, 3 * coming.spec->weights_bytes};
}

Lifecycle::Need Lifecycle::HeldBytes() const {
  Need held;
  for (const auto& managed : versions_) {
    if (managed->running == nullptr ||
        managed->state == VersionState::kDraining) {
      continue;
    }
    const int64_t now = managed->running->host_memory().total();
    const Need need = Loads(managed->state) ? NeedOf(*managed) : Need{};
    held.least += std::max(now, need.least);
    held.most += std::max(now, need.most);
  }
  return held;
}

int64_t Lifecycle::LeavingBytes() const {
  int64_t leaving = 0;
  for (const auto& managed : versions_) {
    if (managed->running != nullptr &&
        managed->state == VersionState::kDraining) {
      leaving += managed->running->host_memory().total();
    }
  }
  for (const auto& [model, version] : leaving_) {
    const std::shared_ptr<ModelVersion> held = version.lock();
    if (held != nullptr) leaving += held->host_memory().total();
  }
  return leaving;
}

void Lifecycle::ShowMemory() {
  for (const auto& managed : versions_) {
    if (managed->running == nullptr) continue;
    const HostMemory memory = managed->running->host_memory();
    const auto show = [&](const char* use, int64_t bytes) {
      managed->series
          ->Gauge(metric::kVersionMemory,
                  With(VersionLabels(*managed->spec), "use", use))
          .Set(static_cast<double>(bytes));
    };
    show("weights", memory.weights);
    show("packed", memory.packed);
    show("eager", memory.eager);
    show("code", memory.code);
    if (managed->state != VersionState::kServing) continue;
    const int64_t before = std::exchange(managed->host_bytes, memory.total());
    const int64_t budget = options_.memory_budget;
    if (budget > 0 && before <= budget && memory.total() > budget) {
      log::Warn(
          "{}: takes {:.1f} MB, more than the memory budget of {:.1f} MB: it "
          "is served, and everything else rests meanwhile",
          managed->spec->Label(), Megabytes(memory.total()), Megabytes(budget));
    }
  }
}

}  // namespace stoker
