#include "kernel_cache/oci_layout.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/kernel_cache/pack_fixture.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using Json = nlohmann::json;

class OciLayoutTest : public PackFixture {
 protected:
  void SetUp() override {
    cache_ = Open("cache");
    Add(*cache_, FactorsOf("8"));
    pack_ = Export(*cache_);
  }

  void Write(const std::string& tag) {
    const absl::Status written = WriteOciLayout(pack_, layout_, tag);
    ASSERT_TRUE(written.ok()) << written;
  }
  Json Document(const std::string& name) {
    return Json::parse(ReadBytes(layout_ + "/" + name));
  }
  std::string BlobPath(const Json& descriptor) {
    return layout_ + "/blobs/sha256/" +
           descriptor["digest"].get<std::string>().substr(7);
  }
  Json Manifest() {
    return Json::parse(
        ReadBytes(BlobPath(Document("index.json")["manifests"][0])));
  }
  // Stores a manifest as a tool would that has changed it.
  void SetManifest(const Json& manifest) {
    const std::string text = manifest.dump();
    Json index = Document("index.json");
    Json& tagged = index["manifests"][0];
    tagged["digest"] = "sha256:" + Sha256Hex(text);
    tagged["size"] = text.size();
    WriteBytes(BlobPath(tagged), text);
    WriteBytes(layout_ + "/index.json", index.dump());
  }
  void ExpectRefused(const std::string& message) {
    const absl::Status found = FindPackInOciLayout(layout_, "v1").status();
    EXPECT_EQ(found.code(), absl::StatusCode::kInvalidArgument) << message;
    EXPECT_THAT(found.message(), HasSubstr(message));
  }

  std::unique_ptr<KernelCache> cache_;
  std::string pack_;
  const std::string layout_ = folder_ / "layout";
};

TEST_F(OciLayoutTest, ThePackIsFoundAsItWas) {
  Write("v1");
  const absl::StatusOr<std::string> found = FindPackInOciLayout(layout_, "v1");
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(ReadBytes(*found), ReadBytes(pack_));
  EXPECT_THAT(*found, EndsWith("/blobs/sha256/" + Sha256Hex(ReadBytes(pack_))));
  EXPECT_TRUE(ImportPack(*Open("b"), *found, anybody_, local_).ok());
}

TEST_F(OciLayoutTest, IsAnArtifactAndAnImage) {
  Write("v1");
  EXPECT_EQ(Document("oci-layout"), Json({{"imageLayoutVersion", "1.0.0"}}));
  const Json manifest = Manifest();
  EXPECT_EQ(manifest["artifactType"], "application/vnd.stoker.kernel-pack.v1");
  const std::string digest = "sha256:" + Sha256Hex(ReadBytes(pack_));
  EXPECT_EQ(manifest["layers"][0]["digest"], digest);
  EXPECT_EQ(manifest["layers"][0]["mediaType"],
            "application/vnd.oci.image.layer.v1.tar");
  const Json config = Json::parse(ReadBytes(BlobPath(manifest["config"])));
  EXPECT_EQ(config["rootfs"]["diff_ids"], Json::array({digest}));
  const Json& annotations = manifest["annotations"];
  EXPECT_EQ(annotations["stoker.kernel-pack.entries"], "1");
  EXPECT_EQ(annotations["stoker.kernel-pack.models"], "[\"minilm:1\"]");
  EXPECT_EQ(annotations["stoker.kernel-pack.hardware"],
            "{\"cpu.march\":[\"x86-64-v4\"],\"device\":[\"cpu\"],"
            "\"torch\":[\"2.11.0\"]}");
  for (const Json& value : annotations) EXPECT_TRUE(value.is_string());
}

TEST_F(OciLayoutTest, EveryBlobIsNamedByItsDigest) {
  Write("v1");
  Write("v2");
  int blobs = 0;
  for (const auto& blob : fs::directory_iterator(layout_ + "/blobs/sha256")) {
    EXPECT_EQ(blob.path().filename(), Sha256Hex(ReadBytes(blob.path())));
    ++blobs;
  }
  EXPECT_EQ(blobs, 3);
}

TEST_F(OciLayoutTest, SamePackSameLayout) {
  Write("v1");
  const std::string before = ReadBytes(layout_ + "/index.json");
  Write("v1");
  EXPECT_EQ(ReadBytes(layout_ + "/index.json"), before);
  fs::remove_all(layout_);
  Write("v1");
  EXPECT_EQ(ReadBytes(layout_ + "/index.json"), before);
}

