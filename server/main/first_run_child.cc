#include "main/first_run_child.h"

#include <unistd.h>

#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "base/files.h"
#include "base/status_macros.h"
#include "runner/artifact_manifest.h"
#include "runner/executable_loader.h"

namespace stoker {
namespace {

constexpr int kReplyFd = 3;

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

}  // namespace

int FirstRunChild(int argc, char** argv) {
  int threads = 0;
  if (argc < 5 || !absl::SimpleAtoi(argv[3], &threads) || threads < 1) return 2;
  const std::unique_ptr<ExecutableLoader> loader = MakeCpuLoader();
  const auto weights = loader->MapWeights(argv[2]);
  const std::unique_ptr<ExecutionContext> context = loader->NewContext(threads);
  for (int i = 4; i < argc; ++i) {
    if (weights.ok()) {
      RunOnZeros(*loader, *context, *weights, argv[i]).IgnoreError();
    }
    if (write(kReplyFd, "\n", 1) != 1) return 1;
  }
  return 0;
}

}  // namespace stoker
