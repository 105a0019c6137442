#include "rpc/tensor_codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>

#include "tests/unit/rpc/codec_fixtures.h"

namespace stoker {
namespace {

using inference::ModelInferRequest;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

absl::StatusOr<DecodedRequest> Decode(const ModelInferRequest& request,
                                      const ModelSpec& spec = TextModel()) {
  const auto received = Received(request);
  return DecodeRequest(received->view(), spec, nullptr, received, AdmitAll);
}

// Of the first input.
void SetShape(ModelInferRequest& request,
              std::initializer_list<int64_t> shape) {
  auto& to = *request.mutable_inputs(0)->mutable_shape();
  to.Clear();
  to.Add(shape.begin(), shape.end());
}

TEST(DecodeRequest, RawInputsAreViewsInTheModelsOrder) {
  ModelInferRequest request = TextRequest(2, 5);
  request.mutable_inputs()->SwapElements(0, 2);
  request.mutable_raw_input_contents()->SwapElements(0, 2);
  const auto received = Received(request);
  const absl::StatusOr<DecodedRequest> decoded =
      DecodeRequest(received->view(), TextModel(), nullptr, received, AdmitAll);
  ASSERT_TRUE(decoded.ok()) << decoded.status();

  ASSERT_EQ(decoded->inputs.size(), 3u);
  EXPECT_EQ(decoded->inputs[0].dtype, DataType::kInt64);
  EXPECT_THAT(decoded->inputs[0].shape, ElementsAre(2, 5));
  EXPECT_THAT(Values<int64_t>(decoded->inputs[0]),
              ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9));
  EXPECT_THAT(decoded->inputs[2].shape, ElementsAre(2, 10, 3));
  EXPECT_EQ(decoded->inputs[0].data,
            received->view().raw_input_contents[2].data);
  EXPECT_EQ(decoded->inputs[0].owner, received);
  EXPECT_THAT(decoded->sizes, ElementsAre(2, 5));
  EXPECT_EQ(decoded->rows, 2);
  EXPECT_EQ(decoded->timeout, absl::InfiniteDuration());
}

TEST(DecodeRequest, AllOutputsInTheModelsOrderUnlessAsked) {
  ModelInferRequest request = TextRequest(1, 1);
  EXPECT_THAT(Decode(request)->outputs, ElementsAre(0, 1));
  request.add_outputs()->set_name("length");
  EXPECT_THAT(Decode(request)->outputs, ElementsAre(1));
  request.add_outputs()->set_name("embedding");
  EXPECT_THAT(Decode(request)->outputs, ElementsAre(1, 0));
}

TEST(DecodeRequest, ClassesOfTheOutputsThatWantThem) {
  ModelInferRequest request = TextRequest(1, 1);
  request.add_outputs()->set_name("length");
  EXPECT_TRUE(Decode(request)->classes.empty());
  auto* output = request.add_outputs();
  output->set_name("embedding");
  (*output->mutable_parameters())["classification"].set_int64_param(3);
  EXPECT_THAT(Decode(request)->classes, ElementsAre(0, 3));
  (*output->mutable_parameters())["classification"].set_int64_param(0);
  EXPECT_TRUE(Decode(request)->classes.empty());
}

TEST(DecodeRequest, ModelWithoutInputsTakesNone) {
  ModelSpec spec;
  spec.name = "constant";
  spec.outputs = {{"y", DataType::kFp32, {}}};
  const absl::StatusOr<DecodedRequest> decoded =
      Decode(ModelInferRequest(), spec);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->rows, 1);
}

TEST(DecodeRequest, EmptyTensors) {
  ModelInferRequest request;
  AddInput(request, "x", "FP32", {2, 0});
  request.add_raw_input_contents("");
  absl::StatusOr<DecodedRequest> raw =
      Decode(request, PlainModel(DataType::kFp32));
  ASSERT_TRUE(raw.ok()) << raw.status();
  EXPECT_EQ(raw->inputs[0].byte_size, 0u);
  EXPECT_THAT(raw->sizes, ElementsAre(0));

  request.clear_raw_input_contents();
  EXPECT_FALSE(Decode(request, PlainModel(DataType::kFp32)).ok());
  request.mutable_inputs(0)->mutable_contents();
  EXPECT_TRUE(Decode(request, PlainModel(DataType::kFp32)).ok());
}

