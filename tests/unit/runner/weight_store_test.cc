#include "runner/weight_store.h"

#include <ATen/ATen.h>
#include <c10/util/Exception.h>
#include <gmock/gmock.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "program/program_archive.h"
#include "tests/unit/runner/torch_fixture.h"

namespace stoker {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// A device that isn't the host, as far as the store can tell: somebody else
// gives the memory.
class PlacedWeightsTest : public TorchTest {
 protected:
  std::shared_ptr<WeightStore> Place() {
    const auto archive = ProgramArchive::Open(Made("wide.pt2"));
    EXPECT_TRUE(archive.ok()) << archive.status();
    auto store = WeightStore::Place(
        **archive, at::kCPU,
        [&](const std::string& name) {
          return const_cast<std::byte*>((*archive)->tensors().at(name).data);
        },
        (*archive)->zip(),
        [this](int64_t bytes) -> absl::StatusOr<std::shared_ptr<std::byte>> {
          if (!refusal_.ok()) return refusal_;
          taken_.push_back(bytes);
          return std::shared_ptr<std::byte>(
              new std::byte[static_cast<size_t>(bytes)],
              [this](const std::byte* memory) {
                delete[] memory;
                ++let_go_;
              });
        });
    EXPECT_TRUE(store.ok()) << store.status();
    return *store;
  }

  absl::Status refusal_;
  std::vector<int64_t> taken_;
  int let_go_ = 0;
};

TEST_F(PlacedWeightsTest, RoundedWeightsAreAskedForOnceAndGoWithTheStore) {
  {
    const auto store = Place();
    const at::Tensor& weight = *store->Find("up.weight");
    const auto rounded = store->Packed("up.weight", at::kBFloat16);
    ASSERT_TRUE(rounded.ok()) << rounded.status();
    EXPECT_TRUE(at::equal(**rounded, weight.to(at::kBFloat16)));
    EXPECT_EQ((*rounded)->strides(), weight.strides());
    EXPECT_EQ(*store->Packed("up.weight", at::kBFloat16), *rounded);
    EXPECT_THAT(taken_, ElementsAre(weight.numel() * 2));
    EXPECT_TRUE(store->Packed("up.weight", at::kHalf).ok());
    EXPECT_EQ(taken_.size(), 2u);
    EXPECT_EQ(let_go_, 0);
  }
  EXPECT_EQ(let_go_, 2);
}

TEST_F(PlacedWeightsTest, WithoutRoomNothingIsRounded) {
  const auto store = Place();
  refusal_ = absl::ResourceExhaustedError("weights take 2.00 GiB, ...");
  EXPECT_EQ(store->Packed("up.weight", at::kBFloat16).status(), refusal_);
  EXPECT_THAT(taken_, IsEmpty());
  refusal_ = absl::OkStatus();
  EXPECT_TRUE(store->Packed("up.weight", at::kBFloat16).ok());
}

class Int8WeightsTest : public TorchTest {
 protected:
  Int8WeightsTest()
      : store_(Map("wide")), linears_(loader_->UseInt8(*store_)) {}

  // Of that weight's layer alone.
  at::Tensor Answer(const at::Tensor& x) {
    const absl::StatusOr<at::Tensor*> weight =
        store_->Packed("up.weight", at::kFloat);
    EXPECT_TRUE(weight.ok()) << weight.status();
    return Int8Weight::Of(**weight)->Product(x, std::nullopt);
  }

