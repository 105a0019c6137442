// Which memory a program writes besides its outputs. torch.export keeps
// in-place operators as they were written, so a program may write into its
// inputs (a client's bytes) or its buffers (read-only mapped weights). Private
// to this room.
#pragma once

#include <map>
#include <string>

#include "absl/status/status.h"
#include "nlohmann/json_fwd.hpp"

namespace stoker {

struct ProgramEffects {
  // Some operator writes into an argument. Which memory that is can't always be
  // told (an operator may return its argument), so its inputs must be copies.
  bool writes_in_place = false;
  // Qualified names of the parameters, buffers and constants that are written,
  // each with the operator that does so and its source line, as far as known.
  std::map<std::string, std::string> written_tensors;
};

// Reads models/<name>.json and the registered operators' schemas.
// INVALID_ARGUMENT when it isn't an exported program.
ProgramEffects ScanProgramEffects(const nlohmann::json& program);

// INVALID_ARGUMENT, with tensor, operator and line, when the program changes
// its own tensors: its clients would see, and change, each other's state, and
// the warm-up's runs would, too. `where` begins the message.
absl::Status CheckKeepsNoState(const ProgramEffects& effects,
                               const std::string& where);

}  // namespace stoker