TEST(DecodeRequest, TimeoutAndPriorityReachTheQueue) {
  ModelInferRequest request = TextRequest(1, 1);
  (*request.mutable_parameters())["timeout"].set_int64_param(1500);
  (*request.mutable_parameters())["priority"].set_uint64_param(2);
  EXPECT_EQ(Decode(request)->timeout, absl::Microseconds(1500));
  EXPECT_EQ(Decode(request)->priority, 2u);
}

// The answer's size, and that of tensors that must be joined, are known before
// anything is copied.
TEST(DecodeRequest, AsksBeforeItCopies) {
  const std::string bytes = TextRequest(2, 3).SerializeAsString();
  const std::vector<std::string> pieces = {bytes.substr(0, 110),
                                           bytes.substr(110)};
  const auto received = Received(InSlices(pieces));
  size_t asked = 0;
  absl::StatusOr<DecodedRequest> decoded = DecodeRequest(
      received->view(), TextModel(), nullptr, received, [&](size_t wanted) {
        asked += wanted;
        return absl::OkStatus();
      });
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  // The answer, and ids, which the cut is in.
  EXPECT_EQ(asked, 2 * 4 * 4u + 2 * 8u + 48);
  EXPECT_NE(decoded->inputs[0].owner, received);
  EXPECT_EQ(decoded->inputs[1].owner, received);

  decoded =
      DecodeRequest(received->view(), TextModel(), nullptr, received,
                    [](size_t) { return absl::ResourceExhaustedError("no"); });
  EXPECT_EQ(decoded.status(), absl::ResourceExhaustedError("no"));
}

struct Fault {
  std::string name;
  std::function<void(ModelInferRequest&)> change;  // of TextRequest(2, 4)
  std::string message;
  absl::StatusCode code = absl::StatusCode::kInvalidArgument;
};

void PrintTo(const Fault& fault, std::ostream* out) { *out << fault.name; }

class DecodeFault : public ::testing::TestWithParam<Fault> {};

TEST_P(DecodeFault, IsRefused) {
  ModelInferRequest request = TextRequest(2, 4);
  ASSERT_TRUE(Decode(request).ok());
  GetParam().change(request);
  const absl::Status status = Decode(request).status();
  EXPECT_EQ(status.code(), GetParam().code);
  EXPECT_THAT(std::string(status.message()), HasSubstr(GetParam().message));
  EXPECT_LT(status.message().size(), 2048u);
}

void SetShape(ModelInferRequest& request, int input,
              const std::vector<int64_t>& shape) {
  request.mutable_inputs(input)->mutable_shape()->Assign(shape.begin(),
                                                         shape.end());
}

