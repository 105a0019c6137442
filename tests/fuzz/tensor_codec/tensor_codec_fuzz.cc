// Mutated ModelInferRequest messages against the codec: whatever arrives is
// decoded or refused, without a crash, a read outside the message or memory out
// of proportion to it (run under AddressSanitizer for all three). The mutations
// are seeded, so a failure repeats.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <random>
#include <string>
#include <vector>

#include "rpc/tensor_codec.h"
#include "tests/unit/rpc/codec_fixtures.h"
#include "tests/unit/rpc/letters_model.h"

namespace stoker {
namespace {

using inference::ModelInferRequest;

constexpr int kRoundsPerSeed = 20000;

ModelInferRequest TypedRequest() {
  ModelInferRequest request;
  auto* contents = AddInput(request, "x", "INT8", {2, 3})->mutable_contents();
  for (int i = 0; i < 6; ++i) contents->add_int_contents(i);
  (*request.mutable_parameters())["timeout"].set_int64_param(5);
  request.add_outputs()->set_name("y");
  return request;
}

struct Corpus {
  ModelSpec spec;
  std::string bytes;
};

std::vector<Corpus> Seeds() {
  ModelInferRequest outputs = TextRequest(1, 2);
  outputs.add_outputs()->set_name("length");
  ModelSpec reshaped = TextModel();
  reshaped.inputs[0].reshape = {{-1, 1, -1}, {-1, -1}};
  reshaped.inputs[1].default_value = 1;
  reshaped.inputs[2].default_value = 0.5;
  ModelInferRequest one_input = TextRequest(2, 3);
  one_input.mutable_inputs(0)->add_shape(1);
  one_input.mutable_inputs(0)->mutable_shape()->SwapElements(1, 2);
  one_input.mutable_inputs()->DeleteSubrange(1, 2);
  one_input.mutable_raw_input_contents()->DeleteSubrange(1, 2);
  const ModelInferRequest strings =
      LettersRequest({"a", "bc"}, {"", "def"}, {"hijk", ""});
  return {{reshaped, one_input.SerializeAsString()},
          {Letters(), strings.SerializeAsString()},
          {TextModel(), TextRequest(2, 3).SerializeAsString()},
          {TextModel(), outputs.SerializeAsString()},
          {PlainModel(DataType::kInt8), TypedRequest().SerializeAsString()}};
}

// One to four random edits: flipped bits, bytes with a meaning on the wire,
// cuts, repeats.
std::string Mutate(std::string bytes, std::mt19937& random) {
  const auto pick = [&](size_t n) {
    return std::uniform_int_distribution<size_t>(0, n - 1)(random);
  };
  constexpr unsigned char kTelling[] = {0x00, 0x01, 0x7F, 0x80,
                                        0xFF, 0x12, 0x32, 0x3A};
  for (size_t edits = 1 + pick(4); edits > 0 && !bytes.empty(); --edits) {
    const size_t at = pick(bytes.size());
    switch (pick(5)) {
      case 0:
        bytes[at] = static_cast<char>(bytes[at] ^ (1 << pick(8)));
        break;
      case 1:
        bytes[at] = static_cast<char>(kTelling[pick(sizeof(kTelling))]);
        break;
      case 2:
        bytes.erase(at, 1 + pick(8));
        break;
      case 3:
        bytes.insert(at, bytes.substr(at, 1 + pick(16)));
        break;
      default:
        bytes.insert(at,
                     std::string(9, '\xFF') + '\x01');  // the largest varint
    }
  }
  return bytes;
}

// The shapes alone, so that the message always parses.
void MutateShape(ModelInferRequest& request, std::mt19937& random) {
  constexpr int64_t kSizes[] = {0,
                                1,
                                2,
                                3,
                                8,
                                9,
                                -1,
                                INT64_MIN,
                                INT64_MAX,
                                int64_t{1} << 32,
                                int64_t{1} << 60,
                                int64_t{1} << 61};
  auto* shape =
      request
          .mutable_inputs(static_cast<int>(random() % request.inputs_size()))
          ->mutable_shape();
  if (!shape->empty())
    shape->Set(static_cast<int>(random() % shape->size()),
               kSizes[random() % 12]);
}

// What a decoded request promises.
void ExpectSound(const DecodedRequest& decoded, const ModelSpec& spec) {
  ASSERT_EQ(decoded.inputs.size(), spec.inputs.size());
  ASSERT_EQ(decoded.sizes.size(), spec.dimensions.size());
  for (size_t i = 0; i < decoded.inputs.size(); ++i) {
    const Tensor& tensor = decoded.inputs[i];
    EXPECT_EQ(tensor.dtype, spec.inputs[i].dtype);
    EXPECT_EQ(tensor.shape.size(), spec.inputs[i].dims.size());
    EXPECT_EQ(*ElementCount(tensor.shape) * DataTypeSize(tensor.dtype),
              tensor.byte_size);
    unsigned sum = 0;
    for (size_t b = 0; b < tensor.byte_size; ++b)
      sum += static_cast<unsigned>(tensor.data[b]);
    EXPECT_LE(sum, 255 * tensor.byte_size);
  }
  for (const int output : decoded.outputs) {
    EXPECT_LT(static_cast<size_t>(output), spec.outputs.size());
  }
}

class TensorCodecFuzz : public ::testing::TestWithParam<int> {};

TEST_P(TensorCodecFuzz, DecodesOrRefuses) {
  std::mt19937 random(GetParam());
  rusage before;
  getrusage(RUSAGE_SELF, &before);
  int parsed = 0;
  int decoded_ok = 0;
  for (const Corpus& seed : Seeds()) {
    for (int round = 0; round < kRoundsPerSeed / 3; ++round) {
      std::string bytes;
      if (round % 4 == 0) {
        ModelInferRequest request;
        request.ParseFromString(seed.bytes);
        MutateShape(request, random);
        bytes = request.SerializeAsString();
      } else {
        bytes = Mutate(seed.bytes, random);
      }
      const auto received = Received(bytes);
      if (received == nullptr) continue;
      ++parsed;
      const absl::StatusOr<DecodedRequest> decoded = DecodeRequest(
          received->view(), seed.spec, nullptr, received, AdmitAll);
      if (decoded.ok()) {
        ++decoded_ok;
        ExpectSound(*decoded, seed.spec);
      } else {
        EXPECT_LT(decoded.status().message().size(), 4096u);
      }
    }
  }
  // Both sides of the check were really visited.
  EXPECT_GT(parsed, kRoundsPerSeed / 10);
  EXPECT_GT(decoded_ok, 100);
  EXPECT_GT(parsed - decoded_ok, 1000);
  rusage after;
  getrusage(RUSAGE_SELF, &after);
  EXPECT_LT(after.ru_maxrss - before.ru_maxrss, 512 * 1024);  // KiB
}

INSTANTIATE_TEST_SUITE_P(Seeds, TensorCodecFuzz, ::testing::Values(1, 2, 3));

}  // namespace
}  // namespace stoker
