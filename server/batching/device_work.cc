#include "batching/device_work.h"

namespace stoker {

DeviceWork::Item* DeviceWork::Take(int thread) {
  std::deque<Item*>& waiting = Of(thread);
  if (waiting.empty()) return nullptr;
  Item* const item = waiting.front();
  waiting.pop_front();
  return item;
}

void DeviceWork::RefuseAll() {
  for (std::deque<Item*>& waiting : waiting_) {
    for (Item* const item : waiting) item->state = Item::State::kRefused;
    waiting.clear();
  }
}

}  // namespace stoker
