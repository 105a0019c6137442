// The weight of a convolution in the layouts that oneDNN runs it with. Private
// to this room.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/TensorImpl.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"

namespace stoker {

// oneDNN chooses a weight's layout by the number and sizes of the images, by
// the convolution's numbers and by how many threads run it, and a weight that
// lies otherwise is laid out anew in each run, which can take ten times as long
// as the convolution. So a weight lies here once in each layout that its runs
// have wanted: it is laid out in the first run of a kind (sizes and threads),
// and kinds that want the same layout share it.
//
// Hangs on the dense tensor that compiled code is bound to: convolutions that
// are given such a tensor, by the functions of AOTInductor's C interface in
// convolution_weight.cc, take the layout instead. Thread-safe.
class ConvolutionWeight final : public c10::BackendMeta {
 public:
  struct How {
    at::IntArrayRef padding, stride, dilation;  // of depth, height and width
    int64_t groups = 1;
  };

  // `dense`: float32 [out, in / groups, depth, height, width], contiguous, on
  // the host; its memory outlives this. There may be no depth, and no height,
  // which then is 1. `bytes`: what the layouts take is added there; may be
  // null.
  explicit ConvolutionWeight(
      const at::Tensor& dense,
      std::shared_ptr<std::atomic<int64_t>> bytes = nullptr);

  // That of a tensor; null where there is none.
  static ConvolutionWeight* Of(const at::Tensor& tensor);

  // In the layout for a run on this thread, with images of [rows, channels,
  // depth, height, width] that have a depth where the weight has one. Throws
  // what torch throws. The reference is good until Release.
  const at::Tensor& For(const at::Tensor& images, const How& how)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Frees the layouts: nothing runs any more. AOTInductor's containers hold on
  // to tensors for ever (pytorch #194480), and so to this.
  void Release() ABSL_LOCKS_EXCLUDED(mu_);

  size_t layouts() const ABSL_LOCKS_EXCLUDED(mu_);

 private:
  // Sizes of the images, threads, and the convolution's numbers.
  using Kind = std::array<int64_t, 16>;
  static Kind KindOf(const at::Tensor& images, const How& how);
  const at::Tensor& Add(const Kind& kind, const at::Tensor& images,
                        const How& how) ABSL_LOCKS_EXCLUDED(mu_);

  const at::Tensor dense_;  // another view of the same memory, with a height
  const std::shared_ptr<std::atomic<int64_t>> bytes_;

  struct Layout {
    at::Tensor weight;
    at::Tensor description;  // oneDNN's, as bytes
  };

  mutable absl::Mutex mu_;
  std::list<Layout> layouts_ ABSL_GUARDED_BY(mu_);  // stay where they are
  absl::flat_hash_map<Kind, const at::Tensor*> by_kind_ ABSL_GUARDED_BY(mu_);
};

}  // namespace stoker
