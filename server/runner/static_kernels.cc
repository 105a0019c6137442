#include "runner/static_kernels.h"

#include <c10/util/Exception.h>
#include <c10/util/Registry.h>

#include <memory>
#include <string>

// torch/nativert/kernels/KernelRegistry.h, which the wheel leaves out.
namespace torch::nativert {
class Node;
class OpKernel;
C10_DECLARE_TYPED_REGISTRY(StaticallyDispatchedCPUKernelRegistry, std::string,
                           OpKernel, std::unique_ptr, const Node*);
}  // namespace torch::nativert

namespace stoker {
namespace {

using Kernels =
    ::c10::Registry<std::string, std::unique_ptr<torch::nativert::OpKernel>,
                    const torch::nativert::Node*>;

// A registry offers no removal. Explicit instantiation may name a private
// member ([temp.spec.general]/6), and hands its address out here.
template <auto member>
struct Door {
  friend auto& EntriesOf(Kernels& kernels) { return kernels.*member; }
};
auto& EntriesOf(Kernels& kernels);
template struct Door<&Kernels::registry_>;

bool RemoveStaticKernels() {
  Kernels& kernels = *torch::nativert::StaticallyDispatchedCPUKernelRegistry();
  TORCH_CHECK(kernels.Has("torch.ops.aten.mul.Scalar"),
              "torch's interpreter keeps its kernels elsewhere than 2.11's");
  EntriesOf(kernels).clear();
  return true;
}

}  // namespace

void UseDispatchedKernelsOnly() {
  static const bool removed = RemoveStaticKernels();
  static_cast<void>(removed);
}

}  // namespace stoker
