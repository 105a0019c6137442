#include "loadtest/generator/trace.h"

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/absl_view.h"
#include "base/files.h"
#include "base/status_macros.h"

namespace stoker::loadtest {
namespace {

constexpr char kOffset[] = "offset_ms";
constexpr double kNsPerMs = 1e6;
constexpr double kMaxOffsetMs = 1e12;

// One request: column → text of its value.
using Row = std::map<std::string, std::string>;

class Reader {
 public:
  Reader(const std::string& path, const std::vector<std::string>& dimensions)
      : path_(path), dimensions_(dimensions) {}

  absl::Status Wrong(int line, const std::string& expected,
                     const std::string& got) const {
    return absl::InvalidArgumentError(
        absl::StrCat(path_, ":", line, ": expected ", expected, ", got ", got));
  }

  absl::Status Add(const Row& row, int line, Trace* trace) const {
    for (const auto& [column, text] : row) {
      const bool known =
          column == kOffset || std::find(dimensions_.begin(), dimensions_.end(),
                                         column) != dimensions_.end();
      if (!known) {
        return Wrong(
            line,
            absl::StrCat("the columns ", absl::StrJoin(dimensions_, ", "),
                         " and ", kOffset),
            absl::StrCat("a column '", column, "'"));
      }
    }
    std::vector<int64_t> sizes;
    for (const std::string& dimension : dimensions_) {
      const auto found = row.find(dimension);
      if (found == row.end())
        return Wrong(line, absl::StrCat("a column ", dimension), "none");
      int64_t size = 0;
      if (!absl::SimpleAtoi(found->second, &size) || size < 0) {
        return Wrong(line, absl::StrCat("an integer from 0 up for ", dimension),
                     absl::StrCat("'", found->second, "'"));
      }
      sizes.push_back(size);
    }
    trace->sizes.push_back(std::move(sizes));
    return AddOffset(row, line, trace);
  }

 private:
  absl::Status AddOffset(const Row& row, int line, Trace* trace) const {
    const auto found = row.find(kOffset);
    if (found == row.end()) {
      if (trace->offsets_ns.empty()) return absl::OkStatus();
      return Wrong(line, absl::StrCat(kOffset, " as in the rows before"),
                   "none");
    }
    if (trace->offsets_ns.size() + 1 < trace->sizes.size())
      return Wrong(line, absl::StrCat("no ", kOffset, ", as before"), "one");
    double offset = 0;
    if (!absl::SimpleAtod(found->second, &offset) || !(offset >= 0) ||
        offset > kMaxOffsetMs) {
      return Wrong(line, absl::StrCat("a time from 0 up for ", kOffset),
                   absl::StrCat("'", found->second, "'"));
    }
    const auto ns = static_cast<int64_t>(std::llround(offset * kNsPerMs));
    if (!trace->offsets_ns.empty() && ns < trace->offsets_ns.back())
      return Wrong(line, absl::StrCat("ascending ", kOffset), found->second);
    trace->offsets_ns.push_back(ns);
    return absl::OkStatus();
  }

  const std::string& path_;
  const std::vector<std::string>& dimensions_;
};

std::vector<std::string> Cells(const std::string& line) {
  std::vector<std::string> cells = absl::StrSplit(line, ',');
  for (std::string& cell : cells) absl::StripAsciiWhitespace(&cell);
  return cells;
}

absl::StatusOr<Row> CsvRow(const Reader& reader,
                           const std::vector<std::string>& header,
                           const std::string& line, int number) {
  const std::vector<std::string> cells = Cells(line);
  if (cells.size() != header.size()) {
    return reader.Wrong(number, absl::StrCat(header.size(), " cells"),
                        absl::StrCat(cells.size()));
  }
  Row row;
  for (size_t i = 0; i < cells.size(); ++i) {
    if (!row.emplace(header[i], cells[i]).second)
      return reader.Wrong(1, "each column once", "'" + header[i] + "' again");
  }
  return row;
}

absl::StatusOr<Row> JsonRow(const Reader& reader, const std::string& line,
                            int number) {
  const nlohmann::json object = nlohmann::json::parse(line, nullptr, false);
  if (!object.is_object())
    return reader.Wrong(number, "a JSON object", line.substr(0, 40));
  Row row;
  for (const auto& [column, value] : object.items())
    row.emplace(column,
                value.is_string() ? value.get<std::string>() : value.dump());
  return row;
}

}  // namespace

absl::StatusOr<Trace> ParseTrace(std::string_view text, const std::string& path,
                                 const std::vector<std::string>& dimensions) {
  const Reader reader(path, dimensions);
  const bool json = path.ends_with(".jsonl");
  if (!json && !path.ends_with(".csv")) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": expected a file that ends in .csv or .jsonl"));
  }
  Trace trace;
  std::vector<std::string> header;
  int number = 0;
  for (const absl::string_view piece : absl::StrSplit(Absl(text), '\n')) {
    ++number;
    const std::string line(absl::StripAsciiWhitespace(piece));
    if (line.empty()) continue;
    if (!json && header.empty()) {
      header = Cells(line);
      continue;
    }
    ASSIGN_OR_RETURN(const Row row, json
                                        ? JsonRow(reader, line, number)
                                        : CsvRow(reader, header, line, number));
    RETURN_IF_ERROR(reader.Add(row, number, &trace));
  }
  if (trace.sizes.empty())
    return reader.Wrong(number, "at least one row", "none");
  return trace;
}

absl::StatusOr<Trace> ReadTrace(const std::string& path,
                                const std::vector<std::string>& dimensions) {
  ASSIGN_OR_RETURN(const std::string text, Files::Real().Read(path));
  return ParseTrace(text, path, dimensions);
}

}  // namespace stoker::loadtest