const std::vector<Fault>& Faults() {
  static const auto* const faults = new std::vector<Fault>{
      {"UnexpectedInput",
       [](auto& r) { r.mutable_inputs(1)->set_name("musk"); },
       "unexpected inference input 'musk' for model 'text'"},
      {"DuplicateInput", [](auto& r) { r.mutable_inputs(1)->set_name("ids"); },
       "input 'ids' already exists in request for model 'text'"},
      {"MissingInput",
       [](auto& r) {
         r.mutable_inputs()->RemoveLast();
         r.mutable_raw_input_contents()->RemoveLast();
       },
       "expected 3 inputs but got 2 inputs for model 'text'. Got input(s) "
       "['ids','mask'], but "
       "missing required input(s) ['scale']"},
      {"ExtraInput", [](auto& r) { AddInput(r, "more", "FP32", {1}); },
       "expected 3 inputs but got 4 inputs for model 'text'"},
      {"ManyInputs",
       [](auto& r) {
         for (int i = 0; i < 100000; ++i) AddInput(r, "more", "FP32", {1});
       },
       "expected 3 inputs but got 100003 inputs for model 'text'"},
      {"LongName",
       [](auto& r) {
         r.mutable_inputs(1)->set_name(std::string(1 << 20, 'n'));
       },
       "unexpected inference input 'nnnn"},
      {"WrongDataType",
       [](auto& r) { r.mutable_inputs(0)->set_datatype("INT32"); },
       "inference input 'ids' data-type is 'INT32', but model 'text' expects "
       "'INT64'"},
      {"NoDataType", [](auto& r) { r.mutable_inputs(0)->clear_datatype(); },
       "inference input 'ids' data-type is '', but model 'text' expects "
       "'INT64'"},
      {"Bytes", [](auto& r) { r.mutable_inputs(0)->set_datatype("BYTES"); },
       "inference input 'ids' data-type is 'BYTES', but model 'text' expects "
       "'INT64'"},
      {"NoBatchDimension", [](auto& r) { SetShape(r, 0, {8}); },
       "unexpected shape for input 'ids' for model 'text'. Expected [-1,-1], "
       "got [8]: the first "
       "dimension must be the batch"},
      {"RankTooHigh",
       [](auto& r) {
         SetShape(r, 0, {2, 2, 2});
       },
       "unexpected shape for input 'ids' for model 'text'. Expected [-1,-1], "
       "got [2,2,2]"},
      {"AbsurdRank",
       [](auto& r) { SetShape(r, 0, std::vector<int64_t>(100000, 1)); },
       "unexpected shape for input 'ids' for model 'text'. Expected [-1,-1], "
       "got [1,1,"},
      {"WrongConstant",
       [](auto& r) {
         SetShape(r, 2, {2, 8, 4});
       },
       "unexpected shape for input 'scale' for model 'text'. Expected "
       "[-1,-1,3], got [2,8,4]: "
       "axis 2 must be 3 here"},
      {"WrongExpression",
       [](auto& r) {
         SetShape(r, 2, {2, 9, 3});
       },
       "unexpected shape for input 'scale' for model 'text'. Expected "
       "[-1,-1,3], got [2,9,3]: "
       "axis 1 must be 8 here"},
      {"DimensionsDisagree",
       [](auto& r) {
         SetShape(r, 1, {2, 5});
       },
       "unexpected shape for input 'mask' for model 'text'. Expected [-1,-1], "
       "got [2,5]: "
       "dimension 'tokens' is 4 in input 'ids'"},
      {"BatchesDisagree",
       [](auto& r) {
         SetShape(r, 1, {1, 4});
       },
       "input 'mask' batch size does not match other inputs for 'text'"},
      {"OpenDimension",
       [](auto& r) {
         SetShape(r, 0, {-1, 4});
       },
       "All input dimensions should be specified for input 'ids' for model "
       "'text', got [-1,4]"},
      {"MostNegative",
       [](auto& r) {
         SetShape(r, 0, {INT64_MIN, 4});
       },
       "All input dimensions should be specified for input 'ids'"},
      {"TooFewBytes",
       [](auto& r) { r.mutable_raw_input_contents(0)->pop_back(); },
       "input byte size mismatch for input 'ids' for model 'text'. Expected "
       "64, got 63"},
      {"TooManyBytes",
       [](auto& r) { r.mutable_raw_input_contents(2)->push_back('x'); },
       "input byte size mismatch for input 'scale' for model 'text'. Expected "
       "192, got 193"},
      {"TooFewRaw",
       [](auto& r) { r.mutable_raw_input_contents()->RemoveLast(); },
       "unable to find data for input tensor 'scale' for model 'text' in "
       "request."},
      {"NoData", [](auto& r) { r.clear_raw_input_contents(); },
       "unable to find data for input tensor 'ids' for model 'text' in "
       "request."},
      {"SurplusRaw", [](auto& r) { r.add_raw_input_contents("12345678"); },
       "unexpected raw_input_contents for model 'text'. Expected 3 entries, "
       "got 4"},
      {"RawAndTyped",
       [](auto& r) {
         r.mutable_inputs(1)->mutable_contents()->add_int64_contents(1);
       },
       "contents field must not be specified when using raw_input_contents for "
       "'mask' for model "
       "'text'"},
      {"BatchTooLarge", [](auto& r) { r = TextRequest(9, 4); },
       "inference request batch-size must be <= 8 for 'text'"},
      {"UnknownOutput", [](auto& r) { r.add_outputs()->set_name("logits"); },
       "unexpected inference output 'logits' for model 'text'"},
      {"DuplicateOutput",
       [](auto& r) {
         r.add_outputs()->set_name("length");
         r.add_outputs()->set_name("length");
       },
       "output 'length' is requested more than once for model 'text'"},
      {"ReservedParameter",
       [](auto& r) {
         (*r.mutable_parameters())["triton_x"].set_bool_param(true);
       },
       "parameter keys starting with 'triton_' are reserved"},
      {"InputInSharedMemory",
       [](auto& r) {
         auto& given = *r.mutable_inputs(0)->mutable_parameters();
         given["shared_memory_region"].set_string_param("a");
         given["shared_memory_byte_size"].set_int64_param(64);
       },
       "input 'ids': shared memory of clients is not allowed",
       absl::StatusCode::kUnimplemented},
      {"OutputInSharedMemory",
       [](auto& r) {
         auto* output = r.add_outputs();
         output->set_name("length");
         (*output->mutable_parameters())["shared_memory_byte_size"]
             .set_int64_param(8);
       },
       "'shared_memory_byte_size' can not be specified without "
       "'shared_memory_region' parameter for output 'length'"},
      {"Classification",
       [](auto& r) {
         auto* output = r.add_outputs();
         output->set_name("length");
         (*output->mutable_parameters())["classification"].set_string_param(
             "3");
       },
       "invalid value type for 'classification' parameter for output "
       "'length'"},
      {"NegativeClassification",
       [](auto& r) {
         auto* output = r.add_outputs();
         output->set_name("length");
         (*output->mutable_parameters())["classification"].set_int64_param(-1);
       },
       "invalid value for 'classification' parameter for output 'length', "
       "expected 0 or more, got -1"},
      {"Sequence",
       [](auto& r) {
         (*r.mutable_parameters())["sequence_id"].set_bool_param(true);
       },
       "invalid value type for 'sequence_id' parameter"},
  };
  return *faults;
}

