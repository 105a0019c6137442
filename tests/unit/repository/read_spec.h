// A program of a fixture as the repository reads it.
#pragma once

#include <fstream>
#include <string>

#include "repository/model_repository.h"
#include "tests/fakes/temp_folder.h"
#include "tests/unit/program/program_fixture.h"

namespace stoker {

inline absl::StatusOr<ModelSpec> ReadSpecOfBytes(const std::string& bytes) {
  const TempFolder folder;
  const std::string path = folder / "model.pt2";
  std::ofstream(path, std::ios::binary) << bytes;
  return ReadProgram(path);
}

inline absl::StatusOr<ModelSpec> ReadSpec(const ProgramFixture& program) {
  return ReadSpecOfBytes(program.Bytes());
}

}  // namespace stoker
