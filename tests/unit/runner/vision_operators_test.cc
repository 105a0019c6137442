// torchvision's operators, called as programs call them. That they answer what
// torchvision's own do, tests/integration/test_detectors.py shows.
#include "runner/vision_operators.h"

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "tests/unit/runner/torch_message.h"

namespace stoker {
namespace {

using ::testing::HasSubstr;

template <typename... Arguments>
at::Tensor Call(const char* name, const Arguments&... arguments) {
  RegisterVisionOperators();
  std::vector<c10::IValue> stack = {c10::IValue(arguments)...};
  c10::Dispatcher::singleton().findSchemaOrThrow(name, "").callBoxed(stack);
  return stack.at(0).toTensor();
}

at::Tensor Nms(const at::Tensor& boxes, const at::Tensor& scores,
               double threshold) {
  return Call("torchvision::nms", boxes, scores, threshold);
}

at::Tensor RoiAlign(const at::Tensor& input, const at::Tensor& boxes,
                    double scale, int64_t size, int64_t sampling_ratio,
                    bool aligned) {
  return Call("torchvision::roi_align", input, boxes, scale, size, size,
              sampling_ratio, aligned);
}

struct Convolution {
  at::Tensor input = at::arange(2 * 4 * 7 * 6, at::kFloat).view({2, 4, 7, 6});
  at::Tensor weight = at::arange(6 * 2 * 3 * 3, at::kFloat).view({6, 2, 3, 3});
  at::Tensor offset = at::zeros({2, 2 * 2 * 9, 4, 6});
  at::Tensor mask = at::ones({2, 2 * 9, 4, 6});
  at::Tensor bias = at::arange(6, at::kFloat);
  int64_t stride = 2;  // downwards
  bool use_mask = true;

