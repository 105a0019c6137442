// `stokerctl buckets`: the buckets that a model's recorded traffic asks for,
// beside those it has. Nothing is compiled or changed.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "kernel_cache/kernel_cache.h"
#include "planning/bucket_choice.h"
#include "repository/model_repository.h"
#include "runner/toolchain.h"

namespace stoker {

class CommandLine;

struct BucketCommands {
  KernelCache& cache;
  ModelRepository& repository;
  Toolchain toolchain;
  int cores = 1;
  bool json = false;

  // Of the model's newest version. max_buckets 0: as many as today. NOT_FOUND
  // without the model or without recorded traffic; FAILED_PRECONDITION when
  // there is nothing to choose. Returns 0.
  absl::StatusOr<int> Propose(const std::string& model,
                              BucketLimits limits) const;
};

void AddBucketsCommand(CommandLine& line);

}  // namespace stoker
