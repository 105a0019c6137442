#include "base/heap_trimmer.h"

#include <malloc.h>

#include <algorithm>

namespace stoker {

void HeapTrimmer::Look(MonotonicTime now) {
  if (Decide(mallinfo2().fordblks, now)) malloc_trim(0);
}

void HeapTrimmer::TrimNow() {
  if (mallinfo2().fordblks >= kWorthwhileBytes) malloc_trim(0);
}

bool HeapTrimmer::Decide(size_t free_bytes, MonotonicTime now) {
  if (since_ == MonotonicTime::InfinitePast()) since_ = now;
  least_ = std::min(least_, free_bytes);
  if (now - since_ < kPeriod) return false;
  const bool worthwhile = least_ >= kWorthwhileBytes;
  since_ = now;
  least_ = free_bytes;
  return worthwhile;
}

}  // namespace stoker
