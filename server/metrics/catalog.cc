#include "metrics/catalog.h"

namespace stoker::metric {

namespace {

constexpr MetricDef kAll[] = {
    kBuildInfo,
    kStartupPhaseSeconds,
    kReadyTimestamp,
    kRequests,
    kRefusedRequests,
    kRequestMemory,
    kSharedMemoryRegions,
    kSharedMemoryBytes,
    kSharedMemoryCopied,
    kFreeCores,
    kRequestSeconds,
    kQueueSeconds,
    kExecuteSeconds,
    kQueueLength,
    kBatchRows,
    kBatchRequests,
    kUsefulElements,
    kPaddedElements,
    kTierRequests,
    kRowFaults,
    kIsolatedRunsLost,
    kRepositoryPolls,
    kModelState,
    kBucketState,
    kWarmupBuckets,
    kPromotions,
    kFallbacks,
    kParityError,
    kSpeedup,
    kBucketCompileSeconds,
    kSavedSeconds,
    kBreakEvenRuns,
    kWeightsBytes,
    kGpuMemory,
    kGpuFreeMemory,
    kGpuBusy,
    kGpuPower,
    kGpuCopiedBytes,
    kGpuCopySeconds,
    kGraphReplays,
    kGraphCaptures,
    kGraphCaptureSeconds,
    kGraphBytes,
    kCompileSeconds,
    kCompilePhaseSeconds,
    kCompilesAfterReady,
    kCompileQueue,
    kCompileWorkerStarts,
    kCacheRequests,
    kCacheCommits,
    kCacheRejections,
    kCacheEvictions,
    kCacheEntries,
    kCacheBytes,
    kCacheOtherBytes,
    kCacheWritable,
    kCacheLockWaitSeconds,
    kCompileSecondsSaved,
    kArtifactOpenSeconds,
};

}  // namespace

absl::Span<const MetricDef> All() { return kAll; }

}  // namespace stoker::metric
