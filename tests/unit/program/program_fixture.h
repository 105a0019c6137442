// testdata/author.pt2, taken apart so that a test can damage one thing and
// write it back as a well-formed archive.
#pragma once

#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "gtest/gtest.h"
#include "program/program_archive.h"
#include "program/program_signature.h"
#include "tests/fakes/temp_folder.h"
#include "tests/fakes/zip_writer.h"

namespace stoker {

class ProgramFixture {
 public:
  using json = nlohmann::json;
  static constexpr char kPath[] = "tests/unit/program/testdata/author.pt2";
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
      // As torch's writer does: content begins at a multiple of 64.
      const size_t header = zip.directory_offset() + 30 + name.size() + 4;
      const size_t padding = (64 - header % 64) % 64;
      ZipMember member;
      member.name = name;
      member.content = content;
      member.local_extra = ZipWriter::Number(0x4246, 2) +
                           ZipWriter::Number(padding, 2) +
                           std::string(padding, 'Z');
      zip.Add(member);
    }
    return zip.Finish();
  }

  absl::StatusOr<std::shared_ptr<const ProgramArchive>> Open() const {
    return OpenBytes(Bytes());
  }
  static absl::StatusOr<std::shared_ptr<const ProgramArchive>> OpenBytes(
      const std::string& bytes) {
    const TempFolder folder;
    const std::string path = folder / "model.pt2";
    std::ofstream(path, std::ios::binary) << bytes;
    return ProgramArchive::Open(path);
  }
  absl::StatusOr<ProgramSignature> Signature() const {
    const auto archive = Open();
    if (!archive.ok()) return archive.status();
    return ReadSignature(**archive);
  }

  std::map<std::string, std::string> members;
};

}  // namespace stoker
