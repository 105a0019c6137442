#include "rpc/shared_memory_service.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/error_text.h"
#include "base/status_macros.h"
#include "open_inference.pb.h"
#include "rpc/unary_method.h"

namespace stoker {
namespace {

void AddRefusals(MethodTable& methods) {
  for (const char* method :
       {"SystemSharedMemoryStatus", "SystemSharedMemoryRegister",
        "SystemSharedMemoryUnregister", "CudaSharedMemoryStatus",
        "CudaSharedMemoryRegister", "CudaSharedMemoryUnregister"}) {
    AddUnaryBytes(
        methods, InferencePath(method),
        [](const ByteChain&) -> absl::StatusOr<ByteChain> {
          return absl::UnimplementedError(
              "shared memory of clients is not allowed by this server, "
              "expected it to run with --allow-client-shm");
        });
  }
}

void AddSystem(MethodTable& methods, SharedMemoryRegions& regions) {
  AddUnary<inference::SystemSharedMemoryRegisterRequest,
           inference::SystemSharedMemoryRegisterResponse>(
      methods, InferencePath("SystemSharedMemoryRegister"),
      [&regions](const auto& request, auto& /*response*/) {
        return regions.Register({.name = request.name(),
                                 .key = request.key(),
                                 .offset = request.offset(),
                                 .byte_size = request.byte_size()});
      });
  AddUnary<inference::SystemSharedMemoryUnregisterRequest,
           inference::SystemSharedMemoryUnregisterResponse>(
      methods, InferencePath("SystemSharedMemoryUnregister"),
      [&regions](const auto& request, auto& /*response*/) {
        regions.Unregister(request.name());
        return absl::OkStatus();
      });
  AddUnary<inference::SystemSharedMemoryStatusRequest,
           inference::SystemSharedMemoryStatusResponse>(
      methods, InferencePath("SystemSharedMemoryStatus"),
      [&regions](const auto& request, auto& response) -> absl::Status {
        ASSIGN_OR_RETURN(const std::vector<SharedMemoryRegion::Place> places,
                         regions.Status(request.name()));
        for (const SharedMemoryRegion::Place& place : places) {
          auto& line = (*response.mutable_regions())[place.name];
          line.set_name(place.name);
          line.set_key(place.key);
          line.set_offset(place.offset);
          line.set_byte_size(place.byte_size);
        }
        return absl::OkStatus();
      });
}

void AddCuda(MethodTable& methods) {
  AddUnary<inference::CudaSharedMemoryRegisterRequest,
           inference::CudaSharedMemoryRegisterResponse>(
      methods, InferencePath("CudaSharedMemoryRegister"),
      [](const auto& request, auto& /*response*/) {
        return absl::UnimplementedError(
            absl::StrCat("failed to register CUDA shared memory region: '",
                         Excerpt(request.name()), "', GPUs not supported"));
      });
  AddUnary<inference::CudaSharedMemoryUnregisterRequest,
           inference::CudaSharedMemoryUnregisterResponse>(
      methods, InferencePath("CudaSharedMemoryUnregister"),
      [](const auto& /*request*/, auto& /*response*/) {
        return absl::OkStatus();
      });
  AddUnary<inference::CudaSharedMemoryStatusRequest,
           inference::CudaSharedMemoryStatusResponse>(
      methods, InferencePath("CudaSharedMemoryStatus"),
      [](const auto& request, auto& /*response*/) {
        if (request.name().empty()) return absl::OkStatus();
        return absl::NotFoundError(
            absl::StrCat("Unable to find cuda shared memory region: '",
                         Excerpt(request.name()), "'"));
      });
}

}  // namespace

void AddSharedMemoryMethods(MethodTable& methods,
                            SharedMemoryRegions* regions) {
  if (regions == nullptr) {
    AddRefusals(methods);
    return;
  }
  AddSystem(methods, *regions);
  AddCuda(methods);
}

}  // namespace stoker
