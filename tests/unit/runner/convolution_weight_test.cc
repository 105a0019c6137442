#include "runner/convolution_weight.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>
#include <gmock/gmock.h>

#include <thread>
#include <vector>

namespace stoker {
namespace {

class ConvolutionWeightTest : public ::testing::Test {
 protected:
  // In its layout for images of those sizes, on this thread.
  const at::Tensor& For(std::vector<int64_t> images) {
    return weight_->For(at::empty(images),
                        {padding_, stride_, dilation_, /*groups=*/1});
  }

  const c10::InferenceMode mode_;
  const std::vector<int64_t> padding_ = {0, 0}, stride_ = {1, 1},
                             dilation_ = {1, 1};
  const at::Tensor dense_ = at::rand({256, 64, 1, 1});
  const c10::intrusive_ptr<ConvolutionWeight> weight_ =
      c10::make_intrusive<ConvolutionWeight>(dense_);
};

TEST_F(ConvolutionWeightTest, HoldsTheNumbersOfTheDenseOne) {
  const at::Tensor& packed = For({1, 64, 14, 14});
  EXPECT_TRUE(packed.is_mkldnn());
  EXPECT_TRUE(at::equal(packed.to_dense(), dense_));
}

TEST_F(ConvolutionWeightTest, KindsThatWantTheSameLayoutShareIt) {
  const at::Tensor* const first = &For({1, 64, 14, 14});
  EXPECT_EQ(&For({1, 64, 14, 14}), first);
  size_t most = 1;
  for (int64_t rows = 1; rows <= 16; ++rows) {
    For({rows, 64, 14, 14});
    EXPECT_LE(weight_->layouts(), ++most);
  }
  EXPECT_LT(weight_->layouts(), 8U);
  EXPECT_EQ(&For({1, 64, 14, 14}), first);
}

TEST_F(ConvolutionWeightTest, ThreadsAreOfTheKind) {
  std::vector<std::thread> threads;
  for (int count = 1; count <= 4; ++count) {
    threads.emplace_back([&, count] {
      const c10::InferenceMode mode;
      at::get_num_threads();
      at::set_num_threads(count);
      for (int64_t rows = 1; rows <= 8; ++rows) {
        EXPECT_TRUE(at::equal(For({rows, 64, 7, 7}).to_dense(), dense_));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(ConvolutionWeightTest, AnyNumberOfKindsHasALayout) {
  for (int64_t width = 1; width <= 600; ++width) {
    EXPECT_TRUE(For({1, 64, 1, width}).is_mkldnn());
  }
  EXPECT_LT(weight_->layouts(), 16U);
}

TEST_F(ConvolutionWeightTest, HangsOnTheTensorThatItWasGivenTo) {
  const at::Tensor other = dense_.alias();
  EXPECT_EQ(ConvolutionWeight::Of(other), nullptr);
  other.unsafeGetTensorImpl()->set_backend_meta(weight_);
  EXPECT_EQ(ConvolutionWeight::Of(other), weight_.get());
  EXPECT_EQ(ConvolutionWeight::Of(dense_), nullptr);
}

TEST_F(ConvolutionWeightTest, ReleaseFreesTheLayouts) {
  For({1, 64, 14, 14});
  weight_->Release();
  EXPECT_EQ(weight_->layouts(), 0U);
}

TEST_F(ConvolutionWeightTest, OtherDimensions) {
  const auto packed = [](const at::Tensor& dense, std::vector<int64_t> images,
                         std::vector<int64_t> numbers) {
    const auto weight = c10::make_intrusive<ConvolutionWeight>(dense);
    return weight
        ->For(at::empty(images),
              {numbers, std::vector<int64_t>(numbers.size(), 1),
               std::vector<int64_t>(numbers.size(), 1), 1})
        .to_dense();
  };
  const at::Tensor line = at::rand({32, 16, 5});
  EXPECT_TRUE(
      at::equal(packed(line, {1, 16, 1, 40}, {0, 2}), line.unsqueeze(2)));
  const at::Tensor volume = at::rand({32, 16, 3, 3, 3});
  EXPECT_TRUE(at::equal(packed(volume, {1, 16, 8, 14, 14}, {1, 1, 1}), volume));
}

TEST_F(ConvolutionWeightTest, WhatIsNoImagesIsAnError) {
  EXPECT_THROW(For({64, 14, 14}), c10::Error);
}

}  // namespace
}  // namespace stoker
