#include "telemetry/timeline.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/absl_view.h"
#include "base/json_text.h"
#include "nlohmann/json.hpp"

namespace stoker {
namespace {

std::string Quoted(std::string_view text) {
  return JsonText(std::string(text), {.ascii = true});
}

std::string Label(const RequestRecord& record) {
  return absl::StrCat(record.model, ":", record.version);
}

class Writer {
 public:
  explicit Writer(const Recording& recording) : recording_(recording) {}

  std::string Write();

 private:
  // Microseconds since the recording began, with those of before below zero.
  std::string At(absl::Time time) const {
    return absl::StrFormat("%.3f",
                           absl::ToDoubleMicroseconds(time - recording_.began));
  }
  static std::string Took(absl::Duration duration) {
    return absl::StrFormat("%.3f", absl::ToDoubleMicroseconds(duration));
  }

  void Event(std::string_view fields) {
    absl::StrAppend(&out_, out_.empty() ? "" : ",\n", "{\"pid\":1,",
                    Absl(fields), "}");
  }
  // The row of that name, which there is from then on.
  int Row(const std::string& name) {
    const auto [row, is_new] =
        rows_.emplace(name, static_cast<int>(rows_.size()) + 1);
    if (is_new) {
      Event(absl::StrCat(
          "\"ph\":\"M\",\"name\":\"thread_name\",\"tid\":", row->second,
          ",\"args\":{\"name\":", Quoted(name), "}"));
    }
    return row->second;
  }
  void Piece(int row, std::string_view name, absl::Time start,
             absl::Duration took, const std::string& arguments = "") {
    Event(absl::StrCat("\"ph\":\"X\",\"tid\":", row, ",\"name\":", Quoted(name),
                       ",\"ts\":", At(start), ",\"dur\":", Took(took),
                       arguments.empty() ? "" : ",\"args\":{", arguments,
                       arguments.empty() ? "" : "}"));
  }

  void Batch(const RequestRecord& record);
  void Request(const RequestRecord& record, size_t number);
  void Work(const WorkRecord& record);
  void Waiting();

  const Recording& recording_;
  std::string out_;
  std::map<std::string, int> rows_;
  std::set<uint64_t> batches_;
};

// One that has run, and is no pipeline's, whose steps were in batches of
// others.
bool HasBatch(const RequestRecord& record) {
  return !record.tier.empty() && record.steps.empty();
}

void Writer::Batch(const RequestRecord& record) {
  if (!batches_.insert(record.batch).second) return;
  const int row =
      Row(record.thread < 0
              ? absl::StrCat(Label(record), " quick runs")
              : absl::StrCat(Label(record), " device thread ", record.thread));
  absl::Time at = record.arrived + record.begun;
  const absl::Duration all = record.assemble + record.run + record.split;
  Piece(row, record.bucket.empty() ? "no bucket" : record.bucket, at, all,
        absl::StrCat("\"batch\":", record.batch, ",\"rows\":",
                     record.batch_rows, ",\"tier\":", Quoted(record.tier)));
  for (const auto& [name, took] :
       {std::pair{"assemble", record.assemble}, std::pair{"run", record.run},
        std::pair{"split", record.split}}) {
    Piece(row, name, at, took);
    at += took;
  }
}

// Requests overlap, so they have a row each, which viewers put together.
void Writer::Request(const RequestRecord& record, size_t number) {
  const auto mark = [&](const char* phase, std::string_view name,
                        absl::Time time, const std::string& arguments = "") {
    Event(absl::StrCat(
        "\"ph\":\"", phase, "\",\"cat\":\"request\",\"id\":", number,
        ",\"tid\":0,\"name\":", Quoted(name), ",\"ts\":", At(time),
        arguments.empty() ? "" : ",\"args\":{", arguments,
        arguments.empty() ? "" : "}"));
  };
  const std::string name =
      record.version > 0 ? Label(record) : absl::StrCat("refused");
  mark("b", name, record.arrived,
       absl::StrCat(
           "\"id\":", Quoted(record.id), ",\"peer\":", Quoted(record.peer),
           ",\"rows\":", record.rows, ",\"batch\":", record.batch,
           ",\"status\":", Quoted(absl::StatusCodeToString(record.status))));
  for (const RequestRecord::Step& step : record.steps) {
    mark("b", step.name, record.arrived + step.after);
    mark("e", step.name, record.arrived + step.after + step.total);
  }
  if (HasBatch(record)) {
    const absl::Time left = record.arrived + record.dequeued;
    mark("b", "queue", left - record.queue);
    mark("e", "queue", left);
  }
  mark("e", name, record.arrived + record.total);
}

void Writer::Work(const WorkRecord& record) {
  const int row = Row(absl::StrCat(record.name, "s"));
  std::string arguments = absl::StrCat("\"bucket\":", Quoted(record.bucket));
  if (!record.error.empty()) {
    absl::StrAppend(&arguments, ",\"error\":", Quoted(record.error));
  }
  Piece(row,
        absl::StrCat(record.name, " ", record.model, ":", record.version, " ",
                     record.bucket),
        record.began, record.took, arguments);
}

// How many of a version's requests are in its queue.
void Writer::Waiting() {
  std::map<std::string, std::vector<std::pair<absl::Time, int>>> changes;
  for (const RequestRecord& record : recording_.requests) {
    if (!HasBatch(record)) continue;
    const absl::Time left = record.arrived + record.dequeued;
    auto& of_version = changes[Label(record)];
    of_version.emplace_back(left - record.queue, 1);
    of_version.emplace_back(left, -1);
  }
  for (auto& [label, of_version] : changes) {
    // Who comes before who leaves: it may be the same.
    std::sort(
        of_version.begin(), of_version.end(), [](const auto& a, const auto& b) {
          return a.first != b.first ? a.first < b.first : a.second > b.second;
        });
    int waiting = 0;
    for (const auto& [time, change] : of_version) {
      waiting += change;
      Event(absl::StrCat("\"ph\":\"C\",\"name\":", Quoted(label + " waiting"),
                         ",\"ts\":", At(time),
                         ",\"args\":{\"requests\":", waiting, "}"));
    }
  }
}

std::string Writer::Write() {
  Event(
      "\"ph\":\"M\",\"name\":\"process_name\",\"args\":{\"name\":"
      "\"stokerd\"}");
  size_t number = 0;
  for (const RequestRecord& record : recording_.requests) {
    if (HasBatch(record)) Batch(record);
    Request(record, ++number);
  }
  for (const WorkRecord& record : recording_.work) Work(record);
  Waiting();
  return absl::StrCat(
      "{\"traceEvents\":[\n", out_, "\n],\"displayTimeUnit\":\"ms\",",
      "\"otherData\":{\"began\":",
      Quoted(absl::FormatTime(absl::RFC3339_full, recording_.began,
                              absl::UTCTimeZone())),
      ",\"seconds\":", absl::ToDoubleSeconds(recording_.took),
      ",\"requests\":", recording_.requests.size(),
      ",\"requests_left_out\":", recording_.left_out, "}}\n");
}

}  // namespace

std::string TimelineJson(const Recording& recording) {
  return Writer(recording).Write();
}

}  // namespace stoker
