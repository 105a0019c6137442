#include "loadtest/generator/messages.h"

#include <grpcpp/grpcpp.h>
#include <grpcpp/impl/codegen/proto_utils.h>

#include <cstring>
#include <fstream>
#include <set>

#include "base/files.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "loadtest/generator/input_values.h"
#include "tests/fakes/temp_folder.h"

namespace stoker::loadtest {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

void AddInput(const std::string& name, const std::string& datatype,
              const std::vector<int64_t>& shape,
              inference::ModelMetadataResponse* model) {
  auto* input = model->add_inputs();
  input->set_name(name);
  input->set_datatype(datatype);
  for (const int64_t size : shape) input->add_shape(size);
}

inference::ModelMetadataResponse TokensModel() {
  inference::ModelMetadataResponse model;
  model.set_name("tokens");
  AddInput("ids", "INT64", {-1, -1}, &model);
  AddInput("mask", "INT64", {-1, -1}, &model);
  return model;
}

Scenario TokensScenario() {
  Scenario scenario{.model = "tokens", .messages = 5};
  scenario.dimensions = {{"tokens", {"ids.1", "mask.1"}, UniformSizes{3, 9}}};
  scenario.ranges = {{"ids", {0, 99}}, {"mask", {1, 1}}};
  scenario.parameters = {{"priority", int64_t{2}}, {"fast", true}};
  return scenario;
}

inference::ModelInferRequest Parse(const grpc::ByteBuffer& buffer) {
  grpc::ByteBuffer copy = buffer;
  inference::ModelInferRequest request;
  EXPECT_TRUE(
      grpc::SerializationTraits<inference::ModelInferRequest>::Deserialize(
          &copy, &request)
          .ok());
  return request;
}

std::string Bytes(const grpc::ByteBuffer& buffer) {
  grpc::Slice slice;
  EXPECT_TRUE(buffer.DumpToSingleSlice(&slice).ok());
  return {reinterpret_cast<const char*>(slice.begin()), slice.size()};
}

std::vector<int64_t> Int64s(const std::string& bytes) {
  std::vector<int64_t> values(bytes.size() / sizeof(int64_t));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

TEST(MessagesTest, FillsShapesAndValuesAsTheScenarioSays) {
  const Scenario scenario = TokensScenario();
  const auto messages = MakeMessages(scenario, TokensModel());
  ASSERT_TRUE(messages.ok()) << messages.status();
  ASSERT_EQ(messages->buffers.size(), 5);
  EXPECT_THAT(messages->order, ElementsAre(0, 1, 2, 3, 4));
  for (size_t i = 0; i < 5; ++i) {
    const auto request = Parse(messages->buffers[i]);
    EXPECT_EQ(request.model_name(), "tokens");
    EXPECT_EQ(request.parameters().at("priority").int64_param(), 2);
    EXPECT_TRUE(request.parameters().at("fast").bool_param());
    ASSERT_EQ(request.inputs_size(), 2);
    const int64_t tokens = messages->sizes[i][0];
    EXPECT_GE(tokens, 3);
    EXPECT_LE(tokens, 9);
    for (const auto& input : request.inputs()) {
      EXPECT_EQ(input.datatype(), "INT64");
      EXPECT_THAT(input.shape(), ElementsAre(1, tokens));
    }
    const auto ids = Int64s(request.raw_input_contents(0));
    EXPECT_EQ(ids.size(), tokens);
    for (const int64_t id : ids) {
      EXPECT_GE(id, 0);
      EXPECT_LE(id, 99);
    }
    for (const int64_t mask : Int64s(request.raw_input_contents(1)))
      EXPECT_EQ(mask, 1);
  }
}

TEST(MessagesTest, SharedMemoryHoldsWhatTheMessagesWould) {
  Scenario scenario = TokensScenario();
  const auto plain = MakeMessages(scenario, TokensModel());
  scenario.shared_memory = true;
  std::string key;
  {
    const auto shared = MakeMessages(scenario, TokensModel());
    ASSERT_TRUE(shared.ok()) << shared.status();
    key = shared->shared->key();
    const auto file = Files::Real().Read("/dev/shm" + key);
    ASSERT_TRUE(file.ok()) << file.status();
    EXPECT_EQ(file->size(), shared->shared->size());
    ASSERT_EQ(shared->buffers.size(), plain->buffers.size());
    for (size_t i = 0; i < plain->buffers.size(); ++i) {
      const auto there = Parse(plain->buffers[i]);
      const auto here = Parse(shared->buffers[i]);
      EXPECT_EQ(here.raw_input_contents_size(), 0);
      ASSERT_EQ(here.inputs_size(), 2);
      for (int input = 0; input < 2; ++input) {
        const auto& at = here.inputs(input).parameters();
        EXPECT_EQ(at.at("shared_memory_region").string_param(),
                  SharedInputs::kRegion);
        EXPECT_EQ(file->substr(at.at("shared_memory_offset").int64_param(),
                               at.at("shared_memory_byte_size").int64_param()),
                  there.raw_input_contents(input));
      }
    }
  }
  EXPECT_FALSE(Files::Real().Read("/dev/shm" + key).ok());
}

TEST(MessagesTest, OneSeedIsOneSetOfRequests) {
  Scenario scenario = TokensScenario();
  const auto first = MakeMessages(scenario, TokensModel());
  const auto second = MakeMessages(scenario, TokensModel());
  scenario.seed = 2;
  const auto other = MakeMessages(scenario, TokensModel());
  for (size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(Bytes(first->buffers[i]), Bytes(second->buffers[i]));
  }
  EXPECT_NE(first->sizes, other->sizes);
}

TEST(MessagesTest, ATraceGivesOrderSizesAndArrivals) {
  const TempFolder folder;
  std::ofstream(folder.path() + "/t.csv")
      << "tokens,offset_ms\n4,0\n6,1\n4,2\n";
  Scenario scenario = TokensScenario();
  scenario.trace = TraceFile{folder.path() + "/t.csv"};
  const auto messages = MakeMessages(scenario, TokensModel());
  ASSERT_TRUE(messages.ok()) << messages.status();
  EXPECT_EQ(messages->buffers.size(), 2);
  EXPECT_THAT(messages->order, ElementsAre(0, 1, 0));
  EXPECT_THAT(messages->offsets_ns, ElementsAre(0, 1'000'000, 2'000'000));
}

TEST(MessagesTest, SaysWhatDoesNotFitTheModel) {
  const auto refused = [](auto change, const char* text) {
    Scenario scenario = TokensScenario();
    inference::ModelMetadataResponse model = TokensModel();
    change(scenario, model);
    const auto messages = MakeMessages(scenario, model);
    EXPECT_EQ(messages.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(messages.status().message()), HasSubstr(text));
  };
  refused([](Scenario& s, auto&) { s.dimensions.clear(); },
          "got none for ids.1");
  refused(
      [](Scenario& s, auto&) { s.dimensions[0].axes.emplace_back("ids.7"); },
      "got ids.7");
  refused([](Scenario& s, auto&) { s.ranges["idz"] = {}; }, "got idz");
  refused(
      [](Scenario& s, auto&) {
        s.ranges["ids"] = {0.2, 0.8};
      },
      "input ids: expected a range that holds an integer");
  refused(
      [](Scenario& s, auto&) { s.dimensions[0].sizes = FixedSize{1 << 30}; },
      "lower `messages`, or the sizes");
  refused([](auto&, auto& m) { m.mutable_inputs(0)->set_datatype("FP7"); },
          "got FP7");
}

TEST(InputValuesTest, HoldsEveryDatatypesRange) {
  Random random(1);
  for (const DataType dtype :
       {DataType::kBool, DataType::kUint8, DataType::kUint16, DataType::kUint32,
        DataType::kUint64, DataType::kInt8, DataType::kInt16, DataType::kInt32,
        DataType::kInt64, DataType::kFp16, DataType::kFp32, DataType::kFp64,
        DataType::kBf16}) {
    EXPECT_EQ(RawValues(dtype, 7, std::nullopt, random).size(),
              7 * DataTypeSize(dtype));
  }
  const std::string bytes =
      RawValues(DataType::kBytes, 3, std::nullopt, random);
  EXPECT_EQ(bytes.size(), 3 * (4 + 16));
}

TEST(InputValuesTest, ReachesBothEndsOfNegativeRanges) {
  Random random(1);
  const std::string bytes =
      RawValues(DataType::kInt8, 1000, ValueRange{-2, 1}, random);
  std::set<int> seen;
  for (const char byte : bytes) seen.insert(static_cast<signed char>(byte));
  EXPECT_THAT(seen, ElementsAre(-2, -1, 0, 1));
}

TEST(InputValuesTest, HalfFloatsAreRoundedTowardsZero) {
  Random random(1);
  const auto half = [&](double value) {
    const std::string bytes =
        RawValues(DataType::kFp16, 1, ValueRange{value, value}, random);
    uint16_t bits = 0;
    std::memcpy(&bits, bytes.data(), 2);
    return bits;
  };
  EXPECT_EQ(half(0), 0x0000);
  EXPECT_EQ(half(1), 0x3c00);
  EXPECT_EQ(half(-2.5), 0xc100);
  EXPECT_EQ(half(65504), 0x7bff);
  EXPECT_EQ(half(5.960464477539063e-08), 0x0001);  // the least subnormal
}

TEST(InputValuesTest, RefusesRangesThatTheDatatypeLacks) {
  EXPECT_TRUE(CheckRange(DataType::kInt8, {-128, 127}).ok());
  EXPECT_FALSE(CheckRange(DataType::kInt8, {-129, 0}).ok());
  EXPECT_FALSE(CheckRange(DataType::kUint32, {-1, 0}).ok());
  EXPECT_FALSE(CheckRange(DataType::kFp16, {0, 70000}).ok());
  EXPECT_FALSE(CheckRange(DataType::kBool, {0, 1}).ok());
  EXPECT_FALSE(CheckRange(DataType::kBytes, {0, 1}).ok());
}

}  // namespace
}  // namespace stoker::loadtest
