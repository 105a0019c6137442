// grpc.reflection: tells tools which services the server has and how their
// messages look. gRPC's own implementation brings a thread that waits for
// events beside the calls' loops and takes turns with them, which costs every
// request.
//
// Thread-safe: it answers from generated descriptors.
#pragma once

#include <string>
#include <vector>

#include "reflection.pb.h"
#include "rpc/admission.h"
#include "rpc/method_table.h"

namespace stoker {

// Adds the methods of both packages, v1 and v1alpha, which list `services`.
// `admission`, which outlives them, gives their memory; null: nothing bounds
// it.
void AddReflection(MethodTable& methods,
                   const std::vector<std::string>& services,
                   Admission* admission = nullptr);

// One answer.
grpc::reflection::v1alpha::ServerReflectionResponse Reflect(
    const grpc::reflection::v1alpha::ServerReflectionRequest& request,
    const std::vector<std::string>& services);

}  // namespace stoker
