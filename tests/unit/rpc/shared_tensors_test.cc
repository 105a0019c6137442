#include "rpc/shared_tensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "rpc/tensor_codec.h"
#include "tests/unit/rpc/codec_fixtures.h"
#include "tests/unit/rpc/shared_memory_file.h"

namespace stoker {
namespace {

using inference::ModelInferRequest;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

template <typename WireTensor>
void Place(WireTensor& tensor, const std::string& region, int64_t offset,
           int64_t byte_size) {
  auto& parameters = *tensor.mutable_parameters();
  parameters["shared_memory_region"].set_string_param(region);
  parameters["shared_memory_offset"].set_int64_param(offset);
  parameters["shared_memory_byte_size"].set_int64_param(byte_size);
}

class SharedTensorsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(regions_.Register({"r", file_.key(), 0, 4096}).ok());
    file_.Put(64, Bytes(std::vector<int64_t>{7, 8, 9}));
    // ids in the message, mask in the region, scale in the message again.
    Place(*request_.mutable_inputs(1), "r", 64, 24);
    request_.mutable_raw_input_contents()->DeleteSubrange(1, 1);
  }

  absl::StatusOr<DecodedRequest> Decode() {
    const auto received = Received(request_);
    return DecodeRequest(received->view(), TextModel(), &regions_, received,
                         [this](size_t bytes) {
                           admitted_ += bytes;
                           return absl::OkStatus();
                         });
  }

  SharedMemoryFile file_{4096};
  MetricRegistry metrics_;
  SharedMemoryRegions regions_{1 << 20, metrics_};
  ModelInferRequest request_ = TextRequest(1, 3);
  size_t admitted_ = 0;
};

TEST_F(SharedTensorsTest, RawContentsAreOfTheOtherInputs) {
  const auto decoded = Decode();
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_THAT(Values<int64_t>(decoded->inputs[0]), ElementsAre(0, 1, 2));
  EXPECT_THAT(Values<int64_t>(decoded->inputs[1]), ElementsAre(7, 8, 9));
  EXPECT_EQ(decoded->inputs[2].byte_size, 72u);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(decoded->inputs[1].data) % 64, 0u);
  EXPECT_TRUE(decoded->shared_outputs.empty());
  EXPECT_EQ(admitted_, 24u + 4 * 4 + 8);  // the copy and the answer
  // What the client does to it now changes nothing.
  file_.Put(64, Bytes(std::vector<int64_t>{1, 1, 1}));
  EXPECT_THAT(Values<int64_t>(decoded->inputs[1]), ElementsAre(7, 8, 9));
}

TEST_F(SharedTensorsTest, AllInputs) {
  request_.clear_raw_input_contents();
  Place(*request_.mutable_inputs(0), "r", 0, 24);
  Place(*request_.mutable_inputs(2), "r", 1024, 72);
  const auto decoded = Decode();
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_THAT(Values<int64_t>(decoded->inputs[0]), ElementsAre(0, 0, 0));
}

TEST_F(SharedTensorsTest, WhatIsRefused) {
  const auto refusal = [this] {
    const auto decoded = Decode();
    EXPECT_FALSE(decoded.ok());
    return std::string(decoded.status().message());
  };
  Place(*request_.mutable_inputs(1), "r", 64, 16);
  EXPECT_THAT(refusal(), HasSubstr("input byte size mismatch for input 'mask' "
                                   "for model 'text'. Expected 24, got 16"));
  Place(*request_.mutable_inputs(1), "r", 4090, 24);
  EXPECT_THAT(refusal(), HasSubstr("Invalid offset + byte size"));
  Place(*request_.mutable_inputs(1), "nobody", 0, 24);
  EXPECT_THAT(refusal(), HasSubstr("Unable to find shared memory region"));
  Place(*request_.mutable_inputs(1), "r", 64, 24);
  file_.Resize(70);
  EXPECT_THAT(refusal(), HasSubstr("which has become smaller"));
  file_.Resize(4096);
  request_.add_raw_input_contents(std::string(24, '\0'));
  EXPECT_THAT(refusal(), HasSubstr("Expected 2 entries, got 3"));
  request_.clear_raw_input_contents();
  request_.mutable_inputs(1)->mutable_contents()->add_int64_contents(1);
  EXPECT_THAT(refusal(), HasSubstr("unexpected 'content' provided when using "
                                   "shared memory for input tensor 'mask'"));
}

TEST_F(SharedTensorsTest, OutputsGoToTheirPlace) {
  request_.add_outputs()->set_name("length");
  request_.add_outputs()->set_name("embedding");
  Place(*request_.mutable_outputs(1), "r", 128, 20);
  const auto decoded = Decode();
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  ASSERT_EQ(decoded->shared_outputs.size(), 2u);
  EXPECT_EQ(decoded->shared_outputs[0].region, nullptr);

  const std::vector<float> values = {1, 2, 3, 4, 5, 6};
  std::vector<Tensor> outputs(2);
  outputs[0] = {DataType::kFp32,
                {1, 4},
                reinterpret_cast<const std::byte*>(values.data()),
                16,
                nullptr};
  outputs[1] = {DataType::kInt64,
                {1},
                reinterpret_cast<const std::byte*>(values.data()),
                8,
                nullptr};
  ASSERT_TRUE(WriteSharedOutputs(TextModel(), decoded->shared_outputs,
                                 decoded->outputs, absl::MakeSpan(outputs))
                  .ok());
  EXPECT_EQ(file_.Get(128, 16), Bytes(std::vector<float>{1, 2, 3, 4}));
  EXPECT_EQ(outputs[0].byte_size, 0u);
  EXPECT_EQ(outputs[1].byte_size, 8u);

  outputs[0] = {DataType::kFp32,
                {1, 6},
                reinterpret_cast<const std::byte*>(values.data()),
                24,
                nullptr};
  const absl::Status small =
      WriteSharedOutputs(TextModel(), decoded->shared_outputs, decoded->outputs,
                         absl::MakeSpan(outputs));
  EXPECT_EQ(small.message(),
            "shared memory size specified with the request for output "
            "'embedding' (20 bytes) should be at least 24 bytes to hold the "
            "results");
}

}  // namespace
}  // namespace stoker
