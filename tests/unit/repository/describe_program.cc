// Prints what ReadProgram finds in an exported program, as one JSON object:
//   describe_program model.pt2
#include <iostream>
#include <nlohmann/json.hpp>

#include "repository/model_repository.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: describe_program model.pt2\n";
    return 2;
  }
  const auto spec = stoker::ReadProgram(argv[1]);
  if (!spec.ok()) {
    std::cerr << spec.status() << "\n";
    return 1;
  }
  nlohmann::json description = {{"program_digest", spec->program_digest},
                                {"weights_digest", spec->weights_digest},
                                {"weights_bytes", spec->weights_bytes},
                                {"dimensions", spec->DimensionNames()}};
  for (const stoker::InputSpec& input : spec->inputs) {
    description["inputs"].push_back(input.name);
  }
  for (const stoker::OutputSpec& output : spec->outputs) {
    description["outputs"].push_back(output.name);
  }
  std::cout << description.dump() << "\n";
}