INSTANTIATE_TEST_SUITE_P(All, DecodeFault, ::testing::ValuesIn(Faults()),
                         [](const auto& fault) { return fault.param.name; });

// What a shape claims is compared with what arrived before anything is
// allocated.
TEST(DecodeRequest, ClaimedSizesAllocateNothing) {
  const ModelSpec spec = PlainModel(DataType::kInt8);
  for (const int64_t n :
       {int64_t{1} << 40, int64_t{1} << 61, int64_t{1} << 62, INT64_MAX}) {
    ModelInferRequest request;
    AddInput(request, "x", "INT8", {2, n})
        ->mutable_contents()
        ->add_int_contents(1);
    EXPECT_EQ(Decode(request, spec).status().code(),
              absl::StatusCode::kInvalidArgument)
        << n;
    request.mutable_inputs(0)->clear_contents();
    request.add_raw_input_contents("ab");
    EXPECT_EQ(Decode(request, spec).status().code(),
              absl::StatusCode::kInvalidArgument)
        << n;
  }
  // 2 * n wraps round to 0 bytes.
  ModelInferRequest request;
  AddInput(request, "x", "INT64", {2, int64_t{1} << 60});
  request.add_raw_input_contents("");
  const absl::Status status =
      Decode(request, PlainModel(DataType::kInt64)).status();
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("more elements than memory can hold"));
}

TEST(DecodeRequest, ClientsShapesBecomeTheProgramsWithoutACopy) {
  ModelSpec spec = TextModel();
  spec.inputs[0].reshape = {{-1, 1, -1}, {-1, -1}};
  ModelInferRequest request = TextRequest(2, 5);
  SetShape(request, {2, 1, 5});
  const auto received = Received(request);
  const absl::StatusOr<DecodedRequest> decoded =
      DecodeRequest(received->view(), spec, nullptr, received, AdmitAll);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_THAT(decoded->inputs[0].shape, ElementsAre(2, 5));
  EXPECT_EQ(decoded->inputs[0].data,
            received->view().raw_input_contents[0].data);
  EXPECT_THAT(decoded->inputs[1].shape, ElementsAre(2, 5));
  EXPECT_THAT(decoded->sizes, ElementsAre(2, 5));

  const auto message = [&](std::initializer_list<int64_t> shape) {
    SetShape(request, shape);
    return std::string(Decode(request, spec).status().message());
  };
  EXPECT_THAT(message({2, 5}),
              HasSubstr("unexpected shape for input 'ids' for model 'text'. "
                        "Expected [-1,1,-1], reshaped to [-1,-1] for the "
                        "program, got [2,5]: the first dimension must be the "
                        "batch"));
  EXPECT_THAT(message({2, 5, 1}), HasSubstr("sizes other than -1 are fixed"));
  EXPECT_THAT(message({2, 1, 5, 1}), HasSubstr("expected 3 dimensions, got 4"));
  EXPECT_THAT(message({3, 1, 5}), HasSubstr("batch size does not match"));
  EXPECT_THAT(message({2, 1, 4}), HasSubstr("dimension 'tokens' is 4"));
  EXPECT_THAT(message({2, 1, -1}), HasSubstr("should be specified"));
}

