#include "ctl/bucket_commands.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "base/text_table.h"
#include "ctl/command_line.h"
#include "ctl/output.h"
#include "ctl/planned_buckets.h"
#include "ctl/repository_arguments.h"
#include "nlohmann/json.hpp"
#include "planning/placement.h"
#include "planning/traffic.h"
#include "planning/warmup_plan.h"

namespace stoker {
namespace {

using Json = nlohmann::json;

// Of a model whose model.yaml says 'buckets: []'.
constexpr int kDefaultMaxBuckets = 8;

// "12.3 ms", or "29 elements" of a guess.
std::string CostText(double cost, bool measured) {
  if (!measured) return absl::StrFormat("%.0f elements", cost);
  if (cost < 1e-3) return absl::StrFormat("%.1f us", cost * 1e6);
  if (cost < 1) return absl::StrFormat("%.2f ms", cost * 1e3);
  return absl::StrFormat("%.2f s", cost);
}

std::string HowMeasured(const BucketExperience& experience) {
  if (!experience.compiled.measured()) {
    return absl::StrFormat(
        "run times: none was measured here, so that a run is taken to cost its "
        "elements and %.0f more, and one outside all buckets %.1f times that\n",
        kAssumedLaunchElements,
        experience.eager.per_element / experience.compiled.per_element);
  }
  return absl::StrFormat(
      "run times: %s and %s per element, as %d buckets were measured, "
      "%.0f %% off on average\n",
      CostText(experience.compiled.fixed, true),
      CostText(experience.compiled.per_element, true),
      experience.measured_buckets, *experience.compiled.mean_error * 100);
}

std::string Table(const std::string& title, const BucketOutlook& outlook,
                  const std::vector<std::string>& dimensions, bool measured) {
  TextTable table({"BUCKET", "REQUESTS", "PADDING", "RUN"});
  for (const BucketOutlook::Use& use : outlook.uses) {
    table.Add({BucketName(use.bucket, dimensions), Percent(use.requests),
               Percent(use.padding), CostText(use.cost, measured)});
  }
  if (outlook.outside > 0) {
    table.Add({"none", Percent(outlook.outside), "",
               CostText(outlook.outside_cost, measured)});
  }
  return absl::StrFormat("%s: %d buckets, %s a request, %s padding\n%s\n",
                         title, outlook.uses.size(),
                         CostText(outlook.cost_per_request, measured),
                         Percent(outlook.padding), table.Text());
}

Json SizesByName(const ShapeBucket& bucket,
                 const std::vector<std::string>& dimensions) {
  Json sizes = Json::object();
  for (size_t d = 0; d < dimensions.size(); ++d) {
    sizes[dimensions[d]] = bucket.sizes[d];
  }
  return sizes;
}

Json Described(const BucketOutlook& outlook,
               const std::vector<std::string>& dimensions) {
  Json buckets = Json::array();
  for (const BucketOutlook::Use& use : outlook.uses) {
    buckets.push_back({{"bucket", SizesByName(use.bucket, dimensions)},
                       {"requests", use.requests},
                       {"padding", use.padding},
                       {"cost", use.cost}});
  }
  return {{"buckets", std::move(buckets)},
          {"outside", outlook.outside},
          {"padding", outlook.padding},
          {"cost_per_request", outlook.cost_per_request}};
}

std::string Yaml(const ModelSpec& spec, const BucketOutlook& proposal) {
  const std::vector<std::string> dimensions = spec.DimensionNames();
  std::string yaml;
  // Without it the largest bucket would set it.
  if (spec.batch_dimension.has_value()) {
    absl::StrAppend(&yaml, "max_batch_size: ", spec.max_batch_size, "\n");
  }
  absl::StrAppend(&yaml, "buckets:", proposal.uses.empty() ? " []" : "", "\n");
  for (const BucketOutlook::Use& use : proposal.uses) {
    std::vector<std::string> sizes;
    for (size_t d = 0; d < dimensions.size(); ++d) {
      sizes.push_back(absl::StrCat(dimensions[d], ": ", use.bucket.sizes[d]));
    }
    absl::StrAppend(&yaml, "  - {", absl::StrJoin(sizes, ", "), "}\n");
  }
  return yaml;
}

}  // namespace

absl::StatusOr<int> BucketCommands::Propose(const std::string& model,
                                            BucketLimits limits) const {
  ASSIGN_OR_RETURN(const std::shared_ptr<const ModelSpec> spec,
                   NewestVersion(repository, toolchain, model));
  if (!spec->compile.enabled) {
    return absl::FailedPreconditionError(
        absl::StrCat("model.yaml of ", model, " says 'compile: false'"));
  }
  absl::StatusOr<TrafficRecord> traffic = ReadTraffic(cache.facts(), *spec);
  if (absl::IsNotFound(traffic.status())) {
    return absl::NotFoundError(absl::StrCat(
        traffic.status().message(), " in ", cache.entries().layers()[0].home(),
        "; stokerd writes it every 30 s and when it stops"));
  }
  RETURN_IF_ERROR(traffic.status());
  const int threads = ComputeThreads(*spec, InstanceCpus(*spec), cores);
  const BucketExperience experience =
      KnownBuckets(cache, *spec, {MachineId(), threads}, toolchain);
  std::vector<ShapeBucket> today = spec->buckets;
  if (spec->auto_buckets) {
    today = ChosenBefore(*spec, *traffic).value_or(today);
  }
  if (limits.max_buckets == 0) {
    limits.max_buckets = spec->buckets.empty()
                             ? kDefaultMaxBuckets
                             : static_cast<int>(spec->buckets.size());
  }
  ASSIGN_OR_RETURN(const BucketChoice choice,
                   ChooseBuckets(*spec, today, *traffic, experience,
                                 AllowedBuckets(limits, experience)));
  const bool measured = experience.compiled.measured();
  const std::vector<std::string> dimensions = spec->DimensionNames();
  const std::string yaml = Yaml(*spec, choice.proposal);

  ModelSpec proposed = *spec;
  proposed.buckets.clear();
  for (const BucketOutlook::Use& use : choice.proposal.uses) {
    proposed.buckets.push_back(use.bucket);
  }
  int compiles = 0;
  for (const WarmupStep& step : MakeWarmupPlan(proposed, toolchain)) {
    const bool is_there = std::any_of(
        cache.entries().layers().begin(), cache.entries().layers().end(),
        [&](const CacheLayer& layer) {
          return layer.ReadManifest(step.request.key).ok();
        });
    compiles += is_there ? 0 : 1;
  }
  const double compile_seconds =
      compiles * (experience.compile_seconds > 0 ? experience.compile_seconds
                                                 : kAssumedCompileSeconds);
  if (json) {
    PrintJson({{"model", model},
               {"requests", choice.requests},
               {"unit", measured ? "seconds" : "elements"},
               {"measured_buckets", experience.measured_buckets},
               {"today", Described(choice.today, dimensions)},
               {"proposal", Described(choice.proposal, dimensions)},
               {"saving", choice.saving},
               {"compiles", compiles},
               {"compile_seconds", compile_seconds},
               {"yaml", yaml}});
    return 0;
  }
  Print(absl::StrFormat("%s: %d requests were recorded\n", spec->Label(),
                        choice.requests));
  Print(HowMeasured(experience) + "\n");
  Print(Table("today", choice.today, dimensions, measured) + "\n");
  Print(Table("proposal", choice.proposal, dimensions, measured) + "\n");
  Print(absl::StrFormat(
      "saving: %s of the time, for %d compiles of about %.0f s\n",
      Percent(choice.saving), compiles, compile_seconds));
  Print(absl::StrCat("\n# in model.yaml, in place of what it says of these\n",
                     yaml));
  return 0;
}

void AddBucketsCommand(CommandLine& line) {
  struct Arguments {
    RepositoryArguments repository;
    int max_buckets = 0;
    double max_compile_seconds = 0;
    int64_t max_artifact_mb = 0;

    BucketLimits Limits() const {
      BucketLimits limits{.max_buckets = max_buckets,
                          .max_compile_seconds = std::nullopt,
                          .max_artifact_bytes = std::nullopt};
      if (max_compile_seconds > 0) {
        limits.max_compile_seconds = max_compile_seconds;
      }
      if (max_artifact_mb > 0) {
        limits.max_artifact_bytes = max_artifact_mb << 20;
      }
      return limits;
    }
  };
  const auto arguments = std::make_shared<Arguments>();
  CLI::App& buckets = line.Add(
      line.app(), "buckets", "the buckets that a model's traffic asks for",
      [&line, arguments](KernelCache& cache) {
        return arguments->repository.Plan(
            cache, line.json(),
            [&](const PlanCommands& with, const std::string& model) {
              return BucketCommands{.cache = with.cache,
                                    .repository = with.repository,
                                    .toolchain = with.toolchain,
                                    .cores = with.cores,
                                    .json = with.json}
                  .Propose(model, arguments->Limits());
            });
      });
  buckets.add_option("model", arguments->repository.model, "the model")
      ->required();
  arguments->repository.AddOptions(buckets)->required();
  buckets
      .add_option("--max-buckets", arguments->max_buckets,
                  "no more than this; as many as today unless given")
      ->check(CLI::Range(1, kMostBuckets));
  buckets
      .add_option("--max-compile-seconds", arguments->max_compile_seconds,
                  "no more than can be compiled in this time, one by one")
      ->check(CLI::PositiveNumber);
  buckets
      .add_option("--max-artifact-mb", arguments->max_artifact_mb,
                  "no more than have artifacts of this size, all together")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 30));
}

}  // namespace stoker
