// What of a wrong artifact the parity check sees: `judge_faults FILE...`, of
// tests/faults/detection.py.
//
// Each FILE is a tensor file with the answers of one artifact that is right, on
// one set of inputs: "eager.N", "compiled.N" and "exact.N", the float64 run,
// for each output N. Faults are planted in the compiled answers, of every kind
// and of falling size, and judged as a candidate's answers are. Prints JSON:
//
//   [{"file": "...", "refused": "" or why it was refused as it is,
//     "faults": [{"kind": "row", "size": 0.001, "found": true}, ...]}, ...]
//
// `size` is in units of the output's root mean square, over its finite
// elements.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "promotion/half_float.h"
#include "promotion/parity_check.h"
#include "tensor/tensor_file.h"

namespace stoker {
namespace {

// Elements of a vector loop's step; the tail is what is left over.
constexpr int64_t kLanes = 16;

double Get(const Tensor& tensor, int64_t i) {
  switch (tensor.dtype) {
    case DataType::kFp32:
      return reinterpret_cast<const float*>(tensor.data)[i];
    case DataType::kFp64:
      return reinterpret_cast<const double*>(tensor.data)[i];
    case DataType::kFp16:
      return HalfToFloat(reinterpret_cast<const uint16_t*>(tensor.data)[i]);
    case DataType::kBf16:
      return BfloatToFloat(reinterpret_cast<const uint16_t*>(tensor.data)[i]);
    default:
      return 0;
  }
}

void Set(Tensor& tensor, int64_t i, double value) {
  auto* data = const_cast<std::byte*>(tensor.data);
  switch (tensor.dtype) {
    case DataType::kFp32:
      reinterpret_cast<float*>(data)[i] = static_cast<float>(value);
      return;
    case DataType::kFp64:
      reinterpret_cast<double*>(data)[i] = value;
      return;
    case DataType::kFp16:
      reinterpret_cast<uint16_t*>(data)[i] =
          FloatToHalf(static_cast<float>(value));
      return;
    case DataType::kBf16:
      reinterpret_cast<uint16_t*>(data)[i] =
          FloatToBfloat(static_cast<float>(value));
      return;
    default:
      return;
  }
}

int64_t Count(const Tensor& tensor) {
  return ElementCount(tensor.shape).value_or(0);
}

double Rms(const Tensor& tensor) {
  double sum = 0;
  int64_t finite = 0;
  for (int64_t i = 0; i < Count(tensor); ++i) {
    const double value = Get(tensor, i);
    if (!std::isfinite(value)) continue;
    sum += value * value;
    ++finite;
  }
  return finite == 0 ? 0 : std::sqrt(sum / static_cast<double>(finite));
}

Tensor Copied(const Tensor& tensor) {
  Buffer buffer(tensor.byte_size);
  std::memcpy(buffer.data(), tensor.data, tensor.byte_size);
  Tensor copy = tensor;
  copy.data = buffer.data();
  copy.owner = buffer.share();
  return copy;
}

// Which elements a fault of this kind has, as a loop that is wrong in one place
// would leave them. Empty where the output has no such place.
struct Kind {
  const char* name;
  std::vector<int64_t> (*places)(int64_t rows, int64_t width);
};

std::vector<int64_t> Every(int64_t begin, int64_t end, int64_t step) {
  std::vector<int64_t> places;
  for (int64_t i = begin; i < end; i += step) places.push_back(i);
  return places;
}

const Kind kKinds[] = {
    {"one element",
     [](int64_t rows, int64_t width) {
       return std::vector<int64_t>{rows * width / 2};
     }},
    {"the last element",
     [](int64_t rows, int64_t width) {
       return std::vector<int64_t>{rows * width - 1};
     }},
    {"tail of a vector loop",
     [](int64_t rows, int64_t width) {
       const int64_t n = rows * width;
       return Every(n / kLanes * kLanes, n, 1);
     }},
    {"last column of each tile",
     [](int64_t rows, int64_t width) {
       std::vector<int64_t> places;
       for (int64_t row = 0; row < rows; ++row) {
         for (int64_t c = kLanes - 1; c < width; c += kLanes) {
           places.push_back(row * width + c);
         }
       }
       return places;
     }},
    {"one channel",
     [](int64_t rows, int64_t width) {
       return width > 1 ? Every(width / 2, rows * width, width)
                        : std::vector<int64_t>();
     }},
    {"one row",
     [](int64_t rows, int64_t width) {
       const int64_t row = rows / 2;
       return rows > 1 ? Every(row * width, (row + 1) * width, 1)
                       : std::vector<int64_t>();
     }},
    {"all",
     [](int64_t rows, int64_t width) { return Every(0, rows * width, 1); }},
};

// As models/candidate_check.cc judges a case; why it is refused, or empty.
std::string Judge(const std::vector<Tensor>& exact,
                  const std::vector<Tensor>& eager,
                  const std::vector<Tensor>& compiled) {
  const Comparison found = CompareOutputs(eager, compiled, ParityTolerance());
  if (found.equal) return "";
  if (!found.arguable) return found.difference;
  const auto errors = CompareWithReference(exact, eager, compiled);
  return errors.ok() && errors->acceptable() ? "" : found.difference;
}

std::vector<Tensor> Outputs(const NamedTensors& tensors,
                            const std::string& form) {
  std::vector<Tensor> outputs;
  for (int i = 0;; ++i) {
    const auto found = tensors.find(absl::StrCat(form, ".", i));
    if (found == tensors.end()) return outputs;
    outputs.push_back(found->second);
  }
}

nlohmann::json JudgeFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string content((std::istreambuf_iterator<char>(file)),
                            std::istreambuf_iterator<char>());
  const auto tensors = ParseTensorFile(content);
  nlohmann::json result = {{"file", path}, {"faults", nlohmann::json::array()}};
  if (!tensors.ok()) {
    result["refused"] = std::string(tensors.status().message());
    return result;
  }
  const std::vector<Tensor> exact = Outputs(*tensors, "exact");
  const std::vector<Tensor> eager = Outputs(*tensors, "eager");
  const std::vector<Tensor> compiled = Outputs(*tensors, "compiled");
  result["refused"] = Judge(exact, eager, compiled);
  for (size_t output = 0; output < compiled.size(); ++output) {
    const Tensor& right = compiled[output];
    const double rms = Rms(right);
    if (!IsFloating(right.dtype) || rms == 0) continue;
    const int64_t width = right.shape.empty() ? 1 : right.shape.back();
    if (width == 0) continue;
    for (const Kind& kind : kKinds) {
      const auto places = kind.places(Count(right) / width, width);
      if (places.empty()) continue;
      for (int half_decades = 2; half_decades >= -14; --half_decades) {
        const double size = std::pow(10.0, half_decades / 2.0);
        std::vector<Tensor> wrong = compiled;
        wrong[output] = Copied(right);
        bool planted = false;
        for (const int64_t i : places) {
          const double before = Get(right, i);
          Set(wrong[output], i, before + size * rms);
          planted |= std::isfinite(before) && Get(wrong[output], i) != before;
        }
        if (!planted) continue;  // less than the format can say
        result["faults"].push_back(
            {{"kind", kind.name},
             {"size", size},
             {"found", !Judge(exact, eager, wrong).empty()}});
      }
    }
  }
  return result;
}

}  // namespace
}  // namespace stoker

int main(int argc, char** argv) try {
  nlohmann::json results = nlohmann::json::array();
  for (int i = 1; i < argc; ++i) {
    results.push_back(stoker::JudgeFile(argv[i]));
  }
  std::printf("%s\n", results.dump().c_str());
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "judge_faults: %s\n", error.what());
  return 1;
}
