// Whose folders a kernel cache takes, and what it makes of them.
#include "kernel_cache/cache_root.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "gmock/gmock.h"
#include "tests/unit/kernel_cache/kernel_cache_fixture.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class CacheRootTest : public KernelCacheFixture {};

TEST_F(CacheRootTest, OpenMakesPrivateFolders) {
  const auto cache = Open();
  EXPECT_EQ(Names("").size(), 7u);
  for (const std::string name : {"", "/v1", "/v1/entries", "/v1/scratch"}) {
    EXPECT_EQ(Files::Real().Stat(root_ + name)->permissions, 0700u) << name;
  }
  EXPECT_EQ(cache->entries().scratch_folder(),
            fs::canonical(root_).string() + "/v1/scratch");
}

TEST_F(CacheRootTest, RefusesARootThatOthersMayWrite) {
  for (const std::string name : {"", "/v1", "/v1/entries", "/v1/staging"}) {
    Open().reset();
    for (const mode_t mode : {0770, 0707, 0777}) {
      ASSERT_EQ(chmod((root_ + name).c_str(), mode), 0);
      const absl::Status status =
          KernelCache::Open({.root = root_}, Files::Real(), metrics_).status();
      EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied) << name;
      EXPECT_THAT(std::string(status.message()), HasSubstr(root_ + name));
    }
    ASSERT_EQ(chmod((root_ + name).c_str(), 0750), 0);
    EXPECT_NE(Open(), nullptr);
  }
}

TEST_F(CacheRootTest, RefusesARootOfSomebodyElse) {
  Open().reset();
  std::string foreign = "/usr";  // root's, for everybody but root
  if (geteuid() == 0) {
    foreign = root_;
    ASSERT_EQ(chown(root_.c_str(), 65534, 65534), 0);
  }
  const absl::Status status =
      KernelCache::Open({.root = foreign}, Files::Real(), metrics_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(std::string(status.message()), HasSubstr("belongs to user"));
}

TEST_F(CacheRootTest, RefusesLinksAndFilesAmongItsFolders) {
  Open().reset();
  fs::rename(root_ + "/v1/entries", folder_ / "elsewhere");
  fs::create_directory_symlink(folder_ / "elsewhere", root_ + "/v1/entries");
  EXPECT_EQ(KernelCache::Open({.root = root_}, Files::Real(), metrics_)
                .status()
                .code(),
            absl::StatusCode::kPermissionDenied);
  WriteBytes(folder_ / "file", "");
  EXPECT_FALSE(
      KernelCache::Open({.root = folder_ / "file"}, Files::Real(), metrics_)
          .ok());
}

}  // namespace
}  // namespace stoker