TEST(DecodeRequest, WhatIsLeftOutIsFilled) {
  ModelSpec spec = TextModel();
  spec.inputs[1].default_value = 1;
  spec.inputs[2].default_value = -0.5;
  ModelInferRequest request = TextRequest(2, 3);
  ASSERT_TRUE(Decode(request, spec).ok());
  request.mutable_inputs()->DeleteSubrange(1, 2);
  request.mutable_raw_input_contents()->DeleteSubrange(1, 2);
  const auto received = Received(request);
  size_t asked = 0;
  const absl::StatusOr<DecodedRequest> decoded = DecodeRequest(
      received->view(), spec, nullptr, received, [&](size_t wanted) {
        asked += wanted;
        return absl::OkStatus();
      });
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->inputs[0].owner, received);
  EXPECT_THAT(decoded->inputs[1].shape, ElementsAre(2, 3));
  EXPECT_THAT(Values<int64_t>(decoded->inputs[1]),
              ElementsAre(1, 1, 1, 1, 1, 1));
  EXPECT_THAT(decoded->inputs[2].shape, ElementsAre(2, 6, 3));
  EXPECT_THAT(Values<float>(decoded->inputs[2]), ::testing::Each(-0.5f));
  EXPECT_EQ(Values<float>(decoded->inputs[2]).size(), 36u);
  // The answer and both inputs.
  EXPECT_EQ(asked, 2 * 4 * 4u + 2 * 8u + 6 * 8u + 36 * 4u);
}

TEST(DecodeRequest, WhatIsRequiredIsMissed) {
  ModelSpec spec = TextModel();
  spec.inputs[1].default_value = 1;
  ModelInferRequest request = TextRequest(1, 1);
  request.mutable_inputs()->DeleteSubrange(0, 1);
  request.mutable_raw_input_contents()->DeleteSubrange(0, 1);
  EXPECT_EQ(Decode(request, spec).status().message(),
            "expected number of inputs between 2 and 3 but got 2 inputs for "
            "model 'text'. Got input(s) ['mask','scale'], but missing required "
            "input(s) ['ids']");
  request.clear_inputs();
  EXPECT_THAT(std::string(Decode(request, spec).status().message()),
              HasSubstr("between 2 and 3 but got 0 inputs for model 'text'. "
                        "Got input(s) [], but missing required input(s) "
                        "['ids','scale']"));
}

// No more than the server can do without: what a shape claims hasn't arrived.
TEST(DecodeRequest, LeftOutInputsAreNoWayToMuchMemory) {
  ModelSpec spec = PlainModel(DataType::kInt8);
  spec.inputs.push_back({"z",
                         DataType::kInt64,
                         {DimExpr::Dimension(0), DimExpr::Dimension(0)},
                         0,
                         {}});
  spec.inputs[1].default_value = 0;
  for (const int64_t n : {int64_t{1} << 31, int64_t{1} << 61, INT64_MAX}) {
    ModelInferRequest request;
    AddInput(request, "x", "INT8", {2, n});
    request.add_raw_input_contents("ab");
    EXPECT_EQ(Decode(request, spec).status().code(),
              absl::StatusCode::kInvalidArgument)
        << n;
  }
}

TEST(DecodeRequest, ZeroHidesNoOverflow) {
  ModelSpec spec;
  spec.name = "three";
  spec.dimensions = {{"a", "s0", 0, INT64_MAX},
                     {"b", "s1", 0, INT64_MAX},
                     {"c", "s2", 0, INT64_MAX}};
  spec.inputs = {
      {"x",
       DataType::kFp32,
       {DimExpr::Dimension(0), DimExpr::Dimension(1), DimExpr::Dimension(2)},
       0,
       {}}};
  ModelInferRequest request;
  AddInput(request, "x", "FP32", {INT64_MAX, INT64_MAX, 0});
  request.add_raw_input_contents("");
  // Either answer is safe; a crash or an allocation is not.
  const absl::StatusOr<DecodedRequest> decoded = Decode(request, spec);
  if (decoded.ok()) {
    EXPECT_EQ(decoded->inputs[0].byte_size, 0u);
  }
}

}  // namespace
}  // namespace stoker
