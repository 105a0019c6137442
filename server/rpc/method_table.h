// Which handler the calls of a method get.
//
// Not thread-safe while methods are added; any thread may look afterwards.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "wire/call.h"

namespace stoker {

// "/inference.GRPCInferenceService/ModelInfer"
inline std::string InferencePath(const char* method) {
  return std::string("/inference.GRPCInferenceService/") + method;
}

class MethodTable {
 public:
  using MakeHandler = std::function<std::unique_ptr<CallHandler>(Call& call)>;

  // `path`: "/package.Service/Method". Each once.
  void Add(const std::string& path, const MakeHandler& make) {
    methods_.emplace(path, make);
  }

  // Puts what `wrap` makes of it in the place of each one's.
  void Wrap(const std::function<MakeHandler(const std::string& path,
                                            MakeHandler make)>& wrap) {
    for (auto& [path, make] : methods_) make = wrap(path, std::move(make));
  }

  // Null: there is no such method.
  std::unique_ptr<CallHandler> NewHandler(Call& call) const {
    const auto found = methods_.find(call.method());
    return found == methods_.end() ? nullptr : found->second(call);
  }

 private:
  absl::flat_hash_map<std::string, MakeHandler> methods_;
};

}  // namespace stoker
