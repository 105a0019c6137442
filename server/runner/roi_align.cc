#include "runner/roi_align.h"

#include <ATen/ATen.h>
#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace stoker {
namespace {

// Of a part of a box, along each side.
constexpr int64_t kMaxSamples = 1 << 16;

// How much each of a row's elements adds to the average over one part of a box.
// Samples lie on a grid and bilinear weights are products, so an average over
// both sides is one over rows of those over columns.
template <typename T>
struct Part {
  int64_t first = 0;  // element
  std::vector<T> weights;
};

template <typename T>
struct Side {
  T start;
  T length;        // of the box
  int64_t parts;   // that it is cut into
  int64_t within;  // elements that there are to sample from
};

// `name` begins what is wrong.
int64_t SamplesOf(const char* name, double part_length,
                  int64_t sampling_ratio) {
  if (sampling_ratio > 0) return sampling_ratio;
  const double samples = std::ceil(part_length);
  TORCH_CHECK(samples <= static_cast<double>(kMaxSamples), name,
              ": expected boxes of which a part has at most ", kMaxSamples,
              " elements along each side, got one of ", part_length);
  return std::max<int64_t>(0, static_cast<int64_t>(samples));
}

template <typename T>
std::vector<Part<T>> PartsOf(const Side<T>& side, int64_t samples) {
  std::vector<Part<T>> parts(static_cast<size_t>(side.parts));
  if (side.within == 0) return parts;
  std::vector<T> dense(static_cast<size_t>(side.within), T{0});
  const T part_length = side.length / static_cast<T>(side.parts);
  const int64_t last = side.within - 1;
  for (int64_t p = 0; p < side.parts; ++p) {
    int64_t low_end = side.within, high_end = -1;
    for (int64_t s = 0; s < samples; ++s) {
      T at =
          side.start + static_cast<T>(p) * part_length +
          (static_cast<T>(s) + T{0.5}) * part_length / static_cast<T>(samples);
      // More than one element outside, or not a number.
      if (!(at >= T{-1} && at <= static_cast<T>(side.within))) continue;
      at = std::max(at, T{0});
      const int64_t low = std::min(static_cast<int64_t>(at), last);
      const int64_t high = std::min(low + 1, last);
      const T fraction = low == last ? T{0} : at - static_cast<T>(low);
      dense[static_cast<size_t>(low)] += T{1} - fraction;
      dense[static_cast<size_t>(high)] += fraction;
      low_end = std::min(low_end, low);
      high_end = std::max(high_end, high);
    }
    if (high_end < low_end) continue;
    Part<T>& part = parts[static_cast<size_t>(p)];
    part.first = low_end;
    const auto begin = dense.begin() + low_end;
    const auto end = dense.begin() + high_end + 1;
    part.weights.assign(begin, end);
    std::fill(begin, end, T{0});
    for (T& weight : part.weights) weight /= static_cast<T>(samples);
  }
  return parts;
}

// Every part of one box in one channel.
template <typename T>
void Average(const T* channel, int64_t row_length,
             const std::vector<Part<T>>& rows,
             const std::vector<Part<T>>& columns, T* out) {
  for (const Part<T>& row_part : rows) {
    for (const Part<T>& column_part : columns) {
      T sum = 0;
      for (size_t r = 0; r < row_part.weights.size(); ++r) {
        const T* element =
            channel + (row_part.first + static_cast<int64_t>(r)) * row_length +
            column_part.first;
        T row_sum = 0;
        for (size_t c = 0; c < column_part.weights.size(); ++c) {
          row_sum += column_part.weights[c] * element[c];
        }
        sum += row_part.weights[r] * row_sum;
      }
      *out++ = sum;
    }
  }
}

template <typename T>
struct Boxes {
  const char* name;  // of the operator, for errors
  T scale;
  int64_t height, width;  // parts of each
  int64_t sampling_ratio;
  bool aligned;

  // Of a box's side from `low` to `high`.
  std::vector<Part<T>> Parts(T low, T high, int64_t parts,
                             int64_t within) const {
    const T offset = aligned ? T{0.5} : T{0};
    const T start = low * scale - offset;
    T length = high * scale - offset - start;
    if (!aligned) length = std::max(length, T{1});
    return PartsOf<T>(
        {start, length, parts, within},
        SamplesOf(name,
                  static_cast<double>(length) / static_cast<double>(parts),
                  sampling_ratio));
  }
};

// Calls `align` with each box's number, the first channel of its row, and what
// its parts are averages of.
template <typename T, typename Align>
void ForEachBox(const at::Tensor& input, const at::Tensor& boxes,
                const Boxes<T>& how, const Align& align) {
  const int64_t height = input.size(2), width = input.size(3);
  const int64_t image = input.size(1) * height * width;
  const T* elements = input.const_data_ptr<T>();
  const T* corners = boxes.const_data_ptr<T>();
  at::parallel_for(0, boxes.size(0), 1, [&](int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end; ++k) {
      const T* box = corners + k * 5;
      TORCH_CHECK(box[0] >= 0 && box[0] < static_cast<T>(input.size(0)),
                  how.name, ": expected boxes of rows 0 to ", input.size(0) - 1,
                  ", got box ", k, " of row ", box[0]);
      align(k, elements + static_cast<int64_t>(box[0]) * image,
            how.Parts(box[2], box[4], how.height, height),
            how.Parts(box[1], box[3], how.width, width));
    }
  });
}

