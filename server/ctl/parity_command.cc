#include "ctl/parity_command.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "base/absl_view.h"
#include "base/files.h"
#include "base/json_text.h"
#include "base/status_macros.h"
#include "base/text_table.h"
#include "ctl/cache_commands.h"
#include "ctl/command_line.h"
#include "ctl/output.h"
#include "ctl/planned_buckets.h"
#include "ctl/repository_arguments.h"
#include "nlohmann/json.hpp"
#include "planning/evidence_store.h"
#include "promotion/verdict.h"

namespace stoker {
namespace {

using Json = nlohmann::json;

std::string Outcome(const Verdict& verdict) {
  return verdict.promote() ? "promoted"
                           : absl::StrCat("refused: ", Absl(verdict.refusal()));
}

Json Described(const Verdict& verdict) {
  Json json = ReadJson(ParityToJson(verdict.parity));
  json.update(ReadJson(ProfitToJson(verdict.profit)));
  json["promote"] = verdict.promote();
  json["refusal"] = verdict.refusal();
  json["reason"] = verdict.reason();
  return json;
}

// The case that came closest to the limit, or passed it.
const ParityCase* Worst(const Parity& parity) {
  const auto worst = std::max_element(
      parity.cases.begin(), parity.cases.end(),
      [](const ParityCase& a, const ParityCase& b) {
        return std::pair(a.compiled_rmse.has_value(), a.max_abs_error) <
               std::pair(b.compiled_rmse.has_value(), b.max_abs_error);
      });
  return worst == parity.cases.end() ? nullptr : &*worst;
}

std::string RmseText(const ParityCase* one) {
  if (one == nullptr || !one->compiled_rmse.has_value()) return "";
  return absl::StrFormat("%.1e / %.1e", *one->compiled_rmse,
                         one->eager_rmse.value_or(0));
}

std::string ArgmaxText(const Parity& parity) {
  std::optional<double> least;
  for (const ParityCase& one : parity.cases) {
    if (!one.argmax_agreement.has_value()) continue;
    least = std::min(least.value_or(1), *one.argmax_agreement);
  }
  return least.has_value() ? absl::StrFormat("%.4g %%", *least * 100) : "";
}

std::string SpeedupText(const Profit& profit) {
  if (profit.speedup == 0) return "";
  if (profit.speedup_low == 0) return absl::StrFormat("%.2f", profit.speedup);
  return absl::StrFormat("%.2f (%.2f to %.2f)", profit.speedup,
                         profit.speedup_low, profit.speedup_high);
}

}  // namespace

absl::StatusOr<int> ShowParity(const PlanCommands& with,
                               const std::string& model,
                               const std::string& save_folder) {
  ASSIGN_OR_RETURN(const std::vector<PlannedBucket> buckets,
                   PlannedBuckets(with.cache, with.repository, with.toolchain,
                                  with.cores, model));
  if (!save_folder.empty()) {
    RETURN_IF_ERROR(Files::Real().MakeFolders(save_folder));
  }
  TextTable table({"MODEL", "BUCKET", "VERDICT", "CASES", "MAX ERROR",
                   "RMSE / EAGER'S", "SAME ARGMAX", "SPEEDUP", "WHY"});
  Json list = Json::array();
  bool notable = false;
  for (const PlannedBucket& bucket : buckets) {
    const ArtifactKey& key = bucket.step.request.key;
    const std::string label = bucket.spec->Label();
    const EvidenceStore evidence = with.EvidenceOn(*bucket.spec);
    const std::optional<ArtifactId> artifact =
        with.cache.entries().Identify(key);
    const std::optional<Verdict> verdict =
        artifact.has_value() ? evidence.ReadVerdict(*artifact) : std::nullopt;
    if (!verdict.has_value()) {
      notable = true;
      table.Add({label, bucket.step.name, "none", "", "", "", "", "",
                 "no daemon has checked it"});
      list.push_back(
          {{"model", label}, {"bucket", bucket.step.name}, {"key", key.hex()}});
      continue;
    }
    const Parity& parity = verdict->parity;
    notable |= !parity.equal;
    table.Add({label, bucket.step.name, Outcome(*verdict),
               absl::StrCat(parity.cases.size()),
               absl::StrFormat("%.1e", parity.max_abs_error),
               RmseText(Worst(parity)), ArgmaxText(parity),
               SpeedupText(verdict->profit),
               verdict->promote() ? "" : verdict->reason()});
    list.push_back({{"model", label},
                    {"bucket", bucket.step.name},
                    {"key", key.hex()},
                    {"verdict", Described(*verdict)}});
    const auto reproducer = evidence.ReadReproducer(*artifact);
    if (save_folder.empty() || parity.equal || !reproducer.has_value()) {
      continue;
    }
    const std::string path = absl::StrCat(
        save_folder, "/",
        absl::StrReplaceAll(absl::StrCat(label, "-", bucket.step.name),
                            {{":", "-"}, {",", "-"}, {"=", ""}, {"/", "-"}}),
        ".safetensors");
    RETURN_IF_ERROR(Files::Real().Write(path, *reproducer));
    list.back()["reproducer"] = path;
    if (!with.json) Print(absl::StrCat("saved ", path, "\n"));
  }
  if (with.json) {
    PrintJson(list);
  } else {
    Print(table.empty() ? "nothing is compiled for it\n" : table.Text());
  }
  return notable ? kFound : 0;
}

void AddParityCommand(CommandLine& line) {
  struct Arguments {
    RepositoryArguments repository;
    std::string save_folder;
  };
  const auto arguments = std::make_shared<Arguments>();
  CLI::App& parity =
      line.Add(line.app(), "parity", "how compiled buckets compare with eager",
               [&line, arguments](KernelCache& cache) {
                 return arguments->repository.Plan(
                     cache, line.json(),
                     [&](const PlanCommands& with, const std::string& model) {
                       return ShowParity(with, model, arguments->save_folder);
                     });
               });
  arguments->repository.AddAll(parity);
  parity.add_option("--save", arguments->save_folder,
                    "folder for the inputs and both answers of buckets that "
                    "parity refused");
}

}  // namespace stoker
