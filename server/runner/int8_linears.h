// The linear layers of a version that may be computed with eight-bit integers:
// what each computes with, and by which factors inputs are evened out first.
//
// An input whose columns differ in size by far leaves few of a row's 256 steps
// to the small ones. So each column is divided by a factor, by which the
// weight's column is multiplied: the product stays what it was ("SmoothQuant",
// Xiao et al., 2023, with half of the difference on either side).
//
// Thread-safe. What is changed holds for runs that begin afterwards; those that
// have begun may go either way, layer by layer.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace stoker {

// From the fastest to the most exact.
enum class LayerPrecision { kInt8, kBfloat16, kFloat32 };
// By the weight's name; what is missing is INT8.
using LayerPrecisions = std::map<std::string, LayerPrecision>;

// By the weight's name, one for each of its columns.
using Int8Factors = std::map<std::string, std::vector<float>>;

class Int8Linears {
 public:
  struct Layer {
    std::string weight;
    int64_t numbers = 0;  // of the weight
  };

  virtual ~Int8Linears() = default;

  // Of what has been opened.
  virtual std::vector<Layer> Layers() const = 0;

  // Whether the processor has instructions for bfloat16.
  virtual bool HasBfloat16() const = 0;
  // Has the layers of these weights computed so; those of what is opened later,
  // too. RESOURCE_EXHAUSTED and the like: a weight could not be packed for it.
  virtual absl::Status Use(const LayerPrecisions& precisions) = 0;

  // Whether the largest inputs of each column are noted, in runs with float32,
  // from now on.
  virtual void Note(bool noting) = 0;
  // That even out what was noted; of the layers that ran.
  virtual Int8Factors FactorsOfNoted() const = 0;
  // Evens out the inputs of these layers so; of what is opened later, too.
  // INVALID_ARGUMENT: there is another number of them than the weight has
  // columns, or one is not positive.
  virtual absl::Status Even(const Int8Factors& factors) = 0;
};

}  // namespace stoker
