// Where a request stands in its client's trace: W3C's header traceparent.
//
// Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace stoker {

struct TraceId {
  uint64_t high = 0, low = 0;
  bool operator==(const TraceId&) const = default;
};

struct TraceParent {
  TraceId trace;
  uint64_t span = 0;     // the client's
  bool sampled = false;  // whether the client's side records it
};

// nullopt: it is none that counts, and the request begins a trace of its own.
std::optional<TraceParent> ParseTraceParent(std::string_view header);

}  // namespace stoker
