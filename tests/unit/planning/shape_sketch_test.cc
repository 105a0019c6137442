#include "planning/shape_sketch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <thread>

namespace stoker {
namespace {

using testing::ElementsAre;

uint64_t Sum(const std::vector<ShapeCount>& shapes) {
  uint64_t sum = 0;
  for (const ShapeCount& shape : shapes) sum += shape.count;
  return sum;
}

// Of the shapes with at least `size` in dimension `d`.
uint64_t AtLeast(const std::vector<ShapeCount>& shapes, size_t d,
                 int64_t size) {
  uint64_t sum = 0;
  for (const ShapeCount& shape : shapes) {
    if (shape.sizes[d] >= size) sum += shape.count;
  }
  return sum;
}

TEST(ShapeSketchTest, CountsExactlyWhileThereIsRoom) {
  ShapeSketch sketch(4);
  sketch.Record({1, 16});
  sketch.Record({1, 7}, 3);
  sketch.Record({1, 16}, 2);
  sketch.Record({1, 9}, 0);
  EXPECT_THAT(sketch.Counts(),
              ElementsAre(ShapeCount{{1, 7}, 3}, ShapeCount{{1, 16}, 3}));
  EXPECT_EQ(sketch.total(), 6u);
}

TEST(ShapeSketchTest, AModelWithoutDimensionsHasOneShape) {
  ShapeSketch sketch(4);
  sketch.Record({}, 5);
  EXPECT_THAT(sketch.Counts(), ElementsAre(ShapeCount{{}, 5}));
}

TEST(ShapeSketchTest, RareShapesGoIntoTheNearestLargerOne) {
  ShapeSketch sketch(4);
  sketch.Record({10}, 100);
  sketch.Record({11}, 1);
  sketch.Record({20}, 100);
  sketch.Record({30}, 2);
  sketch.Record({40}, 100);
  // Room is made down to half: 11 adds 9 elements, 30 adds 20, 10 adds 1000.
  EXPECT_THAT(sketch.Counts(),
              ElementsAre(ShapeCount{{20}, 201}, ShapeCount{{40}, 102}));
}

TEST(ShapeSketchTest, ShapesOfWhichNoneHoldsAnotherAreJoined) {
  ShapeSketch sketch(4);
  for (int64_t i = 1; i <= 5; ++i) sketch.Record({i, 10 - i});
  const std::vector<ShapeCount> shapes = sketch.Counts();
  EXPECT_LE(shapes.size(), 4u);
  EXPECT_EQ(Sum(shapes), 5u);
}

TEST(ShapeSketchTest, OldCountsFade) {
  ShapeSketch sketch(8, /*fade_at=*/100);
  sketch.Record({1}, 98);
  sketch.Record({2}, 1);
  sketch.Record({3}, 1);  // 100: all are halved, and one half is nothing
  EXPECT_THAT(sketch.Counts(), ElementsAre(ShapeCount{{1}, 49}));
  EXPECT_EQ(sketch.total(), 49u);
  sketch.Record({4}, 1'000'000);
  EXPECT_LT(sketch.total(), 100u);
}

// Whatever comes: bounded, the sum exact, nothing ever counted as smaller than
// it was.
TEST(ShapeSketchTest, RandomShapes) {
  for (uint32_t seed = 0; seed < 60; ++seed) {
    std::mt19937 random(seed);
    const size_t rank = 1 + seed % 3;
    const int64_t widest = seed % 2 == 0 ? 12 : 1'000'000;
    ShapeSketch sketch(16);
    std::vector<ShapeCount> all;
    for (int i = 0; i < 400; ++i) {
      DimensionSizes sizes;
      for (size_t d = 0; d < rank; ++d) {
        sizes.push_back(
            std::uniform_int_distribution<int64_t>(0, widest)(random));
      }
      const uint64_t count = 1 + random() % 5;
      sketch.Record(sizes, count);
      all.push_back({sizes, count});
      ASSERT_LE(sketch.Counts().size(), 16u);
    }
    const std::vector<ShapeCount> kept = sketch.Counts();
    ASSERT_EQ(Sum(kept), Sum(all));
    ASSERT_EQ(sketch.total(), Sum(all));
    for (size_t d = 0; d < rank; ++d) {
      for (const ShapeCount& one : all) {
        ASSERT_GE(AtLeast(kept, d, one.sizes[d]), AtLeast(all, d, one.sizes[d]))
            << "seed " << seed;
      }
    }
  }
}

// What is frequent keeps a counter of its own among ten thousand that are not.
TEST(ShapeSketchTest, FrequentShapesStay) {
  std::mt19937 random(7);
  ShapeSketch sketch(64);
  for (int i = 0; i < 30'000; ++i) {
    sketch.Record({i % 3 == 0 ? 100 : static_cast<int64_t>(random() % 50'000)});
  }
  for (const ShapeCount& shape : sketch.Counts()) {
    if (shape.sizes[0] == 100) {
      EXPECT_GE(shape.count, 10'000u);
      EXPECT_LT(shape.count, 11'000u);
      return;
    }
  }
  FAIL() << "no counter for 100";
}

TEST(ShapeSketchTest, ManyThreads) {
  ShapeSketch sketch(8);
  std::vector<std::thread> threads;
  for (int64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&sketch, t] {
      for (int64_t i = 0; i < 2000; ++i) sketch.Record({t, i % 20});
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(sketch.total(), 8000u);
  EXPECT_EQ(Sum(sketch.Counts()), 8000u);
}

TEST(MergeShapesTest, KeepsWhatFits) {
  const std::vector<ShapeCount> shapes = {{{2}, 1}, {{1}, 5}, {{2}, 2}};
  EXPECT_THAT(MergeShapes(shapes, 2),
              ElementsAre(ShapeCount{{1}, 5}, ShapeCount{{2}, 3}));
  EXPECT_THAT(MergeShapes(shapes, 1), ElementsAre(ShapeCount{{2}, 8}));
  EXPECT_THAT(MergeShapes(shapes, 0), ElementsAre(ShapeCount{{2}, 8}));
  EXPECT_TRUE(MergeShapes({}, 4).empty());
}

}  // namespace
}  // namespace stoker
