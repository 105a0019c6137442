// testdata/author.pt2, taken apart so that a test can damage one thing and
// write it back as a well-formed archive.
#pragma once

#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "gtest/gtest.h"
#include "program/zip_archive.h"
#include "repository/model_repository.h"
#include "tests/fakes/temp_folder.h"
#include "tests/fakes/zip_writer.h"

namespace stoker {

class ProgramFixture {
 public:
  using json = nlohmann::json;
  static constexpr char kPath[] = "tests/unit/repository/testdata/author.pt2";
  static constexpr char kProgram[] = "author/models/model.json";
  static constexpr char kWeights[] =
      "author/data/weights/model_weights_config.json";
  static constexpr char kConstants[] =
      "author/data/constants/model_constants_config.json";

  ProgramFixture() {
    const auto archive = ZipArchive::Open(kPath);
    EXPECT_TRUE(archive.ok()) << archive.status();
    for (const auto& [name, member] : (*archive)->members()) {
      members[name] = std::string((*archive)->View(name).value());
    }
  }

  json Parse(const std::string& member) const {
    return json::parse(members.at(member));
  }
  // Changes a JSON member in place.
  void Edit(const std::string& member, const std::function<void(json&)>& edit) {
    json document = Parse(member);
    edit(document);
    members[member] = document.dump();
  }

  std::string Bytes() const {
    ZipWriter zip;
    for (const auto& [name, content] : members) {
      ZipMember member;
      member.name = name;
      member.content = content;
      zip.Add(member);
    }
    return zip.Finish();
  }
  absl::StatusOr<ModelSpec> Read() const { return ReadBytes(Bytes()); }

  static absl::StatusOr<ModelSpec> ReadBytes(const std::string& bytes) {
    const TempFolder folder;
    const std::string path = folder / "model.pt2";
    std::ofstream(path, std::ios::binary) << bytes;
    return ReadProgram(path);
  }

  std::map<std::string, std::string> members;
};

}  // namespace stoker
