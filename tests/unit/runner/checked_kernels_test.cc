// Arguments that end the process, or read what isn't theirs, in torch alone.
#include "runner/checked_kernels.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>
#include <tuple>

#include "tests/unit/runner/torch_message.h"

namespace stoker {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();

class CheckedKernelsTest : public ::testing::Test {
 protected:
  CheckedKernelsTest() { CheckKernelsArguments(); }
};

TEST_F(CheckedKernelsTest, LcmOfTheLeastIntegerWrapsAround) {
  const at::Tensor a = at::tensor({kLeast, kLeast, int64_t{4}, int64_t{0}});
  const at::Tensor b =
      at::tensor({int64_t{-1}, kLeast, int64_t{6}, int64_t{0}});
  const at::Tensor lcm = at::lcm(a, b);
  EXPECT_EQ(lcm[0].item<int64_t>(), kLeast);
  EXPECT_EQ(lcm[2].item<int64_t>(), 12);
  EXPECT_EQ(lcm[3].item<int64_t>(), 0);
  at::Tensor in_place = at::tensor({4, 6}, at::kInt);
  in_place.lcm_(at::tensor({6, -9}, at::kInt));
  EXPECT_TRUE(in_place.equal(at::tensor({12, 18}, at::kInt)));
  EXPECT_EQ(in_place.scalar_type(), at::kInt);
}

TEST_F(CheckedKernelsTest, TheMedianOfAnExpandedTensorIsThatOfItsCopy) {
  const at::Tensor one = at::tensor({5.F, 1.F, 2.F}).narrow(0, 0, 1);
  const auto [value, index] = at::median(one.expand({3}), 0);
  EXPECT_EQ(value.item<float>(), 5);
  const auto [values, indices] = at::nanmedian(one.expand({2, 3}), 1);
  EXPECT_TRUE(values.eq(5).all().item<bool>());
}

TEST_F(CheckedKernelsTest, GroupNormTakesWeightsOfAnyStrides) {
  const at::Tensor x = at::arange(24, at::kFloat).view({1, 4, 6});
  const at::Tensor two = at::tensor({2.F, 77.F, 88.F, 99.F}).narrow(0, 0, 1);
  const auto normed = [&x](const at::Tensor& weight) {
    return std::get<0>(at::native_group_norm(x, weight, {}, 1, 4, 6, 2, 1e-5));
  };
  EXPECT_TRUE(normed(two.expand({4})).equal(normed(at::full({4}, 2.F))));
  EXPECT_THAT(ErrorOf([&] { normed(two); }),
              HasSubstr("expected a weight of [4], got [1]"));
}

TEST_F(CheckedKernelsTest, NormsRefuseStatisticsOfOtherSizes) {
  const at::Tensor x = at::ones({2, 4, 3}), four = at::ones({4});
  at::Tensor one = at::ones({1}), more = at::ones({4});
  EXPECT_THAT(ErrorOf([&] {
                at::native_batch_norm(x, four, four, one, more, false, 0.1,
                                      1e-5);
              }),
              HasSubstr("expected a mean of [4], got [1]"));
  EXPECT_THAT(ErrorOf([&] {
                at::_native_batch_norm_legit(x, four, four, more, one, false,
                                             0.1, 1e-5);
              }),
              HasSubstr("expected a variance of [4], got [1]"));
  EXPECT_THAT(ErrorOf([&] {
                at::_native_batch_norm_legit(x, one, four, true, 0.1, 1e-5);
              }),
              HasSubstr("expected a weight of [4], got [1]"));
  EXPECT_THAT(ErrorOf([&] {
                at::_batch_norm_with_update(x, four, one, more, more, 0.1,
                                            1e-5);
              }),
              HasSubstr("expected a bias of [4], got [1]"));
  EXPECT_TRUE(std::get<0>(at::native_batch_norm(x, four, four, more, more,
                                                false, 0.1, 0))
                  .eq(1)
                  .all()
                  .item<bool>());
}

TEST_F(CheckedKernelsTest, FourierTransformsRefuseDimensionsThatThereAreNot) {
  const at::Tensor real = at::ones({2, 8});
  const at::Tensor complex = real.to(at::kComplexFloat);
  for (const int64_t dim : {int64_t{2}, int64_t{1} << 31, int64_t{-7}}) {
    EXPECT_THAT(ErrorOf([&] { at::_fft_r2c(real, {dim}, 0, true); }),
                HasSubstr("expected dimensions 0 to 1"));
    EXPECT_THAT(ErrorOf([&] { at::_fft_c2r(complex, {dim}, 0, 8); }),
                HasSubstr("expected dimensions 0 to 1"));
    EXPECT_THAT(ErrorOf([&] { at::_fft_c2c(complex, {dim}, 0, true); }),
                HasSubstr("expected dimensions 0 to 1"));
  }
  EXPECT_EQ(at::_fft_r2c(real, {1}, 0, true).sizes(), at::IntArrayRef({2, 5}));
}

TEST_F(CheckedKernelsTest, FlashAttentionRefusesKeysThatDoNotFit) {
  const at::Tensor query = at::ones({2, 3, 4, 8}),
                   fewer = at::ones({1, 3, 4, 8});
  EXPECT_THAT(ErrorOf([&] {
                at::_scaled_dot_product_flash_attention_for_cpu(query, fewer,
                                                                fewer);
              }),
              HasSubstr("expected keys and values of one size that fit"));
  EXPECT_TRUE(std::get<0>(at::_scaled_dot_product_flash_attention_for_cpu(
                              query, query, query))
                  .allclose(query));
}

TEST_F(CheckedKernelsTest, AntialiasingTakesInputsOfAnyStrides) {
  const at::Tensor x = at::rand({6, 3, 8, 2}).transpose(0, 3);
  const auto half = [](const at::Tensor& input) {
    return at::_upsample_bilinear2d_aa(input, {4, 3}, false);
  };
  EXPECT_TRUE(half(x).allclose(half(x.contiguous())));
}

}  // namespace
}  // namespace stoker