TEST_F(OciLayoutTest, TagsStandSideBySideAndMove) {
  Write("v1");
  const std::string first = ReadBytes(pack_);
  Add(*cache_, FactorsOf("1"));
  pack_ = Export(*cache_, nullptr, "second.pack");
  Write("v2");
  EXPECT_EQ(ReadBytes(*FindPackInOciLayout(layout_, "v1")), first);
  EXPECT_EQ(ReadBytes(*FindPackInOciLayout(layout_, "v2")), ReadBytes(pack_));
  Write("v1");
  EXPECT_EQ(ReadBytes(*FindPackInOciLayout(layout_, "v1")), ReadBytes(pack_));
  EXPECT_EQ(Document("index.json")["manifests"].size(), 2u);
  const absl::Status none = FindPackInOciLayout(layout_, "v3").status();
  EXPECT_EQ(none.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(none.message(), HasSubstr("no tag v3, found v2, v1"));
}

TEST_F(OciLayoutTest, TagsThatAreNone) {
  for (const std::string& tag :
       {std::string(), std::string("a/b"), std::string("-a"),
        std::string("a b"), std::string(".."), std::string(129, 'a')}) {
    EXPECT_EQ(WriteOciLayout(pack_, layout_, tag).code(),
              absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(FindPackInOciLayout(layout_, tag).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
  EXPECT_FALSE(fs::exists(layout_));
}

TEST_F(OciLayoutTest, AFolderOfSomethingElseIsLeftAlone) {
  fs::create_directory(layout_);
  WriteBytes(layout_ + "/index.html", "mine");
  const absl::Status written = WriteOciLayout(pack_, layout_, "v1");
  EXPECT_EQ(written.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(written.message(), HasSubstr("found index.html"));
  EXPECT_THAT(*Files::Real().List(layout_), ElementsAre("index.html"));
  EXPECT_EQ(FindPackInOciLayout(layout_, "v1").status().code(),
            absl::StatusCode::kNotFound);
  WriteBytes(folder_ / "no.pack", "none");
  EXPECT_FALSE(WriteOciLayout(folder_ / "no.pack", folder_ / "new", "v1").ok());
  EXPECT_FALSE(fs::exists(folder_ / "new"));
}

TEST_F(OciLayoutTest, EveryFlippedByteOfEveryBlobIsRefused) {
  Write("v1");
  const Json manifest = Manifest();
  for (const Json& descriptor :
       {Document("index.json")["manifests"][0], manifest["layers"][0]}) {
    const std::string path = BlobPath(descriptor);
    const std::string good = ReadBytes(path);
    std::string bad = good;
    for (size_t i = 0; i < good.size(); i += 7) {
      bad[i] = static_cast<char>(good[i] ^ 1 << (i % 8));
      WriteBytes(path, bad);
      ExpectRefused(path + ": expected SHA-256 " + Sha256Hex(good));
      bad[i] = good[i];
    }
    WriteBytes(path, good.substr(0, good.size() - 1));
    ExpectRefused(path + ": expected " + std::to_string(good.size()));
    WriteBytes(path, good);
  }
  EXPECT_TRUE(FindPackInOciLayout(layout_, "v1").ok());
}

TEST_F(OciLayoutTest, ManifestsOfSomethingElse) {
  Write("v1");
  const Json good = Manifest();
  Json bad = good;
  bad.erase("artifactType");
  SetManifest(bad);
  ExpectRefused("expected artifactType application/vnd.stoker.kernel-pack.v1");
  bad = good;
  bad["layers"].push_back(good["layers"][0]);
  SetManifest(bad);
  ExpectRefused("expected one layer, found 2");
  bad = good;
  bad["layers"][0]["mediaType"] = "application/vnd.oci.image.layer.v1.tar+gzip";
  SetManifest(bad);
  ExpectRefused("v1.tar (copied without --preserve-digests?), found");
  for (const std::string digest :
       {"", "sha256:", "sha256:../../../etc/passwd", "sha512:00", "x"}) {
    bad = good;
    bad["layers"][0]["digest"] = digest;
    SetManifest(bad);
    ExpectRefused("expected a digest sha256:<64 hexadecimal digits>");
  }
  bad = good;
  bad["layers"][0].erase("size");
  SetManifest(bad);
  ExpectRefused("expected unknown bytes");
  SetManifest(good);
  EXPECT_TRUE(FindPackInOciLayout(layout_, "v1").ok());
}

TEST_F(OciLayoutTest, DocumentsThatAreNone) {
  Write("v1");
  const std::string good = ReadBytes(layout_ + "/index.json");
  for (const std::string& text :
       {std::string("["), std::string("[]"), std::string(5 << 20, ' ')}) {
    WriteBytes(layout_ + "/index.json", text);
    ExpectRefused("index.json: expected");
  }
  WriteBytes(layout_ + "/index.json", "{\"manifests\": 7}");
  EXPECT_EQ(FindPackInOciLayout(layout_, "v1").status().code(),
            absl::StatusCode::kNotFound);
  WriteBytes(layout_ + "/index.json", good);
  WriteBytes(layout_ + "/oci-layout", "{\"imageLayoutVersion\":\"2.0.0\"}");
  ExpectRefused("expected imageLayoutVersion 1.0.0, found 2.0.0");
}

}  // namespace
}  // namespace stoker
