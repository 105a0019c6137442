#include "main/first_run_child.h"

#include <unistd.h>

#include <cstring>
#include <iostream>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/files.h"
#include "base/status_macros.h"
#include "main/child_arguments.h"
#include "runner/artifact_manifest.h"
#include "runner/executable_loader.h"
#include "tensor/tensor_file.h"

namespace stoker {
namespace {

Tensor Zeros(const ArtifactInput& input) {
  Shape shape = input.shape;
  size_t elements = 1;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] < 0) shape[d] = input.range[d].first;
    elements *= static_cast<size_t>(shape[d]);
  }
  const Buffer buffer(elements * DataTypeSize(input.dtype));
  std::memset(buffer.data(), 0, buffer.size());
  return {input.dtype, std::move(shape), buffer.data(), buffer.size(),
          buffer.share()};
}

absl::Status RunOnZeros(ExecutableLoader& loader, ExecutionContext& context,
                        std::shared_ptr<WeightStore> weights,
                        const std::string& folder) {
  ASSIGN_OR_RETURN(const std::string text,
                   Files::Real().Read(folder + "/manifest.json"));
  ASSIGN_OR_RETURN(const ArtifactManifest manifest,
                   ParseArtifactManifest(text));
  ASSIGN_OR_RETURN(const std::shared_ptr<Executable> executable,
                   loader.OpenAot(folder, std::move(weights)));
  std::vector<Tensor> inputs;
  for (const ArtifactInput& input : manifest.inputs) {
    inputs.push_back(Zeros(input));
  }
  return executable->Run(context, inputs).status();
}

absl::Status RunEager(ExecutableLoader& loader, ExecutionContext& context,
                      const std::string& program) {
  const std::string request((std::istreambuf_iterator<char>(std::cin)),
                            std::istreambuf_iterator<char>());
  ASSIGN_OR_RETURN(const NamedTensors named, ParseTensorFile(request));
  ASSIGN_OR_RETURN(const std::vector<Tensor> inputs, InOrder(named));
  ASSIGN_OR_RETURN(const std::shared_ptr<Executable> eager,
                   loader.OpenEager(program, /*weights=*/nullptr));
  return eager->Run(context, inputs).status();
}

}  // namespace

int FirstRunChild(int argc, char** argv) {
  const std::vector<std::string> arguments = ChildArguments(argc, argv);
  auto argument = arguments.begin();
  int threads = 0;
  if (arguments.end() - argument < 2 ||
      !absl::SimpleAtoi(argument[1], &threads) || threads < 1) {
    return 2;
  }
  const std::string& program = argument[0];
  const std::unique_ptr<ExecutableLoader> loader = MakeCpuLoader();
  const std::unique_ptr<ExecutionContext> context = loader->NewContext(threads);
  if (arguments.end() - argument == 2) {
    RunEager(*loader, *context, program).IgnoreError();
    return write(kReplyFd, "\n", 1) == 1 ? 0 : 1;
  }
  const auto weights = loader->MapWeights(program);
  for (argument += 2; argument != arguments.end(); ++argument) {
    if (weights.ok()) {
      RunOnZeros(*loader, *context, *weights, *argument).IgnoreError();
    }
    if (write(kReplyFd, "\n", 1) != 1) return 1;
  }
  return 0;
}

}  // namespace stoker
