#include "runner/device_program.h"

#include <gtest/gtest.h>

#include <utility>

#include "nlohmann/json.hpp"

namespace stoker {
namespace {

using nlohmann::json;

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

}  // namespace
}  // namespace stoker
