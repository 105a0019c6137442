// The methods about the model repository: its index, loads and unloads.
#pragma once

#include "models/model_manager.h"
#include "rpc/method_table.h"

namespace stoker {

// Loads and unloads are refused unless the manager's control is explicit. The
// manager outlives the methods' calls.
void AddRepositoryMethods(MethodTable& methods, ModelManager& manager);

}  // namespace stoker
