#include "telemetry/request_line.h"

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/absl_view.h"
#include "base/json_text.h"
#include "nlohmann/json.hpp"

namespace stoker {
namespace {

bool IsPlain(char c) { return c > ' ' && c < 0x7f && c != '"' && c != '\\'; }

// One field after the other, in the format's way.
class FieldWriter {
 public:
  FieldWriter(LineFormat format, std::string& out)
      : json_(format == LineFormat::kJson), out_(out) {
    if (json_) out_ += '{';
  }
  void End() {
    if (json_) out_ += '}';
  }

  void Text(const char* name, std::string_view value) {
    if (value.empty()) return;
    Name(name);
    const bool plain = std::all_of(value.begin(), value.end(), IsPlain) &&
                       (json_ || value.find('=') == std::string_view::npos);
    if (plain) {
      absl::StrAppend(&out_, json_ ? "\"" : "", Absl(value), json_ ? "\"" : "");
    } else {
      out_ += JsonText(std::string(value), {.ascii = true});
    }
  }
  void Number(const char* name, uint64_t value) {
    Name(name);
    absl::StrAppend(&out_, value);
  }
  void Microseconds(const char* name, absl::Duration value) {
    const int64_t count = absl::ToInt64Microseconds(value);
    Number(name, static_cast<uint64_t>(std::max<int64_t>(count, 0)));
  }

 private:
  void Name(const char* name) {
    if (!first_) out_ += json_ ? ',' : ' ';
    first_ = false;
    if (json_) {
      absl::StrAppend(&out_, "\"", name, "\":");
    } else {
      absl::StrAppend(&out_, name, "=");
    }
  }

  const bool json_;
  std::string& out_;
  bool first_ = true;
};

}  // namespace

void AppendRequestLine(const RequestRecord& record, LineFormat format,
                       std::string& out) {
  FieldWriter line(format, out);
  line.Text("time", absl::FormatTime("%Y-%m-%dT%H:%M:%E6SZ", record.arrived,
                                     absl::UTCTimeZone()));
  line.Text("status", absl::StatusCodeToString(record.status));
  line.Text("protocol", record.protocol);
  line.Text("peer", record.peer);
  line.Text("caller", record.caller);
  line.Text("id", record.id);
  line.Text("model", record.model);
  if (record.version > 0) {
    line.Number("version", static_cast<uint64_t>(record.version));
  }
  line.Number("bytes_in", record.bytes_in);
  line.Number("bytes_out", record.bytes_out);
  if (!record.tier.empty()) {
    line.Text("bucket", record.bucket.empty() ? "none" : record.bucket);
    line.Text("tier", record.tier);
    line.Number("rows", static_cast<uint64_t>(record.rows));
    line.Number("batch_rows", static_cast<uint64_t>(record.batch_rows));
    line.Microseconds("queue_us", record.queue);
    line.Microseconds("assemble_us", record.assemble);
    line.Microseconds("run_us", record.run);
    line.Microseconds("split_us", record.split);
  }
  line.Microseconds("total_us", record.total);
  line.Text("error", record.error);
  line.End();
}

}  // namespace stoker
