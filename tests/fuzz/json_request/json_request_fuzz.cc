#include "tests/fuzz/json_request/json_request_fuzz.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "rpc/json_request.h"

namespace stoker {
namespace {

void Hold(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "broken: %s\n", what);
  std::abort();
}

}  // namespace

bool FuzzJsonRequest(const uint8_t* data, size_t size) {
  // What follows the text may be anything, and ends where it has to.
  std::vector<char> memory(size + kJsonPadding, '[');
  if (size > 0) std::memcpy(memory.data(), data, size);
  JsonRequest request;
  const absl::Status read = ReadJsonRequest({memory.data(), size}, request);
  Hold(MemoryOf(request) <= JsonReadLimit(size), "it takes more than was said");
  for (const JsonRequest::Entry& entry : request.inputs) {
    if (!entry.data.has_value()) continue;
    Hold(entry.data_size <= entry.data->size(), "more elements than room");
  }
  return read.ok();
}

}  // namespace stoker
