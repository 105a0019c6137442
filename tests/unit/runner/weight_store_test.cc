#include "runner/weight_store.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include <cstddef>
#include <memory>
#include <string>
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

}  // namespace
}  // namespace stoker
