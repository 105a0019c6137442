#include "runner/int8_rows.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

namespace stoker {
namespace {

// Odd, so that loops over vectors have a rest.
constexpr size_t kColumns = 387;

std::vector<float> Noise(uint32_t seed, float middle, float spread) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(middle, spread);
  std::vector<float> numbers(kColumns);
  for (float& number : numbers) number = normal(random);
  return numbers;
}

const std::vector<float>& Ones() {
  static const auto& ones = *new std::vector<float>(kColumns, 1);
  return ones;
}

TEST(QuantiseRowTest, NumbersAreWithinHalfAStep) {
  for (const float middle : {0.0F, 5.0F, -3.0F}) {
    const std::vector<float> x = Noise(1, middle, 2);
    std::vector<int8_t> q(kColumns);
    const Int8Row row =
        QuantiseRow(x.data(), Ones().data(), kColumns, q.data());
    EXPECT_EQ(row.zero, std::nearbyint(row.zero));
    for (size_t i = 0; i < kColumns; ++i) {
      EXPECT_NEAR(row.scale * (static_cast<float>(q[i]) - row.zero), x[i],
                  row.scale * 0.51F)
          << i;
    }
  }
}

TEST(QuantiseRowTest, ZerosStayZeros) {
  const std::vector<float> x(kColumns);
  std::vector<int8_t> q(kColumns);
  const Int8Row row = QuantiseRow(x.data(), Ones().data(), kColumns, q.data());
  for (const int8_t one : q) EXPECT_EQ(static_cast<float>(one), row.zero);
}

TEST(QuantiseRowTest, WhatIsNotFiniteMakesTheRowNaN) {
  for (const float wrong : {std::numeric_limits<float>::quiet_NaN(),
                            std::numeric_limits<float>::infinity(),
                            -std::numeric_limits<float>::infinity()}) {
    for (const size_t at : {size_t{0}, size_t{200}, kColumns - 1}) {
      std::vector<float> x = Noise(2, 0, 1);
      x[at] = wrong;
      std::vector<int8_t> q(kColumns);
      EXPECT_TRUE(std::isnan(
          QuantiseRow(x.data(), Ones().data(), kColumns, q.data()).scale));
    }
  }
}

// Products of rows, by integers, as numbers again.
std::vector<float> Products(const std::vector<float>& x,
                            const std::vector<std::vector<float>>& weight,
                            const std::vector<float>& bias,
                            const std::vector<float>& factors) {
  std::vector<float> inverse(kColumns);
  for (size_t i = 0; i < kColumns; ++i) inverse[i] = 1 / factors[i];
  std::vector<int8_t> q(kColumns);
  const Int8Row row = QuantiseRow(x.data(), inverse.data(), kColumns, q.data());
  std::vector<float> scales;
  std::vector<float> offsets;
  std::vector<int32_t> sums;
  for (const std::vector<float>& of_row : weight) {
    std::vector<int8_t> w(kColumns);
    const Int8WeightRow found =
        QuantiseWeightRow(of_row.data(), factors.data(), kColumns, w.data());
    int32_t sum = 0;
    for (size_t i = 0; i < kColumns; ++i) sum += int32_t{q[i]} * w[i];
    scales.push_back(found.scale);
    offsets.push_back(found.scale * found.sum);
    sums.push_back(sum);
  }
  ScaleProducts(row, scales.data(), offsets.data(), bias.data(), sums.size(),
                sums.data());
  std::vector<float> products(sums.size());
  std::memcpy(products.data(), sums.data(), sums.size() * sizeof(float));
  return products;
}

double Product(const std::vector<float>& x, const std::vector<float>& w) {
  double sum = 0;
  for (size_t i = 0; i < kColumns; ++i) sum += double{x[i]} * w[i];
  return sum;
}

TEST(ScaleProductsTest, AreCloseToTheNumbersOwn) {
  // Far from 0, so that a wrong offset shows.
  const std::vector<float> x = Noise(3, 4, 1);
  std::vector<std::vector<float>> weight;
  std::vector<float> bias;
  for (uint32_t i = 0; i < 37; ++i) {
    weight.push_back(Noise(10 + i, 0.01F, 0.05F));
    bias.push_back(static_cast<float>(i));
  }
  const std::vector<float> products = Products(x, weight, bias, Ones());
  for (size_t i = 0; i < weight.size(); ++i) {
    EXPECT_NEAR(products[i], Product(x, weight[i]) + bias[i], 0.1) << i;
  }
}

// One column that is a hundred times as large as the others takes all steps to
// itself, unless a factor takes it down.
TEST(ScaleProductsTest, FactorsEvenColumnsOut) {
  std::vector<float> x = Noise(4, 0, 1);
  x[7] = 100;
  std::vector<float> factors = Ones();
  factors[7] = 8;
  std::vector<std::vector<float>> weight;
  for (uint32_t i = 0; i < 64; ++i) weight.push_back(Noise(50 + i, 0, 0.05F));
  const std::vector<float> bias(weight.size());
  const auto error = [&](const std::vector<float>& with) {
    const std::vector<float> products = Products(x, weight, bias, with);
    double squares = 0;
    for (size_t i = 0; i < weight.size(); ++i) {
      squares += std::pow(products[i] - Product(x, weight[i]), 2);
    }
    return std::sqrt(squares / static_cast<double>(weight.size()));
  };
  EXPECT_LT(error(factors), error(Ones()) / 2);
}

TEST(NoteLargestTest, KeepsTheLargestMagnitudeOfEachColumn) {
  std::vector<float> largest(3);
  const std::vector<float> rows[] = {{1, -5, 0}, {-2, 3, 0}};
  for (const auto& row : rows) NoteLargest(row.data(), 3, largest.data());
  EXPECT_EQ(largest, (std::vector<float>{2, 5, 0}));
}

}  // namespace
}  // namespace stoker
