// Between plain tensors and torch's, where an executable can't be made to go.
#include "runner/torch_values.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tests/unit/runner/torch_fixture.h"

namespace stoker {
namespace {

TEST(TorchValuesTest, AViewCopiesNothing) {
  const Tensor tensor =
      MakeTensor<int32_t>(DataType::kInt32, {2, 2}, {1, 2, 3, 4});
  const auto view = ViewAsTorch(tensor);
  ASSERT_TRUE(view.ok()) << view.status();
  EXPECT_EQ(view->const_data_ptr(), tensor.data);
  EXPECT_EQ(view->scalar_type(), at::kInt);
  EXPECT_EQ((*view)[1][0].item<int>(), 3);
}

TEST(TorchValuesTest, EmptyTensorsAndScalarsAreTensors) {
  const auto empty =
      ViewAsTorch({DataType::kFp32, {0, 5}, nullptr, 0, nullptr});
  ASSERT_TRUE(empty.ok()) << empty.status();
  EXPECT_EQ(empty->numel(), 0);
  Tensor number = MakeTensor<double>(DataType::kFp64, {1}, {7});
  number.shape.clear();
  const auto scalar = ViewAsTorch(number);
  ASSERT_TRUE(scalar.ok());
  EXPECT_EQ(scalar->item<double>(), 7);
}

TEST(TorchValuesTest, FormsThatDoNotFitAreRefused) {
  Tensor tensor = MakeTensor<float>(DataType::kFp32, {2}, {1, 2});
  for (const Shape& shape :
       {Shape{3}, Shape{1}, Shape{-1}, Shape{1 << 30, 1 << 30, 1 << 30}}) {
    tensor.shape = shape;
    EXPECT_EQ(ViewAsTorch(tensor).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
  tensor.shape = {2};
  tensor.dtype = DataType::kBytes;
  EXPECT_EQ(ViewAsTorch(tensor).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(TorchValuesTest, AnOutputKeepsItsMemoryAndItsLenderAlive) {
  auto lender = std::make_shared<const int>(0);
  auto tensor = FromTorch(at::arange(6).reshape({2, 3}), {}, lender);
  ASSERT_TRUE(tensor.ok()) << tensor.status();
  EXPECT_EQ(lender.use_count(), 2);
  EXPECT_EQ(ValuesOf<int64_t>(*tensor),
            (std::vector<int64_t>{0, 1, 2, 3, 4, 5}));
  tensor = absl::CancelledError();
  EXPECT_EQ(lender.use_count(), 1);
}

TEST(TorchValuesTest, SlicesOfInputsAreCopied) {
  const at::Tensor input = at::arange(6);
  const at::Tensor inputs[] = {input};
  const auto tensor = FromTorch(input.slice(0, 2), inputs, nullptr);
  ASSERT_TRUE(tensor.ok());
  EXPECT_NE(static_cast<const void*>(tensor->data),
            input.slice(0, 2).const_data_ptr());
  EXPECT_EQ(ValuesOf<int64_t>(*tensor), (std::vector<int64_t>{2, 3, 4, 5}));
}

TEST(TorchValuesTest, TypesThatTheProtocolLacksAreSaidSo) {
  const auto tensor = FromTorch(at::zeros({2}, at::kComplexFloat), {}, nullptr);
  EXPECT_EQ(tensor.status().code(), absl::StatusCode::kInternal);
  EXPECT_EQ(TensorOfValue(c10::IValue("text")).status().code(),
            absl::StatusCode::kInternal);
  EXPECT_EQ(TensorOfValue(c10::IValue()).status().code(),
            absl::StatusCode::kInternal);
}

TEST(TorchValuesTest, NumbersBecomeTensors) {
  EXPECT_EQ(TensorOfValue(c10::IValue(3))->scalar_type(), at::kLong);
  EXPECT_EQ(TensorOfValue(c10::IValue(0.5))->item<double>(), 0.5);
  EXPECT_EQ(TensorOfValue(c10::IValue(true))->scalar_type(), at::kBool);
}

}  // namespace
}  // namespace stoker
