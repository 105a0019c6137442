#include "runner/device_program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "base/files.h"
#include "nlohmann/json.hpp"
#include "runner/program_archive.h"
#include "runner/weight_store.h"
#include "tests/unit/runner/torch_fixture.h"

namespace stoker {
namespace {

using nlohmann::json;
using testing::HasSubstr;

std::string PathOf(const FileDescriptor& file) {
  return absl::StrCat("/proc/self/fd/", file.get());
}

TEST(MoveDevicesTest, MovesEveryDeviceAndNothingElse) {
  json value = json::parse(R"({
    "a": {"device": {"type": "cpu", "index": null}},
    "b": [{"as_device": {"type": "cuda", "index": 0}}, {"as_string": "cpu"}],
    "c": {"type": "cpu", "index": "1"},
    "d": {"type": "cpu", "index": null, "more": 1},
    "e": {"type": "meta", "index": null}})");
  MoveDevices(value, 3);
  EXPECT_EQ(value, json::parse(R"({
    "a": {"device": {"type": "cuda", "index": 3}},
    "b": [{"as_device": {"type": "cuda", "index": 3}}, {"as_string": "cpu"}],
    "c": {"type": "cpu", "index": "1"},
    "d": {"type": "cpu", "index": null, "more": 1},
    "e": {"type": "meta", "index": null}})"));
}

TEST(MoveDevicesTest, NeedsNoStackForDeepText) {
  json value = {{"type", "cpu"}, {"index", nullptr}};
  for (int i = 0; i < 100'000; ++i) value = json::array({std::move(value)});
  MoveDevices(value, 0);
}

TEST(DeviceProgramTest, IsTheSameProgramElsewhere) {
  const auto original = ProgramArchive::Open(Made("lookup.pt2"));
  ASSERT_TRUE(original.ok()) << original.status();
  const auto file = WriteDeviceProgram(**original, 1);
  ASSERT_TRUE(file.ok()) << file.status();
  const auto moved = ProgramArchive::Open(PathOf(*file));
  ASSERT_TRUE(moved.ok()) << moved.status();
  EXPECT_EQ((*moved)->model_name(), (*original)->model_name());

  json expected = (*original)->program();
  MoveDevices(expected, 1);
  EXPECT_NE(expected, (*original)->program());
  EXPECT_EQ((*moved)->program(), expected);

  ASSERT_EQ((*moved)->tensors().size(), (*original)->tensors().size());
  for (const auto& [name, tensor] : (*original)->tensors()) {
    const StoredTensor& copy = (*moved)->tensors().at(name);
    EXPECT_EQ(copy.sizes, tensor.sizes) << name;
    EXPECT_EQ(copy.strides, tensor.strides) << name;
    const auto bytes = static_cast<size_t>(ExtentBytes(tensor));
    EXPECT_EQ(std::memcmp(copy.data, tensor.data, bytes), 0) << name;
  }
}

TEST(DeviceProgramTest, ACpuRefusesIt) {
  const auto original = ProgramArchive::Open(Made("lookup.pt2"));
  ASSERT_TRUE(original.ok()) << original.status();
  const auto file = WriteDeviceProgram(**original, 0);
  ASSERT_TRUE(file.ok()) << file.status();
  const auto loader = MakeCpuLoader();
  for (const absl::Status& status :
       {loader->OpenEager(PathOf(*file)).status(),
        loader->MapWeights(PathOf(*file)).status()}) {
    EXPECT_TRUE(absl::IsInvalidArgument(status));
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("was exported on a GPU"));
  }
}

TEST(DeviceProgramTest, CanBeEmptiedWhileItIsOpen) {
  const auto original = ProgramArchive::Open(Made("lookup.pt2"));
  const auto file = WriteDeviceProgram(**original, 0);
  ASSERT_TRUE(file.ok());
  EXPECT_GT(Files::Real().Size(PathOf(*file)).value(), 0);
  EmptyDeviceProgram(*file);
  EXPECT_EQ(Files::Real().Size(PathOf(*file)).value(), 0);
}

}  // namespace
}  // namespace stoker
