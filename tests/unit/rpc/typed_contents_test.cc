#include "rpc/typed_contents.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "tests/unit/rpc/codec_fixtures.h"

namespace stoker {
namespace {

using inference::InferTensorContents;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TensorForm Form(DataType dtype, Shape shape) {
  return {"x", "m", dtype, std::move(shape)};
}

// Elements given typed must read back like the same elements given raw.
template <typename T, typename Add>
void ExpectTyped(DataType dtype, const std::vector<T>& values, Add add) {
  InferTensorContents contents;
  for (const T value : values) add(contents, value);
  const Shape shape = {static_cast<int64_t>(values.size()), 1};
  const absl::StatusOr<Tensor> tensor =
      TensorFromContents(Form(dtype, shape), contents, nullptr);
  ASSERT_TRUE(tensor.ok()) << tensor.status();
  EXPECT_EQ(tensor->dtype, dtype);
  EXPECT_EQ(tensor->shape, shape);
  EXPECT_EQ(Values<T>(*tensor), values);
}

TEST(TensorFromContents, EveryTypeThatHasAField) {
  ExpectTyped<uint8_t>(DataType::kBool, {1, 0, 1},
                       [](auto& c, uint8_t v) { c.add_bool_contents(v != 0); });
  ExpectTyped<int8_t>(DataType::kInt8, {-128, 0, 127},
                      [](auto& c, auto v) { c.add_int_contents(v); });
  ExpectTyped<int16_t>(DataType::kInt16, {-32768, 0, 32767},
                       [](auto& c, auto v) { c.add_int_contents(v); });
  ExpectTyped<int32_t>(DataType::kInt32, {INT32_MIN, 0, INT32_MAX},
                       [](auto& c, auto v) { c.add_int_contents(v); });
  ExpectTyped<int64_t>(DataType::kInt64, {INT64_MIN, 0, INT64_MAX},
                       [](auto& c, auto v) { c.add_int64_contents(v); });
  ExpectTyped<uint8_t>(DataType::kUint8, {0, 255},
                       [](auto& c, auto v) { c.add_uint_contents(v); });
  ExpectTyped<uint16_t>(DataType::kUint16, {0, 65535},
                        [](auto& c, auto v) { c.add_uint_contents(v); });
  ExpectTyped<uint32_t>(DataType::kUint32, {0, UINT32_MAX},
                        [](auto& c, auto v) { c.add_uint_contents(v); });
  ExpectTyped<uint64_t>(DataType::kUint64, {0, UINT64_MAX},
                        [](auto& c, auto v) { c.add_uint64_contents(v); });
  ExpectTyped<float>(DataType::kFp32, {-1.5f, 3e38f},
                     [](auto& c, auto v) { c.add_fp32_contents(v); });
  ExpectTyped<double>(DataType::kFp64, {-1.5, 1e308},
                      [](auto& c, auto v) { c.add_fp64_contents(v); });
}

TEST(TensorFromContents, SameWidthIsNotCopied) {
  InferTensorContents contents;
  contents.add_int64_contents(5);
  auto owner = std::make_shared<int>(0);
  const absl::StatusOr<Tensor> tensor =
      TensorFromContents(Form(DataType::kInt64, {1}), contents, owner);
  ASSERT_TRUE(tensor.ok());
  EXPECT_EQ(static_cast<const void*>(tensor->data),
            contents.int64_contents().data());
  EXPECT_EQ(tensor->owner, owner);
}

TEST(TensorFromContents, HalfPrecisionIsRawOnly) {
  for (const DataType dtype : {DataType::kFp16, DataType::kBf16}) {
    InferTensorContents contents;
    contents.add_fp32_contents(1);
    const absl::Status status =
        TensorFromContents(Form(dtype, {1}), contents, nullptr).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("raw_input_contents only"));
  }
}

TEST(TensorFromContents, ValuesOutOfRange) {
  struct Case {
    DataType dtype;
    int64_t value;
  };
  for (const auto& [dtype, value] :
       {Case{DataType::kInt8, 128}, Case{DataType::kInt8, -129},
        Case{DataType::kInt16, 32768}, Case{DataType::kInt16, -32769},
        Case{DataType::kUint8, 256}, Case{DataType::kUint16, 65536}}) {
    InferTensorContents contents;
    const bool is_signed =
        dtype == DataType::kInt8 || dtype == DataType::kInt16;
    if (is_signed) {
      contents.add_int_contents(0);
      contents.add_int_contents(static_cast<int32_t>(value));
    } else {
      contents.add_uint_contents(0);
      contents.add_uint_contents(static_cast<uint32_t>(value));
    }
    const absl::Status status =
        TensorFromContents(Form(dtype, {2}), contents, nullptr).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("element 1 is " + std::to_string(value)));
  }
}

