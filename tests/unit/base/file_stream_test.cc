#include "base/file_stream.h"

#include <sys/stat.h>
#include <unistd.h>

#include <string>
#include <utility>

#include "base/files.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fakes/temp_folder.h"

namespace stoker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

mode_t ModeOf(const std::string& path) {
  return Files::Real().Stat(path)->permissions;
}

TEST(FileStreamTest, WritesThenReadsInPieces) {
  const TempFolder folder;
  {
    absl::StatusOr<OutputFile> file = OutputFile::Create(folder / "f");
    ASSERT_TRUE(file.ok()) << file.status();
    EXPECT_TRUE(file->Write("abc").ok());
    EXPECT_TRUE(file->Write("").ok());
    EXPECT_TRUE(file->Write("de").ok());
    EXPECT_TRUE(file->Close().ok());
  }
  EXPECT_EQ(ModeOf(folder / "f"), 0600u);
  absl::StatusOr<InputFile> file = InputFile::Open(folder / "f");
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->size(), 5);
  char buffer[3];
  EXPECT_EQ(*file->Read(buffer, 3), 3u);
  EXPECT_EQ(std::string(buffer, 3), "abc");
  EXPECT_EQ(*file->Read(buffer, 3), 2u);
  EXPECT_EQ(std::string(buffer, 2), "de");
  EXPECT_EQ(*file->Read(buffer, 3), 0u);
}

TEST(FileStreamTest, APipeFillsTheBufferAsWell) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  absl::StatusOr<InputFile> file =
      InputFile::Open("/proc/self/fd/" + std::to_string(ends[0]));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->size(), std::nullopt);
  EXPECT_EQ(write(ends[1], "ab", 2), 2);
  EXPECT_EQ(write(ends[1], "cd", 2), 2);
  close(ends[1]);
  char buffer[8];
  EXPECT_EQ(*file->Read(buffer, 3), 3u);
  EXPECT_EQ(*file->Read(buffer + 3, 5), 1u);
  EXPECT_EQ(std::string(buffer, 4), "abcd");
  close(ends[0]);
}

TEST(FileStreamTest, HandsOverPiecesUpToALimitOrTheEnd) {
  const TempFolder folder;
  static constexpr size_t kPiece = size_t{1} << 20;
  std::string content(2 * kPiece + 3, '\0');
  for (size_t i = 0; i < content.size(); ++i) {
    content[i] = static_cast<char>(i * 7);
  }
  ASSERT_TRUE(Files::Real().Write(folder / "f", content).ok());
  absl::StatusOr<InputFile> file = InputFile::Open(folder / "f");
  ASSERT_TRUE(file.ok()) << file.status();
  std::string read;
  const auto append = [&read](std::string_view piece) {
    EXPECT_LE(piece.size(), kPiece);
    read += piece;
    return absl::OkStatus();
  };
  EXPECT_EQ(*file->ReadTo(append, 5), 5);
  EXPECT_EQ(read, content.substr(0, 5));
  EXPECT_EQ(*file->ReadTo(append, 0), 0);
  EXPECT_EQ(*file->ReadTo(append), static_cast<int64_t>(content.size()) - 5);
  EXPECT_EQ(read, content);
  EXPECT_EQ(*file->ReadTo(append, 5), 0);
  absl::StatusOr<InputFile> again = InputFile::Open(folder / "f");
  EXPECT_EQ(again
                ->ReadTo([](std::string_view) {
                  return absl::DataLossError("the sink is full");
                })
                .status()
                .code(),
            absl::StatusCode::kDataLoss);
}

TEST(FileStreamTest, ErrorsNameThePath) {
  const TempFolder folder;
  const absl::Status missing = InputFile::Open(folder / "none").status();
  EXPECT_EQ(missing.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(missing.message(), HasSubstr(folder / "none"));
  ASSERT_TRUE(Files::Real().Write(folder / "f", "x").ok());
  EXPECT_EQ(OutputFile::Create(folder / "f").status().code(),
            absl::StatusCode::kAlreadyExists);
  absl::StatusOr<InputFile> self = InputFile::Open(folder.path());
  ASSERT_TRUE(self.ok());
  char buffer[1];
  EXPECT_THAT(self->Read(buffer, 1).status().message(),
              HasSubstr(folder.path()));
  absl::StatusOr<OutputFile> full = OutputFile::Create("/dev/full");
  EXPECT_EQ(full.status().code(), absl::StatusCode::kAlreadyExists);
}

TEST(FileStreamTest, ADraftAppearsWhenItIsPublished) {
  const TempFolder folder;
  ASSERT_TRUE(Files::Real().Write(folder / "f", "before").ok());
  absl::StatusOr<DraftFile> draft = DraftFile::CreateIn(folder.path());
  ASSERT_TRUE(draft.ok()) << draft.status();
  ASSERT_TRUE(draft->Write("after").ok());
  EXPECT_EQ(*Files::Real().Read(folder / "f"), "before");
  DraftFile moved = *std::move(draft);
  ASSERT_TRUE(moved.PublishAs(folder / "f").ok());
  EXPECT_EQ(*Files::Real().Read(folder / "f"), "after");
  EXPECT_EQ(ModeOf(folder / "f"), 0644u);
  EXPECT_THAT(*Files::Real().List(folder.path()), ElementsAre("f"));
}

TEST(FileStreamTest, ADraftThatIsNotPublishedLeavesNothing) {
  const TempFolder folder;
  {
    absl::StatusOr<DraftFile> draft = DraftFile::CreateIn(folder.path());
    ASSERT_TRUE(draft.ok()) << draft.status();
    ASSERT_TRUE(draft->Write("half").ok());
    EXPECT_EQ(Files::Real().List(folder.path())->size(), 1u);
  }
  {
    absl::StatusOr<DraftFile> draft = DraftFile::CreateIn(folder.path());
    ASSERT_TRUE(draft.ok()) << draft.status();
    EXPECT_FALSE(draft->PublishAs(folder / "none/f").ok());
  }
  EXPECT_THAT(*Files::Real().List(folder.path()), IsEmpty());
  EXPECT_EQ(DraftFile::CreateIn(folder / "none").status().code(),
            absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace stoker
