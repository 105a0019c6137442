#include "planning/traffic.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/absl_view.h"
#include "base/json_text.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "nlohmann/json.hpp"

namespace stoker {
namespace {

using Json = nlohmann::json;

constexpr int kSchema = 1;
constexpr size_t kMaxDimensions = 64;
constexpr size_t kMaxChosen = 256;
// A file may be anybody's: sizes and counts beyond these would overflow sums.
constexpr int64_t kMaxSize = int64_t{1} << 40;
constexpr uint64_t kMaxCount = uint64_t{1} << 40;

absl::Status BadTraffic(const std::string& what) {
  return absl::InvalidArgumentError(
      absl::StrCat("traffic: expected ", what, ", got something else"));
}

Json SizesJson(const DimensionSizes& sizes) {
  return Json(std::vector<int64_t>(sizes.begin(), sizes.end()));
}

Json CountsJson(const std::vector<ShapeCount>& shapes) {
  Json list = Json::array();
  for (const ShapeCount& shape : shapes) {
    list.push_back({{"sizes", SizesJson(shape.sizes)}, {"count", shape.count}});
  }
  return list;
}

absl::StatusOr<DimensionSizes> ReadSizes(const Json& list, size_t rank) {
  if (!list.is_array() || list.size() != rank) {
    return BadTraffic(absl::StrCat("a list of ", rank, " sizes"));
  }
  DimensionSizes sizes;
  for (const Json& size : list) {
    if (!size.is_number_unsigned() || size.get<uint64_t>() > kMaxSize) {
      return BadTraffic(absl::StrCat("a size from 0 to ", kMaxSize));
    }
    sizes.push_back(size.get<int64_t>());
  }
  return sizes;
}

absl::StatusOr<std::vector<ShapeCount>> ReadCounts(const Json& list,
                                                   size_t rank, size_t most) {
  if (!list.is_array() || list.size() > most) {
    return BadTraffic(absl::StrCat("a list of at most ", most, " shapes"));
  }
  std::vector<ShapeCount> shapes;
  for (const Json& one : list) {
    if (!one.is_object() || !one.contains("sizes") || !one.contains("count")) {
      return BadTraffic("sizes and count of a shape");
    }
    ShapeCount shape;
    ASSIGN_OR_RETURN(shape.sizes, ReadSizes(one["sizes"], rank));
    const Json& count = one["count"];
    if (!count.is_number_unsigned() || count.get<uint64_t>() == 0 ||
        count.get<uint64_t>() > kMaxCount) {
      return BadTraffic(absl::StrCat("a count from 1 to ", kMaxCount));
    }
    shape.count = count.get<uint64_t>();
    shapes.push_back(std::move(shape));
  }
  return shapes;
}

TrafficRecord NoTraffic(const ModelSpec& spec) {
  return {.dimensions = spec.DimensionNames(),
          .requests = {},
          .runs = {},
          .chosen = std::nullopt};
}

void Restore(const std::vector<ShapeCount>& shapes, ShapeSketch& sketch) {
  for (const ShapeCount& shape : shapes) {
    sketch.Record(shape.sizes, shape.count);
  }
}

}  // namespace

std::string TrafficToJson(const TrafficRecord& record) {
  Json document = {{"schema", kSchema},
                   {"dimensions", record.dimensions},
                   {"requests", CountsJson(record.requests)},
                   {"runs", CountsJson(record.runs)}};
  if (record.chosen.has_value()) {
    document["chosen"] = Json::array();
    for (const ShapeBucket& bucket : *record.chosen) {
      document["chosen"].push_back(SizesJson(bucket.sizes));
    }
  }
  return JsonText(document, {.indent = 1});
}

absl::StatusOr<TrafficRecord> ParseTraffic(const std::string& json) {
  const Json document = ReadJson(json);
  if (!document.is_object()) return BadTraffic("a JSON object");
  for (const char* field : {"schema", "dimensions", "requests", "runs"}) {
    if (!document.contains(field))
      return BadTraffic(absl::StrCat("a field ", field));
  }
  if (document["schema"] != kSchema) {
    return BadTraffic(absl::StrCat("schema ", kSchema));
  }
  TrafficRecord record;
  const Json& dimensions = document["dimensions"];
  if (!dimensions.is_array() || dimensions.size() > kMaxDimensions) {
    return BadTraffic("a list of dimensions");
  }
  for (const Json& name : dimensions) {
    if (!name.is_string()) return BadTraffic("a dimension's name");
    record.dimensions.push_back(name.get<std::string>());
  }
  const size_t rank = record.dimensions.size();
  ASSIGN_OR_RETURN(record.requests, ReadCounts(document["requests"], rank,
                                               ModelTraffic::kMaxShapes));
  ASSIGN_OR_RETURN(record.runs,
                   ReadCounts(document["runs"], 2, ModelTraffic::kMaxRunKinds));
  if (!document.contains("chosen")) return record;
  const Json& chosen = document["chosen"];
  if (!chosen.is_array() || chosen.size() > kMaxChosen) {
    return BadTraffic("a list of chosen buckets");
  }
  record.chosen.emplace();
  for (const Json& sizes : chosen) {
    ShapeBucket bucket;
    ASSIGN_OR_RETURN(bucket.sizes, ReadSizes(sizes, rank));
    record.chosen->push_back(std::move(bucket));
  }
  return record;
}

ModelTraffic::ModelTraffic(const TrafficRecord& start)
    : dimensions_(start.dimensions),
      requests_(kMaxShapes),
      runs_(kMaxRunKinds),
      chosen_(start.chosen) {
  Restore(start.requests, requests_);
  Restore(start.runs, runs_);
}

void ModelTraffic::SetChosen(std::vector<ShapeBucket> buckets) {
  absl::MutexLock lock(&mu_);
  chosen_ = std::move(buckets);
}

TrafficRecord ModelTraffic::Read() const {
  TrafficRecord record{.dimensions = dimensions_,
                       .requests = requests_.Counts(),
                       .runs = runs_.Counts(),
                       .chosen = std::nullopt};
  absl::MutexLock lock(&mu_);
  record.chosen = chosen_;
  return record;
}

absl::StatusOr<TrafficRecord> ReadTraffic(const FactStore& facts,
                                          const ModelSpec& spec) {
  ASSIGN_OR_RETURN(const std::string text,
                   facts.ReadRecord(spec.name, kTrafficRecord));
  ASSIGN_OR_RETURN(TrafficRecord record, ParseTraffic(text));
  if (record.dimensions != spec.DimensionNames()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "recorded traffic of model ", spec.name,
        " has other dimensions: ", absl::StrJoin(record.dimensions, ", "),
        " instead of ", absl::StrJoin(spec.DimensionNames(), ", ")));
  }
  return record;
}