TEST(TensorFromContents, WrongField) {
  InferTensorContents contents;
  contents.add_fp32_contents(1);
  const absl::Status status =
      TensorFromContents(Form(DataType::kInt64, {1}), contents, nullptr)
          .status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(
      std::string(status.message()),
      HasSubstr(
          "expected INT64 elements in int64_contents, got 1 in fp32_contents"));
}

TEST(TensorFromContents, WrongCount) {
  for (const DataType dtype : {DataType::kInt8, DataType::kInt32}) {
    InferTensorContents contents;
    contents.add_int_contents(1);
    const absl::Status status =
        TensorFromContents(Form(dtype, {2}), contents, nullptr).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("input byte size mismatch"));
  }
}

RawContents Raw(std::string_view bytes) {
  return {.size = bytes.size(),
          .data = reinterpret_cast<const std::byte*>(bytes.data())};
}

TEST(TensorFromRaw, BytesInOnePieceAreNotCopied) {
  const std::string bytes = "x" + Bytes(std::vector<int64_t>{7, -9});
  const std::string_view misaligned = std::string_view(bytes).substr(1);
  auto owner = std::make_shared<int>(0);
  const absl::StatusOr<Tensor> tensor =
      TensorFromRaw(Form(DataType::kInt64, {2}), Raw(misaligned), owner);
  ASSERT_TRUE(tensor.ok());
  EXPECT_EQ(static_cast<const void*>(tensor->data), misaligned.data());
  EXPECT_EQ(tensor->owner, owner);
  EXPECT_THAT(Values<int64_t>(*tensor), ElementsAre(7, -9));
}

TEST(TensorFromRaw, ScatteredBytesAreJoinedInAlignedMemory) {
  const std::string text = "x" + Bytes(std::vector<int64_t>{7, -9}) + "y";
  for (size_t cut = 2; cut < 17; ++cut) {
    const std::vector<std::string> pieces = {text.substr(0, cut),
                                             text.substr(cut)};
    const MessageBytes bytes(InSlices(pieces));
    auto owner = std::make_shared<int>(0);
    const absl::StatusOr<Tensor> tensor =
        TensorFromRaw(Form(DataType::kInt64, {2}),
                      {.size = 16, .scattered = &bytes, .offset = 1}, owner);
    ASSERT_TRUE(tensor.ok());
    EXPECT_EQ(reinterpret_cast<uintptr_t>(tensor->data) % 64, 0u);
    EXPECT_NE(tensor->owner, owner);
    EXPECT_THAT(Values<int64_t>(*tensor), ElementsAre(7, -9));
  }
}

TEST(TensorFromRaw, BoolIsZeroOrOne) {
  const TensorForm form = Form(DataType::kBool, {3});
  EXPECT_TRUE(TensorFromRaw(form, Raw({"\1\0\1", 3}), nullptr).ok());
  for (const char wrong : {'\2', '\x7F', '\xFF'}) {
    const std::string bytes = {1, 0, wrong};
    const absl::Status status =
        TensorFromRaw(form, Raw(bytes), nullptr).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr("BOOL element 2 is"));
  }
}

TEST(TensorFromRaw, ScalarsHaveOneElement) {
  const std::string bytes = Bytes(std::vector<float>{2.5f});
  const absl::StatusOr<Tensor> tensor =
      TensorFromRaw(Form(DataType::kFp32, {}), Raw(bytes), nullptr);
  ASSERT_TRUE(tensor.ok());
  EXPECT_THAT(Values<float>(*tensor), ElementsAre(2.5f));
}

}  // namespace
}  // namespace stoker
