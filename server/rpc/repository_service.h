// The methods about the model repository: its index, loads and unloads.
#pragma once

#include "models/model_manager.h"
#include "rpc/admission.h"
#include "rpc/completion_thread.h"
#include "rpc/method_table.h"

namespace stoker {

// All outlive the methods' calls. `loads` reads requests for loads, and waits
// for the disk where they bring files. Their messages may be as large as
// `max_load_bytes`, and hold memory of `admission`.
struct RepositoryServices {
  ModelManager& manager;
  Admission& admission;
  CompletionThread& loads;
  size_t max_load_bytes = 0;
};

// Loads and unloads are refused unless the manager's control is explicit.
void AddRepositoryMethods(MethodTable& methods,
                          const RepositoryServices& services);

}  // namespace stoker
