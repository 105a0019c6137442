#include "ctl/plan_commands.h"

#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "base/text_table.h"
#include "ctl/cache_commands.h"
#include "ctl/command_line.h"
#include "ctl/entry_info.h"
#include "ctl/output.h"
#include "ctl/planned_buckets.h"
#include "ctl/repository_arguments.h"
#include "nlohmann/json.hpp"
#include "planning/note_names.h"
#include "planning/placement.h"

namespace stoker {
namespace {

using Json = nlohmann::json;

struct Outlook {
  std::shared_ptr<const ModelSpec> spec;
  WarmupStep step;
  std::optional<int> layer;            // of the hit
  std::vector<std::string> owed;       // what a start would find out about it
  std::string damage;                  // why an entry that is there is none
  std::optional<std::string> refusal;  // why the compiler makes none
  const EntryInfo* nearest = nullptr;  // of a miss
  std::vector<FactorDifference> differences;  // nearest's value, then ours

  // A start would compile it.
  bool missing() const { return !layer.has_value() && !refusal.has_value(); }
};

// The halves of a verdict that are not known yet.
std::vector<std::string> Owed(const EvidenceStore& evidence,
                              const std::optional<ArtifactId>& artifact) {
  if (!artifact.has_value()) return {};
  std::vector<std::string> owed;
  const std::optional<Parity> parity = evidence.ReadParity(*artifact);
  if (!parity.has_value()) owed.push_back("parity");
  const bool refused = parity.has_value() && !parity->equal;
  if (!refused && !evidence.ReadProfit(*artifact).has_value()) {
    owed.push_back("profit");
  }
  return owed;
}

absl::StatusOr<std::vector<Outlook>> LookAhead(
    const PlanCommands& with, const std::string& model,
    const std::vector<EntryInfo>& entries) {
  ASSIGN_OR_RETURN(std::vector<PlannedBucket> buckets,
                   PlannedBuckets(with.cache, with.repository, with.toolchain,
                                  with.cores, model));
  std::vector<Outlook> outlooks;
  for (PlannedBucket& bucket : buckets) {
    Outlook outlook{.spec = std::move(bucket.spec),
                    .step = std::move(bucket.step)};
    const ArtifactKey& key = outlook.step.request.key;
    const std::vector<CacheLayer>& layers = with.cache.entries().layers();
    for (size_t i = 0; i < layers.size() && !outlook.layer; ++i) {
      const EntryCheck check = layers[i].Check(key);
      if (check.result == EntryCheck::Result::kGood) {
        outlook.layer = static_cast<int>(i);
      } else if (check.result != EntryCheck::Result::kAbsent) {
        outlook.damage = check.detail;
      }
    }
    if (!outlook.layer.has_value() && outlook.damage.empty()) {
      outlook.refusal = with.cache.facts().ReadNote(key, kRefusalNoteName);
    }
    if (outlook.layer.has_value()) {
      outlook.owed = Owed(with.EvidenceOn(*outlook.spec),
                          with.cache.entries().Identify(key));
    }
    if (outlook.missing()) {
      outlook.nearest = Nearest(entries, outlook.step.request.factors);
    }
    if (outlook.nearest != nullptr) {
      outlook.differences =
          Differences(outlook.nearest->factors, outlook.step.request.factors);
    }
    outlooks.push_back(std::move(outlook));
  }
  return outlooks;
}

std::string Where(const Outlook& outlook) {
  if (outlook.refusal.has_value()) return "refused";
  if (!outlook.layer.has_value()) return "miss";
  return *outlook.layer == 0 ? "hit"
                             : absl::StrCat("hit, ", LayerName(*outlook.layer));
}

std::string Shortened(const std::string& value) {
  return value.size() > 24 ? value.substr(0, 12) + "..." : value;
}

// "cxx: g++ 12.2.0 -> g++ 13.2.0" of each factor, or why there is none.
std::string Why(const Outlook& outlook) {
  if (outlook.layer.has_value()) {
    return outlook.owed.empty()
               ? ""
               : absl::StrCat("to check: ", absl::StrJoin(outlook.owed, ", "));
  }
  if (outlook.refusal.has_value()) return *outlook.refusal;
  if (!outlook.damage.empty()) return outlook.damage;
  if (outlook.nearest == nullptr) return "no entry to compare with";
  std::string why;
  for (const FactorDifference& one : outlook.differences) {
    absl::StrAppend(&why, why.empty() ? "" : "; ", one.factor, ": ",
                    Shortened(one.left), " -> ", Shortened(one.right));
  }
  return absl::StrCat("nearest ", outlook.nearest->key.Short(), "; ", why);
}

Json Described(const Outlook& outlook) {
  Json json = {{"model", outlook.spec->Label()},
               {"bucket", outlook.step.name},
               {"key", outlook.step.request.key.hex()},
               {"hit", outlook.layer.has_value()}};
  if (outlook.layer.has_value()) json["layer"] = *outlook.layer;
  if (!outlook.owed.empty()) json["to_check"] = outlook.owed;
  if (!outlook.damage.empty()) json["damage"] = outlook.damage;
  if (outlook.refusal.has_value()) json["refusal"] = *outlook.refusal;
  if (outlook.nearest == nullptr) return json;
  json["nearest"] = outlook.nearest->key.hex();
  for (const FactorDifference& one : outlook.differences) {
    json["differences"].push_back(
        {{"factor", one.factor}, {"nearest", one.left}, {"wanted", one.right}});
  }
  return json;
}

// What compiling it took where it was compiled last: the same program and
// bucket, else the same program, else anything.
std::optional<double> ExpectedSeconds(const Outlook& outlook,
                                      const std::vector<EntryInfo>& entries) {
  double sum[3] = {};
  int count[3] = {};
  const KeyFactors& wanted = outlook.step.request.factors;
  for (const EntryInfo& entry : entries) {
    if (entry.compile_seconds <= 0) continue;
    const auto graph = entry.factors.find("graph");
    const bool same_graph =
        graph != entry.factors.end() && graph->second == wanted.at("graph");
    const int rank =
        same_graph ? (entry.bucket == outlook.step.name ? 0 : 1) : 2;
    sum[rank] += entry.compile_seconds;
    ++count[rank];
  }
  for (int rank = 0; rank < 3; ++rank) {
    if (count[rank] > 0) return sum[rank] / count[rank];
  }
  return std::nullopt;
}

}  // namespace

EvidenceStore PlanCommands::EvidenceOn(const ModelSpec& spec) const {
  return EvidenceStore(
      spec, &cache.facts(),
      {MachineId(), ComputeThreads(spec, InstanceCpus(spec), cores)},
      /*trusted=*/true);
}

absl::StatusOr<int> PlanCommands::Explain(const std::string& model) const {
  const std::vector<EntryInfo> entries = ListEntries(cache.entries());
  ASSIGN_OR_RETURN(const std::vector<Outlook> outlooks,
                   LookAhead(*this, model, entries));
  bool missed = false;
  TextTable table({"MODEL", "BUCKET", "KEY", "CACHE", "WHY"});
  Json list = Json::array();
  for (const Outlook& outlook : outlooks) {
    missed |= outlook.missing();
    list.push_back(Described(outlook));
    table.Add({outlook.spec->Label(), outlook.step.name,
               outlook.step.request.key.Short(), Where(outlook), Why(outlook)});
  }
  if (json) {
    PrintJson(list);
  } else {
    Print(table.empty() ? "nothing is compiled for it\n" : table.Text());
  }
  return missed ? kFound : 0;
}

absl::StatusOr<std::vector<ArtifactKey>> PlanCommands::Keys(
    const std::string& model) const {
  ASSIGN_OR_RETURN(const std::vector<Outlook> outlooks,
                   LookAhead(*this, model, {}));
  std::set<ArtifactKey> keys;
  for (const Outlook& outlook : outlooks) {
    const ArtifactKey& key = outlook.step.request.key;
    if (outlook.refusal.has_value()) continue;
    if (!outlook.layer.has_value()) {
      return absl::NotFoundError(
          absl::StrCat("the cache has no entry ", key.Short(), " for ",
                       outlook.spec->Label(), " ", outlook.step.name,
                       ": fill it with stokerd --warm-only"));
    }
    keys.insert(key);
  }
  return std::vector<ArtifactKey>(keys.begin(), keys.end());
}

absl::StatusOr<int> PlanCommands::Plan(const std::string& model) const {
  const std::vector<EntryInfo> entries = ListEntries(cache.entries());
  ASSIGN_OR_RETURN(const std::vector<Outlook> outlooks,
                   LookAhead(*this, model, entries));
  // Two versions with one graph need one compile.
  std::map<ArtifactKey, std::optional<double>> compiles;
  std::map<const ModelSpec*, absl::StatusOr<std::vector<double>>> pay_backs;
  TextTable table(
      {"MODEL", "BUCKET", "KEY", "CACHE", "EXPECTED", "PAYS BACK", "WHY"});
  Json list = Json::array();
  for (const Outlook& outlook : outlooks) {
    Json row = Described(outlook);
    std::string expected;
    if (outlook.missing()) {
      const ArtifactKey& key = outlook.step.request.key;
      const bool first = !compiles.contains(key);
      const std::optional<double> seconds = ExpectedSeconds(outlook, entries);
      if (first) compiles[key] = seconds;
      expected = !first                ? "shared"
                 : seconds.has_value() ? SecondsText(*seconds)
                                       : "unknown";
      if (seconds.has_value()) row["expected_seconds"] = *seconds;
    }
    const ModelSpec* spec = outlook.spec.get();
    if (!pay_backs.contains(spec)) {
      pay_backs.emplace(spec, PayBackOf(cache, *spec, toolchain, cores));
    }
    std::string pays_back;  // empty: nobody knows
    const auto& pay_back = pay_backs.at(spec);
    if (pay_back.ok() && !outlook.step.dynamic()) {
      const double requests =
          (*pay_back)[static_cast<size_t>(outlook.step.bucket)];
      pays_back = std::isinf(requests)
                      ? "never"
                      : absl::StrFormat("after %.0f requests", requests);
      row["pays_back_requests"] =
          std::isinf(requests) ? Json(nullptr) : Json(requests);
    }
    table.Add({spec->Label(), outlook.step.name,
               outlook.step.request.key.Short(), Where(outlook), expected,
               pays_back, Why(outlook)});
    list.push_back(std::move(row));
  }
  double total = 0;
  int unknown = 0;
  for (const auto& [key, seconds] : compiles) {
    total += seconds.value_or(0);
    unknown += seconds.has_value() ? 0 : 1;
  }
  if (json) {
    PrintJson(Json{{"buckets", std::move(list)},
                   {"compiles", compiles.size()},
                   {"expected_seconds", total},
                   {"compiles_of_unknown_length", unknown}});
    return 0;
  }
  if (!table.empty()) Print(table.Text() + "\n");
  Print(absl::StrCat("a start here needs ", compiles.size(), " compiles"));
  if (!compiles.empty()) {
    Print(absl::StrFormat(", about %.0f s one after another", total));
    if (unknown > 0)
      Print(absl::StrCat(" and ", unknown, " of unknown length"));
  }
  Print("\n");
  return 0;
}

void AddPlanCommand(CommandLine& line) {
  const auto arguments = std::make_shared<RepositoryArguments>();
  arguments->AddAll(line.Add(
      line.app(), "plan", "what a start would compile here, how long, and why",
      [&line, arguments](KernelCache& cache) {
        return arguments->Plan(cache, line.json(), &PlanCommands::Plan);
      }));
}

void AddCacheExplainCommand(CommandLine& line, CLI::App& to) {
  const auto arguments = std::make_shared<RepositoryArguments>();
  arguments->AddAll(line.Add(to, "explain",
                             "for each bucket of a model: a hit, or the "
                             "nearest entry and what differs",
                             [&line, arguments](KernelCache& cache) {
                               return arguments->Plan(cache, line.json(),
                                                      &PlanCommands::Explain);
                             }));
}

}  // namespace stoker