template <typename T>
void AlignAll(const at::Tensor& input, const at::Tensor& boxes,
              const Boxes<T>& how, at::Tensor& output) {
  const int64_t channels = input.size(1);
  const int64_t height = input.size(2), width = input.size(3);
  const int64_t area = how.height * how.width;
  T* out = output.mutable_data_ptr<T>();
  ForEachBox(
      input, boxes, how,
      [&](int64_t k, const T* first, const auto& rows, const auto& columns) {
        for (int64_t c = 0; c < channels; ++c) {
          Average(first + c * height * width, width, rows, columns,
                  out + (k * channels + c) * area);
        }
      });
}

// Every part of each box in a channel of its own.
template <typename T>
void AlignBySensitivity(const at::Tensor& input, const at::Tensor& boxes,
                        const Boxes<T>& how, at::Tensor& output,
                        at::Tensor& mapping) {
  const int64_t channels = input.size(1);
  const int64_t height = input.size(2), width = input.size(3);
  const int64_t area = how.height * how.width;
  const T* corners = boxes.const_data_ptr<T>();
  T* out = output.mutable_data_ptr<T>();
  int32_t* from = mapping.mutable_data_ptr<int32_t>();
  ForEachBox(
      input, boxes, how,
      [&](int64_t k, const T* first, const auto& rows, const auto& columns) {
        // Of what has no extent torchvision takes no samples, and their
        // average.
        const T* box = corners + k * 5;
        const bool is_flat =
            how.sampling_ratio <= 0 && (box[2] == box[4] || box[1] == box[3]);
        for (int64_t c = 0; c < channels; ++c) {
          const auto part = static_cast<size_t>(c % area);
          const auto across = static_cast<size_t>(how.width);
          T average = std::numeric_limits<T>::quiet_NaN();
          if (!is_flat) {
            Average(first + c * height * width, width, {rows[part / across]},
                    {columns[part % across]}, &average);
          }
          out[k * channels + c] = average;
          from[k * channels + c] = static_cast<int32_t>(c);
        }
      });
}

// `name` begins what is wrong with them.
void CheckArguments(const char* name, const at::Tensor& input,
                    const at::Tensor& boxes, int64_t height, int64_t width) {
  TORCH_CHECK(input.dim() == 4, name, ": expected input [N, C, H, W], got ",
              input.sizes());
  TORCH_CHECK(boxes.dim() == 2 && boxes.size(1) == 5, name,
              ": expected boxes [K, 5], got ", boxes.sizes());
  TORCH_CHECK(input.scalar_type() == boxes.scalar_type(), name,
              ": expected input and boxes of one type, got ",
              input.scalar_type(), " and ", boxes.scalar_type());
  TORCH_CHECK(height > 0 && width > 0, name,
              ": expected an output of at least 1 x 1, got ", height, " x ",
              width);
}

}  // namespace

at::Tensor RoiAlign(const at::Tensor& input, const at::Tensor& boxes,
                    double spatial_scale, int64_t height, int64_t width,
                    int64_t sampling_ratio, bool aligned) {
  CheckArguments("roi_align", input, boxes, height, width);
  at::Tensor output =
      at::empty({boxes.size(0), input.size(1), height, width}, input.options());
  const at::Tensor elements = input.contiguous();
  const at::Tensor corners = boxes.contiguous();
  AT_DISPATCH_FLOATING_TYPES(input.scalar_type(), "roi_align", [&] {
    AlignAll<scalar_t>(elements, corners,
                       {"roi_align", static_cast<scalar_t>(spatial_scale),
                        height, width, sampling_ratio, aligned},
                       output);
  });
  return output;
}

std::tuple<at::Tensor, at::Tensor> PsRoiAlign(const at::Tensor& input,
                                              const at::Tensor& boxes,
                                              double spatial_scale,
                                              int64_t height, int64_t width,
                                              int64_t sampling_ratio) {
  CheckArguments("ps_roi_align", input, boxes, height, width);
  TORCH_CHECK(height <= input.size(1) && width <= input.size(1) / height &&
                  input.size(1) % (height * width) == 0,
              "ps_roi_align: expected a multiple of ", height, " x ", width,
              " channels, got ", input.size(1));
  const int64_t sizes[] = {boxes.size(0), input.size(1) / (height * width),
                           height, width};
  at::Tensor output = at::empty(sizes, input.options());
  at::Tensor mapping = at::empty(sizes, input.options().dtype(at::kInt));
  const at::Tensor elements = input.contiguous();
  const at::Tensor corners = boxes.contiguous();
  AT_DISPATCH_FLOATING_TYPES(input.scalar_type(), "ps_roi_align", [&] {
    AlignBySensitivity<scalar_t>(
        elements, corners,
        {"ps_roi_align", static_cast<scalar_t>(spatial_scale), height, width,
         sampling_ratio, /*aligned=*/true},
        output, mapping);
  });
  return {output, mapping};
}

}  // namespace stoker
