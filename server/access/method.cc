#include "access/method.h"

#include <algorithm>

namespace stoker {
namespace {

using enum MethodGroup;

constexpr bool kChanges = true;
constexpr bool kStaysOpen = true;

constexpr Method kAll[] = {
    {"/grpc.health.v1.Health/Check", kHealth},
    {"/grpc.health.v1.Health/Watch", kHealth, !kChanges, kStaysOpen},
    {"/inference.GRPCInferenceService/ServerLive", kHealth},
    {"/inference.GRPCInferenceService/ServerReady", kHealth},
    {"/inference.GRPCInferenceService/ModelReady", kHealth},
    {"/inference.GRPCInferenceService/ServerMetadata", kMetadata},
    {"/inference.GRPCInferenceService/ModelMetadata", kMetadata},
    {"/inference.GRPCInferenceService/ModelConfig", kMetadata},
    {"/inference.GRPCInferenceService/RepositoryIndex", kMetadata},
    {"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", kMetadata,
     !kChanges, kStaysOpen},
    {"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
     kMetadata, !kChanges, kStaysOpen},
    {"/inference.GRPCInferenceService/ModelInfer", kInfer},
    {"/inference.GRPCInferenceService/ModelStreamInfer", kInfer, !kChanges,
     kStaysOpen},
    {"/inference.GRPCInferenceService/RepositoryModelLoad", kControl, kChanges},
    {"/inference.GRPCInferenceService/RepositoryModelUnload", kControl,
     kChanges},
    {"/inference.GRPCInferenceService/LogSettings", kControl, kChanges},
    {"/inference.GRPCInferenceService/ModelStatistics", kStatistics},
    {"/inference.GRPCInferenceService/SystemSharedMemoryStatus", kSharedMemory},
    {"/inference.GRPCInferenceService/SystemSharedMemoryRegister",
     kSharedMemory, kChanges},
    {"/inference.GRPCInferenceService/SystemSharedMemoryUnregister",
     kSharedMemory, kChanges},
    {"/inference.GRPCInferenceService/CudaSharedMemoryStatus", kSharedMemory},
    {"/inference.GRPCInferenceService/CudaSharedMemoryRegister", kSharedMemory,
     kChanges},
    {"/inference.GRPCInferenceService/CudaSharedMemoryUnregister",
     kSharedMemory, kChanges},
    {"/inference.GRPCInferenceService/TraceSetting", kTrace, kChanges},
    {"/health/liveness", kHealth},
    {"/health/readiness", kHealth},
    {"/health/startup", kHealth},
    {"/", kMetrics},
    {"/status.json", kMetrics},
    {"/metrics", kMetrics},
    {"/profile", kTrace},
};

}  // namespace

const std::array<std::string, kMethodGroups>& MethodGroupNames() {
  static const auto& names = *new std::array<std::string, kMethodGroups>{
      "health",     "metadata",      "infer", "control",
      "statistics", "shared_memory", "trace", "metrics"};
  return names;
}

const std::string& NameOf(MethodGroup group) {
  return MethodGroupNames()[static_cast<size_t>(group)];
}

bool Method::is_page() const {
  // Those of gRPC have a service before the method.
  return group == kMetrics || path.starts_with("/health/") ||
         path.rfind('/') == 0;
}

std::string_view Method::name() const {
  if (is_page()) return path;
  return path.substr(path.rfind('/') + 1);
}

absl::Span<const Method> AllMethods() { return kAll; }

const Method* FindMethod(std::string_view path) {
  const auto* const found =
      std::find_if(std::begin(kAll), std::end(kAll),
                   [path](const Method& one) { return one.path == path; });
  return found == std::end(kAll) ? nullptr : found;
}

const Method* FindMethodNamed(std::string_view name) {
  const auto* const found =
      std::find_if(std::begin(kAll), std::end(kAll),
                   [name](const Method& one) { return one.name() == name; });
  return found == std::end(kAll) ? FindMethod(name) : found;
}

}  // namespace stoker