TrafficRecord LoadTraffic(FactStore& facts, const ModelSpec& spec) {
  absl::StatusOr<TrafficRecord> record = ReadTraffic(facts, spec);
  if (record.ok()) return *std::move(record);
  const std::string_view why = Std(record.status().message());
  if (absl::IsInvalidArgument(record.status())) {
    facts.SetRecordAside(spec.name, kTrafficRecord, why);
  } else if (!absl::IsNotFound(record.status())) {
    log::Warn("{}: recorded traffic is not used: {}", spec.name, why);
  }
  return NoTraffic(spec);
}

std::shared_ptr<ModelTraffic> TrafficKeeper::Of(const ModelSpec& spec) {
  Kept& kept = kept_[spec.name];
  if (kept.traffic == nullptr ||
      kept.saved.dimensions != spec.DimensionNames()) {
    kept.saved =
        facts_ != nullptr ? LoadTraffic(*facts_, spec) : NoTraffic(spec);
    kept.traffic = std::make_shared<ModelTraffic>(kept.saved);
  }
  return kept.traffic;
}

std::shared_ptr<RequestSamples> TrafficKeeper::SamplesOf(
    const ModelSpec& spec) {
  Kept& kept = kept_[spec.name];
  if (kept.samples != nullptr && kept.most_samples == spec.parity.recorded) {
    return kept.samples;
  }
  std::vector<SampledRequest> start;
  if (kept.samples != nullptr) {
    start = kept.samples->Read();
  } else if (facts_ != nullptr && spec.parity.recorded > 0) {
    absl::StatusOr<std::string> bytes =
        facts_->ReadRecord(spec.name, kRequestsRecord);
    absl::StatusOr<std::vector<SampledRequest>> samples =
        bytes.ok() ? ParseSamples(*bytes) : bytes.status();
    if (samples.ok()) {
      start = *std::move(samples);
    } else if (!absl::IsNotFound(samples.status())) {
      log::Warn("{}: recorded requests are not used: {}", spec.name,
                Std(samples.status().message()));
    }
  }
  kept.most_samples = spec.parity.recorded;
  kept.samples = std::make_shared<RequestSamples>(
      static_cast<size_t>(spec.parity.recorded), std::move(start));
  kept.saved_changes = 0;
  return kept.samples;
}

void TrafficKeeper::Save() {
  if (facts_ == nullptr) return;
  for (auto& [model, kept] : kept_) {
    const absl::Status saved = Save(model, kept);
    if (saved.ok() || kept.warned) continue;
    log::Warn("{}: traffic is not kept: {}", model, Std(saved.message()));
    kept.warned = true;
  }
}

absl::Status TrafficKeeper::Save(const std::string& model, Kept& kept) {
  if (kept.traffic != nullptr) {
    TrafficRecord now = kept.traffic->Read();
    if (now != kept.saved) {
      RETURN_IF_ERROR(
          facts_->WriteRecord(model, kTrafficRecord, TrafficToJson(now)));
      kept.saved = std::move(now);
    }
  }
  if (kept.samples == nullptr) return absl::OkStatus();
  const uint64_t changes = kept.samples->changes();
  if (changes == kept.saved_changes) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::string bytes,
                   SamplesToBytes(kept.samples->Read()));
  RETURN_IF_ERROR(facts_->WriteRecord(model, kRequestsRecord, bytes));
  kept.saved_changes = changes;
  return absl::OkStatus();
}

}  // namespace stoker