  const std::shared_ptr<WeightStore> store_;
  Int8Linears* const linears_;
};

TEST_F(Int8WeightsTest, AnswerAsTheFloatsDoAndTakeAQuarter) {
  const at::Tensor dense = *store_->Find("up.weight");
  const at::Tensor x = at::randn({3, 5, dense.size(1)});
  const at::Tensor exact = at::linear(x, dense);
  const at::Tensor answer = Answer(x);
  EXPECT_EQ(answer.sizes(), exact.sizes());
  EXPECT_LT(((answer - exact).norm() / exact.norm()).item<double>(), 0.02);
  // Whatever else is in the batch.
  EXPECT_TRUE(at::equal(Answer(x.slice(1, 2, 3)), answer.slice(1, 2, 3)));
  EXPECT_EQ(Answer(x.slice(1, 0, 0)).numel(), 0);
  EXPECT_THROW(Answer(at::randn({3, dense.size(1) + 1})), c10::Error);
  EXPECT_LT(store_->packed_bytes(), dense.nbytes() * 0.3);
  ASSERT_EQ(linears_->Layers().size(), 1u);
  EXPECT_EQ(linears_->Layers()[0].weight, "up.weight");
  EXPECT_EQ(linears_->Layers()[0].numbers, dense.numel());
}

TEST_F(Int8WeightsTest, WhatIsNotOfIntegersIsPackedForWhatItIs) {
  ASSERT_TRUE(linears_->Use({{"up.weight", LayerPrecision::kFloat32}}).ok());
  const auto weight = store_->Packed("up.weight", at::kFloat);
  ASSERT_TRUE(weight.ok()) << weight.status();
  const Int8Weight& integers = *Int8Weight::Of(**weight);
  ASSERT_NE(integers.instead(), nullptr);
  EXPECT_EQ(integers.instead()->scalar_type(), at::kFloat);
  ASSERT_TRUE(linears_->Use({}).ok());
  EXPECT_EQ(integers.instead(), nullptr);
  if (!linears_->HasBfloat16()) GTEST_SKIP() << "no bfloat16 here";
  ASSERT_TRUE(linears_->Use({{"up.weight", LayerPrecision::kBfloat16}}).ok());
  EXPECT_EQ(integers.instead()->scalar_type(), at::kBFloat16);
}

TEST_F(Int8WeightsTest, InputsAreEvenedOutByWhatWasNoted) {
  const at::Tensor dense = *store_->Find("up.weight");
  at::Tensor x = at::randn({16, dense.size(1)});
  x.select(1, 3).mul_(200);
  const auto error = [&] {
    const at::Tensor exact = at::linear(x, dense);
    return ((Answer(x) - exact).norm() / exact.norm()).item<double>();
  };
  const double before = error();
  EXPECT_TRUE(linears_->FactorsOfNoted().empty());
  linears_->Note(true);
  Int8Weight::Of(**store_->Packed("up.weight", at::kFloat))->NoteInputs(x);
  linears_->Note(false);
  const Int8Factors factors = linears_->FactorsOfNoted();
  ASSERT_EQ(factors.size(), 1u);
  ASSERT_TRUE(linears_->Even(factors).ok());
  EXPECT_LT(error(), before / 2);
  EXPECT_EQ(linears_->Even({{"up.weight", {1, 2}}}).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(linears_->Even({{"none", {}}}).code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(LayersEndTest, WhatOnednnComputesOnTheWay) {
  const at::Tensor x = at::randn({4, 32});
  const auto unary = [&](std::string_view name, const at::Tensor& expected,
                         std::vector<const double*> scalars = {},
                         std::string_view algorithm = "") {
    at::Tensor result = x.clone();
    ApplyUnary(result, name, scalars, algorithm);
    EXPECT_TRUE(at::allclose(result, expected)) << name;
  };
  unary("none", x);
  unary("relu", at::relu(x));
  unary("gelu", at::gelu(x), {}, "none");
  unary("gelu", at::gelu(x, "tanh"), {}, "tanh");
  unary("swish", at::silu(x));
  unary("sigmoid", at::sigmoid(x));
  unary("tanh", at::tanh(x));
  unary("hardswish", at::hardswish(x));
  unary("hardsigmoid", at::hardsigmoid(x));
  const double low = -0.5;
  const double high = 0.25;
  unary("leaky_relu", at::leaky_relu(x, high), {&high});
  unary("hardtanh", at::hardtanh(x, low, high), {&low, &high});
  at::Tensor result = x.clone();
  EXPECT_THROW(ApplyUnary(result, "erf", {}, ""), c10::Error);
  EXPECT_THROW(ApplyUnary(result, "hardtanh", {}, ""), c10::Error);
  ApplyBinary(result, x, "add");
  EXPECT_TRUE(at::allclose(result, 2 * x));
  ApplyBinary(result, x, "sub");
  EXPECT_TRUE(at::allclose(result, x));
  EXPECT_THROW(ApplyBinary(result, x, "div"), c10::Error);
}

}  // namespace
}  // namespace stoker
