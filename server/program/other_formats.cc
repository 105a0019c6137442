#include "program/other_formats.h"

#include <algorithm>
#include <cstddef>

namespace stoker {
namespace {

// An archive's directory, which has its members' names, is at its end.
constexpr size_t kDirectoryBytes = size_t{1} << 20;
constexpr size_t kHeadBytes = 64;

bool Has(std::string_view text, std::string_view part) {
  return text.find(part) != text.npos;
}

std::string_view FormatOfArchive(std::string_view directory) {
  // Of torch 2.8, with its weights in a pickle, and until 2.7.
  if (Has(directory, "/data/weights/model.pt") ||
      Has(directory, "serialized_exported_program.json")) {
    return "a program that an older torch exported: export the model again "
           "with torch 2.11, or convert this one: python -m compiler.export "
           "program:FILE";
  }
  if (Has(directory, "archive_format")) return "";
  if (Has(directory, "/constants.pkl")) {
    return "a TorchScript archive: export the model itself with "
           "torch.export.export, and save that with torch.export.save";
  }
  if (Has(directory, "/data.pkl")) {
    return "what torch.save wrote, such as weights: load it into the model, "
           "and export that with torch.export.export";
  }
  return "";
}

std::string_view FormatOfFile(std::string_view head) {
  if (head.substr(0, 2) == "PK") return "";
  if (head.size() >= 8 && head.substr(4, 2) == "ET") {
    return "a program for ExecuTorch: save the exported program with "
           "torch.export.save before it is lowered";
  }
  // Protocols 2 to 5; then what torch.save wrote until 1.6, or any pickle.
  if (head.size() >= 2 && head[0] == '\x80' && head[1] >= 2 && head[1] <= 5) {
    return "a pickle, which is never opened: export the model with "
           "torch.export.export";
  }
  if (head.size() >= 9 && head[8] == '{' &&
      head.substr(5, 3) == std::string_view("\0\0\0", 3)) {
    return "a safetensors file: load it into the model, and export that with "
           "torch.export.export";
  }
  if (!head.empty() && head[0] == '\x08' && Has(head, "pytorch")) {
    return "an ONNX model: export the model itself with torch.export.export";
  }
  return "";
}

}  // namespace

std::string_view OtherFormat(std::string_view bytes) {
  const std::string_view head = bytes.substr(0, kHeadBytes);
  const std::string_view found = FormatOfFile(head);
  if (!found.empty() || head.substr(0, 2) != "PK") return found;
  const size_t directory = std::min(bytes.size(), kDirectoryBytes);
  return FormatOfArchive(bytes.substr(bytes.size() - directory));
}

}  // namespace stoker
