#include "runner/weight_layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "tensor/tensor.h"

namespace stoker {
namespace {

using testing::UnorderedElementsAre;

class WeightLayoutTest : public ::testing::Test {
 protected:
  StoredTensor At(size_t byte, std::vector<int64_t> sizes,
                  std::vector<int64_t> strides) const {
    return {.type = ScalarType::kFloat,
            .sizes = std::move(sizes),
            .strides = std::move(strides),
            .data = memory_.data() + byte};
  }
  const Buffer memory_{4096};  // 64-byte aligned
};

TEST_F(WeightLayoutTest, PutsEachTensorOnAMultipleOf256) {
  const WeightLayout layout =
      LayOutWeights({{"a", At(0, {3}, {1})}, {"b", At(64, {10, 10}, {10, 1})}});
  EXPECT_THAT(layout.offsets,
              UnorderedElementsAre(std::pair("a", 0), std::pair("b", 256)));
  ASSERT_EQ(layout.regions.size(), 2u);
  EXPECT_EQ(layout.regions[0].bytes, 12);
  EXPECT_EQ(layout.regions[1].bytes, 400);
  EXPECT_EQ(layout.bytes, 656);
}

TEST_F(WeightLayoutTest, CopiesWhatSeveralTensorsShowOnce) {
  // Tied, a slice of it, and its transposed form.
  const WeightLayout layout =
      LayOutWeights({{"tied", At(0, {4, 4}, {4, 1})},
                     {"alias", At(0, {4, 4}, {4, 1})},
                     {"row", At(32, {4}, {1})},
                     {"turned", At(0, {4, 4}, {1, 4})}});
  EXPECT_EQ(layout.regions.size(), 1u);
  EXPECT_EQ(layout.bytes, 64);
  EXPECT_THAT(
      layout.offsets,
      UnorderedElementsAre(std::pair("tied", 0), std::pair("alias", 0),
                           std::pair("row", 32), std::pair("turned", 0)));
}

TEST_F(WeightLayoutTest, KeepsHowTensorsAreAligned) {
  // A view that begins 4 bytes into its member, and one right behind it.
  const WeightLayout layout =
      LayOutWeights({{"late", At(4, {3}, {1})}, {"next", At(64, {1}, {1})}});
  EXPECT_EQ(layout.offsets.at("late"), 4);
  EXPECT_EQ(layout.offsets.at("next"), 256);
}

TEST_F(WeightLayoutTest, TakesEmptyTensorsAndNone) {
  EXPECT_EQ(LayOutWeights({}).bytes, 0);
  const WeightLayout layout =
      LayOutWeights({{"none", At(64, {0, 7}, {7, 1})}, {"a", At(0, {2}, {1})}});
  EXPECT_EQ(layout.offsets.at("none"), 256);
  EXPECT_EQ(layout.regions.back().bytes, 0);
}

}  // namespace
}  // namespace stoker
