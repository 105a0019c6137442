#include "runner/device_program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/files.h"
#include "nlohmann/json.hpp"
#include "program/program_archive.h"
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
  MoveDevices(value, *ParseDevice("cuda:3"));
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
  MoveDevices(value, Device{});
}

TEST(PlaceFactoriesTest, TellsWhoIsToldNothing) {
  json program = json::parse(R"({"graph": {"nodes": [
    {"target": "torch.ops.aten.arange.default", "inputs": [
      {"name": "end", "arg": {"as_int": 3}, "kind": 1}]},
    {"target": "torch.ops.aten.full.default", "inputs": [
      {"name": "size", "arg": {"as_ints": [2]}, "kind": 1},
      {"name": "device", "arg": {"as_none": true}, "kind": 2}]},
    {"target": "torch.ops.aten.zeros.default", "inputs": [
      {"name": "device",
       "arg": {"as_device": {"type": "meta", "index": null}}, "kind": 2}]},
    {"target": "torch.ops.aten.ones_like.default", "inputs": [
      {"name": "self", "arg": {"as_tensor": {"name": "x"}}, "kind": 1}]},
    {"target": "torch.ops.aten.add.Tensor", "inputs": []},
    {"target": "torch.ops.nobody.knows.default", "inputs": []}]}})");
  json expected = program;
  const json there = {{"as_device", {{"type", "cuda"}, {"index", 1}}}};
  json& nodes = expected["graph"]["nodes"];
  nodes[0]["inputs"].push_back(
      {{"name", "device"}, {"arg", there}, {"kind", 2}});
  nodes[1]["inputs"][1]["arg"] = there;
  PlaceFactories(program, *ParseDevice("cuda:1"));
  EXPECT_EQ(program, expected);
}

TEST(DeviceProgramTest, IsTheSameProgramElsewhere) {
  const auto original = ProgramArchive::Open(Made("lookup.pt2"));
  ASSERT_TRUE(original.ok()) << original.status();
  const auto file = WriteDeviceProgram(**original, *ParseDevice("cuda:1"));
  ASSERT_TRUE(file.ok()) << file.status();
  const auto moved = ProgramArchive::Open(PathOf(*file));
  ASSERT_TRUE(moved.ok()) << moved.status();

  json expected = (*original)->program();
  MoveDevices(expected, *ParseDevice("cuda:1"));
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
  const auto file = WriteDeviceProgram(**original, *ParseDevice("cuda:0"));
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

// There and back: nativert reads what was written, and answers the same.
TEST(DeviceProgramTest, RunsAsItDid) {
  const auto original = ProgramArchive::Open(Made("lookup.pt2"));
  ASSERT_TRUE(original.ok()) << original.status();
  const auto there = WriteDeviceProgram(**original, *ParseDevice("cuda:0"));
  ASSERT_TRUE(there.ok()) << there.status();
  const auto moved = ProgramArchive::Open(PathOf(*there));
  ASSERT_TRUE(moved.ok()) << moved.status();
  const auto back = WriteDeviceProgram(**moved, Device{});
  ASSERT_TRUE(back.ok()) << back.status();

  const auto loader = MakeCpuLoader();
  const auto context = loader->NewContext(1);
  const auto inputs = LookupInputs({1, 2, 3, 4, 5, 6}, {2, 3});
  std::vector<RunResult> results;
  for (const std::string& path : {Made("lookup.pt2"), PathOf(*back)}) {
    const auto eager = loader->OpenEager(path);
    ASSERT_TRUE(eager.ok()) << eager.status();
    // nativert has read all that it needs.
    if (path == PathOf(*back)) EmptyDeviceProgram(*back);
    auto result = (*eager)->Run(*context, inputs);
    ASSERT_TRUE(result.ok()) << result.status();
    results.push_back(*std::move(result));
  }
  ASSERT_EQ(results[0].outputs.size(), results[1].outputs.size());
  for (size_t i = 0; i < results[0].outputs.size(); ++i) {
    const Tensor& expected = results[0].outputs[i];
    const Tensor& actual = results[1].outputs[i];
    ASSERT_EQ(actual.byte_size, expected.byte_size);
    EXPECT_EQ(std::memcmp(actual.data, expected.data, actual.byte_size), 0);
  }
}

TEST(DeviceProgramTest, HasNoWrappers) {
  const auto original = ProgramArchive::Open(Made("wrapped.pt2"));
  ASSERT_TRUE(original.ok()) << original.status();
  EXPECT_TRUE((*original)->is_rewritten());
  const auto file = WriteDeviceProgram(**original, Device{});
  ASSERT_TRUE(file.ok()) << file.status();
  const auto written = ProgramArchive::Open(PathOf(*file));
  ASSERT_TRUE(written.ok()) << written.status();
  EXPECT_FALSE((*written)->is_rewritten());
  EXPECT_EQ((*written)->program(), (*original)->program());
}

TEST(DeviceProgramTest, CanBeEmptiedWhileItIsOpen) {
  const auto original = ProgramArchive::Open(Made("lookup.pt2"));
  const auto file = WriteDeviceProgram(**original, *ParseDevice("cuda:0"));
  ASSERT_TRUE(file.ok());
  EXPECT_GT(Files::Real().Size(PathOf(*file)).value(), 0);
  EmptyDeviceProgram(*file);
  EXPECT_EQ(Files::Real().Size(PathOf(*file)).value(), 0);
}

}  // namespace
}  // namespace stoker
