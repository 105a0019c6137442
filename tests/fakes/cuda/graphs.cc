#include <memory>
#include <thread>
#include <utility>

#include "tests/fakes/cuda/device.h"

namespace fake_cuda {

CaptureMode Device::ExchangeMode(CaptureMode mode) {
  return std::exchange(thread_mode, mode);
}

Error Device::BeginCapture(Stream* stream, CaptureMode mode) {
  const Lock lock(mu_);
  stream = Known(stream);
  if (stream == &default_stream_) return kCaptureUnsupported;
  if (stream->capture != nullptr) return kInvalidValue;
  for (Stream* other : streams_) {
    if (other->capture != nullptr) Violated("two captures at a time");
  }
  stream->capture = std::make_unique<Capture>(
      Capture{std::this_thread::get_id(), mode, ++captures_, false, {}});
  return 0;
}

Error Device::EndCapture(Stream* stream, Graph** graph) {
  const Lock lock(mu_);
  stream = Known(stream);
  *graph = nullptr;
  if (stream->capture == nullptr) return kInvalidValue;
  const std::unique_ptr<Capture> capture = std::move(stream->capture);
  if (capture->invalid) return kCaptureInvalidated;
  *graph = *graphs_.insert(new Graph{capture->work, stream->inputs}).first;
  return 0;
}

int Device::CaptureOf(Stream* stream, uint64_t* id) {
  const Lock lock(mu_);
  stream = Known(stream);
  if (stream->capture == nullptr) return 0;
  *id = stream->capture->id;
  return stream->capture->invalid ? 2 : 1;
}

Graph* Device::Instantiate(const Graph* graph) {
  const Lock lock(mu_);
  return *graphs_.insert(new Graph(*graph)).first;
}

Error Device::DestroyGraph(Graph* graph) {
  const Lock lock(mu_);
  if (graphs_.erase(graph) == 0) Violated("a graph is destroyed twice");
  delete graph;
  return 0;
}

Error Device::LaunchGraph(Graph* graph, Stream* stream) {
  const Lock lock(mu_);
  if (!graphs_.contains(graph)) Violated("a graph is launched that is gone");
  stream = Known(stream);
  if (const int baked = script_.baked(); baked >= 0) {
    const auto at = static_cast<size_t>(baked);
    const auto bake = [stream, at, was = graph->inputs] {
      if (at < was.size() && at < stream->inputs.size()) {
        stream->inputs[at] = was[at];
      }
    };
    if (const Error error = Enqueue(stream, {.run = bake})) return error;
  }
  for (const Work& work : graph->work) {
    if (const Error error = Enqueue(stream, work)) return error;
  }
  return 0;
}

}  // namespace fake_cuda
