#include "rpc/shared_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <thread>

#include "tests/unit/rpc/shared_memory_file.h"

namespace stoker {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

class SharedMemoryTest : public ::testing::Test {
 protected:
  absl::Status Register(const std::string& name, uint64_t offset,
                        uint64_t byte_size) {
    return regions_.Register({name, file_.key(), offset, byte_size});
  }
  std::string Refusal(const std::string& name, uint64_t offset,
                      uint64_t byte_size) {
    const absl::Status status = Register(name, offset, byte_size);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    return std::string(status.message());
  }
  double Value(const char* name, const Labels& labels = {}) {
    return MetricValue(metrics_, name, labels);
  }

  SharedMemoryFile file_{4096};
  MetricRegistry metrics_;
  SharedMemoryRegions regions_{10000, metrics_};
};

TEST_F(SharedMemoryTest, BytesOfARange) {
  file_.Put(1024, "0123456789");
  ASSERT_TRUE(Register("r", 1024, 2048).ok());
  const auto range = regions_.Find("r", 3, 4);
  ASSERT_TRUE(range.ok()) << range.status();
  const auto read = range->region->Read(range->offset, range->byte_size);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(std::memcmp(read->data(), "3456", 4), 0);

  const std::string text = "abcd";
  ASSERT_TRUE(range->region
                  ->Write(range->offset,
                          reinterpret_cast<const std::byte*>(text.data()), 4)
                  .ok());
  EXPECT_EQ(file_.Get(1024, 10), "012abcd789");
  EXPECT_EQ(Value("stoker_shared_memory_regions"), 1);
  EXPECT_EQ(Value("stoker_shared_memory_bytes"), 2048);
  EXPECT_EQ(
      Value("stoker_shared_memory_copied_bytes_total", {{"direction", "read"}}),
      4);
  EXPECT_EQ(Value("stoker_shared_memory_copied_bytes_total",
                  {{"direction", "written"}}),
            4);
}

TEST_F(SharedMemoryTest, RegionsLieWithinTheirFile) {
  EXPECT_TRUE(Register("all", 0, 4096).ok());
  EXPECT_TRUE(Register("last", 4095, 1).ok());
  for (const auto& [offset, size] :
       std::vector<std::pair<uint64_t, uint64_t>>{{0, 4097},
                                                  {1, 4096},
                                                  {4096, 1},
                                                  {0, 0},
                                                  {UINT64_MAX, 2},
                                                  {2, UINT64_MAX},
                                                  {uint64_t{1} << 63, 1}}) {
    EXPECT_THAT(
        Refusal("r", offset, size),
        StartsWith("failed to register shared memory region 'r': invalid args"))
        << offset << " " << size;
  }
}

TEST_F(SharedMemoryTest, NamesAndKeys) {
  Refusal("", 0, 1);
  Refusal(std::string(257, 'n'), 0, 1);
  ASSERT_TRUE(Register("r", 0, 1).ok());
  EXPECT_EQ(Register("r", 0, 1).code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(Register("r", 0, 1).message(),
            "shared memory region 'r' already in manager");
  for (const std::string& key :
       {std::string("/nobody-has-this"), std::string("/../dev/shm/x"),
        std::string(""), std::string("/"), file_.key() + '\0' + "x",
        std::string(5000, 'k')}) {
    const absl::Status status = regions_.Register({"other", key, 0, 1});
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_THAT(std::string(status.message()),
                StartsWith("Unable to open shared memory region: '"));
    EXPECT_LT(status.message().size(), 400u);
  }
}

TEST_F(SharedMemoryTest, RangesLieWithinTheirRegion) {
  ASSERT_TRUE(Register("r", 1024, 100).ok());
  EXPECT_EQ(regions_.Find("s", 0, 1).status(),
            absl::NotFoundError("Unable to find shared memory region: 's'"));
  EXPECT_TRUE(regions_.Find("r", 99, 1).ok());
  EXPECT_TRUE(regions_.Find("r", 100, 0).ok());
  for (const uint64_t offset : {uint64_t{100}, uint64_t{101}, UINT64_MAX}) {
    EXPECT_THAT(std::string(regions_.Find("r", offset, 1).status().message()),
                StartsWith("Invalid offset for shared memory region: 'r'"));
  }
  for (const uint64_t size : {uint64_t{100}, UINT64_MAX, UINT64_MAX - 1}) {
    EXPECT_THAT(
        std::string(regions_.Find("r", 1, size).status().message()),
        StartsWith("Invalid offset + byte size for shared memory region: 'r'"));
  }
}

TEST_F(SharedMemoryTest, StatusAndUnregister) {
  EXPECT_TRUE(regions_.Status("")->empty());
  ASSERT_TRUE(Register("a", 16, 32).ok());
  ASSERT_TRUE(Register("b", 0, 64).ok());
  ASSERT_EQ(regions_.Status("")->size(), 2u);
  const auto one = regions_.Status("a");
  ASSERT_EQ(one->size(), 1u);
  EXPECT_EQ((*one)[0].key, file_.key());
  EXPECT_EQ((*one)[0].offset, 16u);
  EXPECT_EQ((*one)[0].byte_size, 32u);
  EXPECT_EQ(regions_.Status("c").status().message(),
            "Unable to find system shared memory region: 'c'");

  const auto held = regions_.Find("a", 0, 4);
  regions_.Unregister("a");
  regions_.Unregister("a");
  EXPECT_EQ(regions_.Status("")->size(), 1u);
  EXPECT_EQ(Value("stoker_shared_memory_bytes"), 64);
  EXPECT_TRUE(held->region->Read(0, 4).ok());  // whoever has it goes on
  ASSERT_TRUE(Register("a", 0, 1).ok());
  regions_.Unregister("");
  EXPECT_TRUE(regions_.Status("")->empty());
  EXPECT_EQ(Value("stoker_shared_memory_regions"), 0);
  EXPECT_EQ(Value("stoker_shared_memory_bytes"), 0);
}

TEST_F(SharedMemoryTest, LimitsOfNumberAndBytes) {
  ASSERT_TRUE(Register("a", 0, 4096).ok());
  ASSERT_TRUE(Register("b", 0, 4096).ok());
  EXPECT_EQ(Register("c", 0, 4096).code(),
            absl::StatusCode::kResourceExhausted);
  ASSERT_TRUE(Register("c", 0, 1).ok());
  for (size_t i = 3; i < SharedMemoryRegions::kMaxRegions; ++i) {
    ASSERT_TRUE(Register("r" + std::to_string(i), 0, 1).ok());
  }
  EXPECT_EQ(Register("last", 0, 1).code(),
            absl::StatusCode::kResourceExhausted);
  regions_.Unregister("c");
  EXPECT_TRUE(Register("last", 0, 1).ok());
}

// Without the guard the process would end here.
TEST_F(SharedMemoryTest, FilesThatAreCut) {
  ASSERT_TRUE(Register("r", 0, 4096).ok());
  const auto range = *regions_.Find("r", 1000, 96);
  file_.Resize(1050);
  const auto read = range.region->Read(range.offset, range.byte_size);
  EXPECT_EQ(read.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(read.status().message()),
              HasSubstr("which has become smaller"));
  const std::string text(96, 'x');
  EXPECT_EQ(range.region
                ->Write(range.offset,
                        reinterpret_cast<const std::byte*>(text.data()), 96)
                .code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(file_.size(), 1050u);  // and doesn't grow again
  // What it holds when it has grown again is seen.
  file_.Resize(4096);
  file_.Put(1000, "abcd");
  const auto again = range.region->Read(range.offset, range.byte_size);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(std::memcmp(again->data(), "abcd", 4), 0);
}

TEST_F(SharedMemoryTest, FilesThatAreCutByPages) {
  file_.Resize(8192);
  ASSERT_TRUE(Register("r", 0, 8192).ok());
  const auto region = regions_.Find("r", 0, 1)->region;
  file_.Resize(100);
  EXPECT_EQ(region->Read(4096, 4).status().code(),
            absl::StatusCode::kInvalidArgument);
  const auto* text = reinterpret_cast<const std::byte*>("abcd");
  EXPECT_EQ(region->Write(4096, text, 4).code(),
            absl::StatusCode::kInvalidArgument);
  // What the file holds when it has grown again is seen, both ways.
  file_.Resize(8192);
  file_.Put(4096, "0123");
  const auto again = region->Read(4096, 4);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(std::memcmp(again->data(), "0123", 4), 0);
  ASSERT_TRUE(region->Write(4096, text, 4).ok());
  EXPECT_EQ(file_.Get(4096, 4), "abcd");
  // Another region of the same file is mapped anew.
  ASSERT_TRUE(Register("s", 4090, 10).ok());
  const auto other = regions_.Find("s", 6, 4);
  const auto bytes = other->region->Read(other->offset, other->byte_size);
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  EXPECT_EQ(std::memcmp(bytes->data(), "abcd", 4), 0);
}

TEST_F(SharedMemoryTest, FilesThatAreCutMeanwhile) {
  ASSERT_TRUE(Register("r", 0, 4096).ok());
  const auto range = *regions_.Find("r", 0, 4096);
  std::atomic<bool> over = false;
  std::thread client([&] {
    while (!over.load()) {
      file_.Resize(0);
      file_.Resize(4096);
    }
  });
  const std::string text(4096, 'x');
  int refused = 0;
  // Until it has been seen, at most for so long.
  for (int i = 0; i < 1000000 && (refused == 0 || i < 1000); ++i) {
    refused += range.region->Read(0, 4096).ok() ? 0 : 1;
    range.region
        ->Write(0, reinterpret_cast<const std::byte*>(text.data()), 4096)
        .IgnoreError();
  }
  over.store(true);
  client.join();
  EXPECT_GT(refused, 0);
}

}  // namespace
}  // namespace stoker
