#include "rpc/request_parameters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

namespace stoker {
namespace {

using inference::InferParameter;
using ::testing::HasSubstr;

absl::StatusOr<RequestParameters> Parse(
    const std::string& name, const std::function<void(InferParameter&)>& set) {
  ParameterMap parameters;
  set(parameters[name]);
  return ParseRequestParameters(parameters);
}

TEST(RequestParameters, Timeout) {
  const auto micros = [](int64_t value) {
    return Parse("timeout", [&](auto& p) { p.set_int64_param(value); });
  };
  EXPECT_EQ(micros(250)->timeout, absl::Microseconds(250));
  EXPECT_EQ(micros(0)->timeout, absl::InfiniteDuration());
  EXPECT_EQ(micros(-1).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Parse("timeout", [](auto& p) { p.set_uint64_param(7); })->timeout,
            absl::Microseconds(7));
  EXPECT_EQ(Parse("timeout", [](auto& p) { p.set_uint64_param(UINT64_MAX); })
                ->timeout,
            absl::InfiniteDuration());
  const absl::Status wrong =
      Parse("timeout", [](auto& p) { p.set_string_param("250"); }).status();
  EXPECT_EQ(wrong.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(wrong.message()),
              HasSubstr("invalid value type for 'timeout' parameter"));
  EXPECT_FALSE(Parse("timeout", [](auto&) {}).ok());
}

TEST(RequestParameters, PriorityIsACount) {
  EXPECT_TRUE(Parse("priority", [](auto& p) { p.set_uint64_param(3); }).ok());
  EXPECT_TRUE(Parse("priority", [](auto& p) { p.set_int64_param(3); }).ok());
  EXPECT_FALSE(Parse("priority", [](auto& p) { p.set_int64_param(-3); }).ok());
  EXPECT_FALSE(Parse("priority", [](auto& p) { p.set_bool_param(true); }).ok());
}

TEST(RequestParameters, ReservedNames) {
  EXPECT_TRUE(Parse("triton_enable_empty_final_response", [](auto& p) {
                p.set_bool_param(true);
              }).ok());
  EXPECT_EQ(Parse("triton_enable_empty_final_response",
                  [](auto& p) { p.set_string_param("yes"); })
                .status()
                .code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(
      Parse("triton_", [](auto& p) { p.set_bool_param(true); }).status().code(),
      absl::StatusCode::kInvalidArgument);
}

TEST(RequestParameters, SequencesAreIgnoredButNotTheirTypes) {
  const std::function<void(InferParameter&)> ids[] = {
      [](auto& p) { p.set_int64_param(0); },
      [](auto& p) { p.set_int64_param(5); },
      [](auto& p) { p.set_uint64_param(5); },
      [](auto& p) { p.set_string_param(""); },
      [](auto& p) { p.set_string_param("a"); }};
  for (const auto& id : ids) EXPECT_TRUE(Parse("sequence_id", id).ok());
  const absl::Status wrong =
      Parse("sequence_id", [](auto& p) { p.set_bool_param(true); }).status();
  EXPECT_EQ(wrong.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(wrong.message()),
              HasSubstr("invalid value type for 'sequence_id' parameter, "
                        "expected int64_param or string_param."));
  for (const char* name : {"sequence_start", "sequence_end"}) {
    for (const bool value : {true, false}) {
      EXPECT_TRUE(Parse(name, [&](auto& p) { p.set_bool_param(value); }).ok());
    }
    EXPECT_EQ(
        Parse(name, [](auto& p) { p.set_int64_param(1); }).status().code(),
        absl::StatusCode::kInvalidArgument);
  }
}

TEST(RequestParameters, OthersAreIgnored) {
  EXPECT_TRUE(
      Parse("temperature", [](auto& p) { p.set_double_param(0.5); }).ok());
  EXPECT_TRUE(Parse("", [](auto&) {}).ok());
}

TEST(TensorParameters, SharedMemory) {
  ParameterMap given;
  EXPECT_FALSE(
      ParseTensorParameters("input 'x'", given)->shared_memory.has_value());
  given["shared_memory_region"].set_string_param("r");
  EXPECT_THAT(
      std::string(ParseTensorParameters("input 'x'", given).status().message()),
      HasSubstr("must specify 'shared_memory_byte_size' along with "
                "'shared_memory_region' parameter for input 'x'"));
  given["shared_memory_byte_size"].set_int64_param(64);
  const auto parsed = ParseTensorParameters("input 'x'", given);
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->shared_memory->region, "r");
  EXPECT_EQ(parsed->shared_memory->offset, 0u);
  EXPECT_EQ(parsed->shared_memory->byte_size, 64u);

  given["shared_memory_offset"].set_uint64_param(UINT64_MAX);
  EXPECT_EQ(ParseTensorParameters("input 'x'", given)->shared_memory->offset,
            UINT64_MAX);
  given["shared_memory_offset"].set_int64_param(-1);
  EXPECT_EQ(ParseTensorParameters("input 'x'", given).status().code(),
            absl::StatusCode::kInvalidArgument);
  given["shared_memory_offset"].set_string_param("0");
  EXPECT_EQ(ParseTensorParameters("input 'x'", given).status().code(),
            absl::StatusCode::kInvalidArgument);
  given.erase("shared_memory_region");
  given["shared_memory_offset"].set_int64_param(0);
  EXPECT_THAT(
      std::string(ParseTensorParameters("input 'x'", given).status().message()),
      HasSubstr("'shared_memory_offset' can not be specified without"));
}

TEST(PriorityFor, TheCallersIsDefaultAndCeiling) {
  // Of a model with four levels, the second of which is its default.
  const auto level = [](uint64_t asked, uint64_t ceiling) {
    return PriorityFor(asked, ceiling, 4, 2);
  };
  EXPECT_EQ(level(0, 0), 0u);
  EXPECT_EQ(level(3, 0), 3u);
  EXPECT_EQ(level(9, 0), 9u);
  EXPECT_EQ(level(0, 3), 3u);
  EXPECT_EQ(level(1, 3), 3u);
  EXPECT_EQ(level(4, 3), 4u);
  // Neither is a level that there isn't a way around it.
  EXPECT_EQ(level(9, 3), 3u);
  EXPECT_EQ(level(9, 1), 2u);
  EXPECT_EQ(level(0, 9), 4u);
  EXPECT_EQ(level(1, 9), 4u);
  EXPECT_EQ(PriorityFor(0, 3, 1, 1), 1u);
}

}  // namespace
}  // namespace stoker
