#include "kernel_cache/kernel_cache.h"

#include <utility>

#include "base/status_macros.h"
#include "kernel_cache/signature.h"

namespace stoker {

absl::StatusOr<std::unique_ptr<KernelCache>> KernelCache::Open(
    const KernelCacheOptions& options, Files& files, MetricRegistry& metrics) {
  ASSIGN_OR_RETURN(const std::vector<PublicKey> trusted,
                   PublicKey::LoadAll(options.trust));
  ASSIGN_OR_RETURN(
      std::unique_ptr<CacheRoot> root,
      CacheRoot::Open(options.root, options.layers, trusted, files));
  return std::unique_ptr<KernelCache>(
      new KernelCache(std::move(root), metrics, options.refusals));
}

}  // namespace stoker
