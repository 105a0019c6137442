#include "batching/padding.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

#include "tests/fakes/tensors.h"

namespace stoker {
namespace {

// The same by indices, one element at a time.
template <typename T>
std::vector<T> ResizedByIndex(const std::vector<T>& from,
                              const Shape& from_shape, const Shape& to_shape,
                              T pad) {
  std::vector<T> to(static_cast<size_t>(*ElementCount(to_shape)));
  for (size_t flat = 0; flat < to.size(); ++flat) {
    size_t rest = flat;
    size_t source = 0;
    size_t stride = 1;
    bool shared = true;
    for (size_t axis = to_shape.size(); axis-- > 0;) {
      const size_t index = rest % static_cast<size_t>(to_shape[axis]);
      rest /= static_cast<size_t>(to_shape[axis]);
      shared &= index < static_cast<size_t>(from_shape[axis]);
      source += index * stride;
      stride *= static_cast<size_t>(from_shape[axis]);
    }
    to[flat] = shared ? from[source] : pad;
  }
  return to;
}

template <typename T>
void ExpectResizesLikeByIndex(DataType dtype, std::mt19937& random) {
  std::uniform_int_distribution<int> rank(0, 5);
  std::uniform_int_distribution<int64_t> size(0, 5);
  std::bernoulli_distribution equal(0.5);
  Shape from_shape;
  Shape to_shape;
  for (int axis = rank(random); axis > 0; --axis) {
    from_shape.push_back(size(random));
    to_shape.push_back(equal(random) ? from_shape.back() : size(random));
  }
  std::vector<T> from(static_cast<size_t>(*ElementCount(from_shape)));
  for (T& value : from) value = static_cast<T>(random());
  const Tensor tensor = MakeTensor(dtype, from_shape, from);
  std::vector<T> to(static_cast<size_t>(*ElementCount(to_shape)));
  CopyResized(tensor.data, from_shape, reinterpret_cast<std::byte*>(to.data()),
              to_shape, sizeof(T), EncodeElement(3, dtype));
  ASSERT_EQ(to, ResizedByIndex(from, from_shape, to_shape, static_cast<T>(3)))
      << ShapeString(from_shape) << " to " << ShapeString(to_shape);
}

TEST(CopyResized, LikeACopyByIndexForAllRanksAndElementSizes) {
  std::mt19937 random(1);
  for (int i = 0; i < 500; ++i) {
    ExpectResizesLikeByIndex<uint8_t>(DataType::kUint8, random);
    ExpectResizesLikeByIndex<int16_t>(DataType::kInt16, random);
    ExpectResizesLikeByIndex<int32_t>(DataType::kInt32, random);
    ExpectResizesLikeByIndex<int64_t>(DataType::kInt64, random);
  }
}

}  // namespace
}  // namespace stoker
