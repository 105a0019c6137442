#include "program/other_formats.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/fakes/zip_writer.h"

namespace stoker {
namespace {

using ::testing::StartsWith;

std::string Archive(const std::vector<std::string>& names) {
  ZipWriter zip;
  for (const std::string& name : names) {
    ZipMember member;
    member.name = name;
    member.content = "content";
    zip.Add(member);
  }
  return zip.Finish();
}

TEST(OtherFormatsTest, Archives) {
  EXPECT_EQ(OtherFormat(Archive({"m/archive_format", "m/data.pkl"})), "");
  EXPECT_EQ(OtherFormat(Archive({"m/notes.txt"})), "");
  EXPECT_THAT(OtherFormat(Archive({"m/data.pkl", "m/constants.pkl"})),
              StartsWith("a TorchScript archive"));
  EXPECT_THAT(OtherFormat(Archive({"m/data.pkl", "m/data/0"})),
              StartsWith("what torch.save wrote"));
  for (const auto& members :
       {std::vector<std::string>{"serialized_exported_program.json"},
        std::vector<std::string>{"m/archive_format",
                                 "m/data/weights/model.pt"}}) {
    EXPECT_THAT(OtherFormat(Archive(members)),
                StartsWith("a program that an older torch exported"));
  }
}

TEST(OtherFormatsTest, Files) {
  const struct {
    std::string bytes;
    std::string what;
  } cases[] = {
      {std::string("\x1c\0\0\0ET12", 8) + "rest", "a program for ExecuTorch"},
      {"\x80\x02\x8a\x0al\xfc\x9c\x46", "a pickle"},
      {"\x80\x05\x95", "a pickle"},
      {std::string("\x40\0\0\0\0\0\0\0{\"w\":", 13), "a safetensors file"},
      {"\x08\x08\x12\x07pytorch\x1a\x05", "an ONNX model"},
  };
  for (const auto& c : cases) {
    EXPECT_THAT(OtherFormat(c.bytes), StartsWith(c.what));
  }
  for (const std::string text : {"", "P", "PK", "\x80", "text", "{}", "\x08"}) {
    EXPECT_EQ(OtherFormat(text), "") << text;
  }
}

}  // namespace
}  // namespace stoker