  at::Tensor Run() const {
    constexpr int64_t kOne = 1, kGroups = 2;
    return Call("torchvision::deform_conv2d", input, weight, offset, mask, bias,
                stride, kOne, kOne, kOne, kOne, kOne, kGroups, kGroups,
                use_mask);
  }
};

TEST(NmsTest, KeepsTheBestOfBoxesThatOverlap) {
  const at::Tensor boxes = at::tensor({0.F, 0.F, 10.F, 10.F,  //
                                       1.F, 0.F, 11.F, 10.F,  // 9/11 of both
                                       0.F, 0.F, 10.F, 4.F,   // 4/10
                                       20.F, 0.F, 30.F, 10.F})
                               .view({4, 4});
  const at::Tensor scores = at::tensor({0.5F, 0.9F, 0.1F, 0.7F});
  EXPECT_TRUE(Nms(boxes, scores, 0.5).equal(at::tensor({1, 3, 2}, at::kLong)));
  EXPECT_TRUE(
      Nms(boxes, scores, 0.85).equal(at::tensor({1, 3, 0, 2}, at::kLong)));
  EXPECT_TRUE(Nms(boxes.to(at::kDouble), scores.to(at::kDouble), 0.2)
                  .equal(at::tensor({1, 3}, at::kLong)));
}

TEST(NmsTest, EqualScoresStayInOrderAndNoBoxesAreNone) {
  const at::Tensor apart = at::tensor({0.F, 0.F, 1.F, 1.F,  //
                                       5.F, 5.F, 6.F, 6.F,  //
                                       2.F, 2.F, 3.F, 3.F})
                               .view({3, 4});
  EXPECT_TRUE(
      Nms(apart, at::ones({3}), 0.5).equal(at::tensor({0, 1, 2}, at::kLong)));
  EXPECT_EQ(Nms(at::empty({0, 4}), at::empty({0}), 0.5).sizes(),
            at::IntArrayRef({0}));
}

TEST(NmsTest, RefusesOtherShapes) {
  EXPECT_THAT(ErrorOf([] {
                Nms(at::ones({3, 5}), at::ones({3}), 0.5);
              }),
              HasSubstr("expected boxes [K, 4], got [3, 5]"));
  EXPECT_THAT(ErrorOf([] {
                Nms(at::ones({3, 4}), at::ones({2}), 0.5);
              }),
              HasSubstr("expected scores [3], got [2]"));
}

// Between samples of a plane there are values of the plane, and their average
// is the value at the middle.
TEST(RoiAlignTest, AveragesOfAPlaneAreItsValuesInTheMiddle) {
  const at::Tensor y = at::arange(20, at::kDouble).view({20, 1});
  const at::Tensor x = at::arange(16, at::kDouble).view({1, 16});
  const at::Tensor plane = y * 2 + x * 3 + 1;
  const at::Tensor input = at::stack({-plane, plane}).view({2, 1, 20, 16});
  const at::Tensor boxes =
      at::tensor({1.0, 4.0, 6.0, 12.0, 18.0}, at::kDouble).view({1, 5});
  for (const int64_t sampling_ratio : {2, 3, 0}) {
    for (const bool aligned : {true, false}) {
      const at::Tensor parts =
          RoiAlign(input, boxes, 0.5, 2, sampling_ratio, aligned);
      const double offset = aligned ? 0.5 : 0;
      for (int64_t row = 0; row < 2; ++row) {
        for (int64_t column = 0; column < 2; ++column) {
          const double at_y = 3 - offset + (row + 0.5) * 3;
          const double at_x = 2 - offset + (column + 0.5) * 2;
          EXPECT_NEAR(parts[0][0][row][column].item<double>(),
                      at_y * 2 + at_x * 3 + 1, 1e-9);
        }
      }
    }
  }
}

TEST(RoiAlignTest, OutsideOfTheInputIsZero) {
  const at::Tensor boxes = at::tensor({0.F, 100.F, 100.F, 120.F, 120.F,  //
                                       0.F, -6.F, 0.F, 2.F, 4.F})
                               .view({2, 5});
  const at::Tensor parts =
      RoiAlign(at::ones({1, 1, 4, 4}), boxes, 1, 1, 2, true);
  EXPECT_EQ(parts[0].item<float>(), 0);
  EXPECT_EQ(parts[1].item<float>(), 0.5);
  EXPECT_TRUE(RoiAlign(at::ones({1, 1, 0, 4}), boxes, 1, 1, 2, true)
                  .eq(0)
                  .all()
                  .item<bool>());
}

TEST(RoiAlignTest, RefusesBoxesThatAreNowhereOrEndless) {
  const auto error = [](float row, float high) {
    return ErrorOf([&] {
      RoiAlign(at::ones({2, 1, 4, 4}),
               at::tensor({row, 0.F, 0.F, high, 1.F}).view({1, 5}), 1, 1, 0,
               true);
    });
  };
  EXPECT_EQ(error(1, 4), "no error");
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const float row : {2.F, -1.F, nan, 1e30F}) {
    EXPECT_THAT(error(row, 4), HasSubstr("rows 0 to 1, got box 0 of row"));
  }
  for (const float high : {1e6F, std::numeric_limits<float>::infinity(), nan}) {
    EXPECT_THAT(error(0, high), HasSubstr("at most 65536 elements"));
  }
}

TEST(DeformConv2dTest, WithoutOffsetsItIsAConvolution) {
  Convolution convolution;
  const at::Tensor expected =
      at::conv2d(convolution.input, convolution.weight, convolution.bias,
                 {2, 1}, {1, 1}, {1, 1}, 2);
  EXPECT_TRUE(convolution.Run().allclose(expected));
  convolution.use_mask = false;
  convolution.mask = at::zeros({2, 1});
  EXPECT_TRUE(convolution.Run().allclose(expected));
}

TEST(DeformConv2dTest, OffsetsMoveTheSamplesAndTheMaskScalesThem) {
  Convolution convolution;
  convolution.bias.zero_();
  // Down by a row and a half: between the images that are 1 and 2 rows lower.
  convolution.offset.view({2, 2, 9, 2, 4, 6}).select(3, 0).fill_(1.5);
  convolution.mask.fill_(0.5);
  const auto lower = [&](int64_t rows) {
    at::Tensor input = at::zeros_like(convolution.input);
    input.narrow(2, 0, 7 - rows)
        .copy_(convolution.input.narrow(2, rows, 7 - rows));
    return at::conv2d(input, convolution.weight, {}, {2, 1}, {1, 1}, {1, 1}, 2);
  };
  // The row above the input is one of zeros to a convolution of what is lower,
  // and the input's own first rows to one that samples lower.
  const at::Tensor expected = (lower(1) + lower(2)) * 0.25;
  EXPECT_TRUE(
      convolution.Run().narrow(2, 1, 3).allclose(expected.narrow(2, 1, 3)));
}

TEST(DeformConv2dTest, SamplesThatAreNowhereAreZero) {
  Convolution convolution;
  for (const float offset :
       {1e30F, -1e30F, std::numeric_limits<float>::quiet_NaN()}) {
    convolution.offset.fill_(offset);
    EXPECT_TRUE(convolution.Run().equal(
        convolution.bias.view({1, 6, 1, 1}).expand({2, 6, 4, 6})));
  }
}

TEST(DeformConv2dTest, RefusesOtherShapes) {
  const auto error = [](const auto& change) {
    Convolution convolution;
    change(convolution);
    return ErrorOf([&] { convolution.Run(); });
  };
  EXPECT_THAT(error([](auto& c) {
                c.offset = at::zeros({2, 36, 4, 5});
              }),
              HasSubstr("expected an offset of [2, 36, 4, 6], got"));
  EXPECT_THAT(error([](auto& c) {
                c.mask = at::zeros({2, 9, 4, 6});
              }),
              HasSubstr("expected a mask of [2, 18, 4, 6], got"));
  EXPECT_THAT(error([](auto& c) {
                c.weight = at::zeros({6, 3, 3, 3});
              }),
              HasSubstr("do not fit together"));
  EXPECT_THAT(error([](auto& c) {
                c.weight = at::zeros({6, 2, 10, 3});
              }),
              HasSubstr("is larger than the input"));
  EXPECT_THAT(error([](auto& c) { c.bias = at::zeros({5}); }),
              HasSubstr("expected a bias of [6], got [5]"));
  EXPECT_THAT(error([](auto& c) { c.stride = 0; }),
              HasSubstr("expected a stride"));
  EXPECT_THAT(error([](auto& c) { c.bias = c.bias.to(at::kDouble); }),
              HasSubstr("tensors of one type"));
}

}  // namespace
}  // namespace stoker
