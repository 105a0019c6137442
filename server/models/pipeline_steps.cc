// Lifecycle's part about versions that are made of others: such a one is loaded
// when what its steps name serves, and made anew when that changes.

#include <algorithm>
#include <deque>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/absl_view.h"
#include "base/log.h"
#include "models/lifecycle.h"
#include "models/model_version.h"
#include "models/pipeline_version.h"
#include "models/version_labels.h"
#include "pipelines/pipeline_interface.h"
#include "pipelines/tokenizers.h"
#include "repository/pipeline_spec.h"

namespace stoker {
namespace {

using Steps = std::vector<std::shared_ptr<StepModel>>;

// Of pipelines in pipelines: a request of the outermost takes as many.
constexpr size_t kMaxDepth = 8;

absl::StatusOr<Steps> ReadTokenizers(const PipelineSpec& pipeline,
                                     const Tokenizers* tokenizers) {
  Steps steps;
  for (const PipelineStep& step : pipeline.steps) {
    steps.emplace_back();
    if (!step.is_tokenizer()) continue;
    if (tokenizers == nullptr) {
      return absl::UnimplementedError("this server has no tokenizers");
    }
    absl::StatusOr<std::shared_ptr<StepModel>> read = tokenizers->Load(step);
    if (!read.ok()) {
      return absl::Status(
          read.status().code(),
          absl::StrCat("step '", step.name, "': ", read.status().message()));
    }
    steps.back() = *std::move(read);
  }
  return steps;
}

bool HasTokenizer(const PipelineSpec& pipeline) {
  return std::any_of(pipeline.steps.begin(), pipeline.steps.end(),
                     [](const auto& step) { return step.is_tokenizer(); });
}

}  // namespace

void Lifecycle::LoadPipeline(const std::shared_ptr<Managed>& managed) {
  Transition(*managed, VersionState::kLoading);
  const std::shared_ptr<const ModelSpec> spec = managed->spec;
  if (!HasTokenizer(*spec->pipeline)) {
    managed->tokenizers = std::make_shared<const absl::StatusOr<Steps>>(
        Steps(spec->pipeline->steps.size()));
    return;
  }
  managed->loader =
      Thread(absl::StrCat("load-", managed->model),
             [spec, tokenizers = deps_.tokenizers, events = events_,
              weak = std::weak_ptr<Managed>(managed)] {
               const auto read = std::make_shared<const absl::StatusOr<Steps>>(
                   ReadTokenizers(*spec->pipeline, tokenizers));
               events->Post([weak, read] {
                 if (const auto known = weak.lock()) known->tokenizers = read;
               });
             });
}

void Lifecycle::SettlePipelines() {
  // One that comes to serve may be a step of others.
  for (size_t round = 0; round <= kMaxDepth; ++round) {
    bool changed = false;
    // Those that are added on the way come in the next round.
    const std::deque<std::shared_ptr<Managed>> known = versions_;
    for (const std::shared_ptr<Managed>& managed : known) {
      if (managed->wanted && managed->spec != nullptr &&
          managed->spec->pipeline != nullptr) {
        changed |= SettlePipeline(*managed);
      }
    }
    if (!changed) return;
    Reconcile();
  }
}

bool Lifecycle::SettlePipeline(Managed& managed) {
  const bool serves = managed.state == VersionState::kServing;
  const bool failed = managed.state == VersionState::kFailed;
  if (!serves && !failed && managed.state != VersionState::kLoading) {
    return false;
  }
  Outlook outlook = OutlookOf(managed);
  if (serves && outlook.kind == Outlook::Kind::kReady &&
      outlook.steps == managed.steps) {
    return false;
  }
  std::shared_ptr<const ModelSpec> spec;
  if (outlook.kind == Outlook::Kind::kReady) {
    std::vector<const ModelSpec*> models;
    for (size_t i = 0; i < outlook.steps.size(); ++i) {
      models.push_back(outlook.steps[i] != nullptr
                           ? outlook.steps[i].get()
                           : &(**managed.tokenizers)[i]->spec());
    }
    absl::StatusOr<ModelSpec> made = WithInterface(*managed.spec, models);
    if (made.ok()) {
      spec = std::make_shared<const ModelSpec>(*std::move(made));
    } else {
      outlook = {
          Outlook::Kind::kFails, std::string(made.status().message()), {}};
    }
  }
  if (failed) {
    if (outlook.kind == Outlook::Kind::kFails) {
      managed.reason = outlook.why;
      return false;
    }
    versions_.push_back(Successor(managed));
    return true;
  }
  if (serves && spec == nullptr) {
    log::Warn("{}: {}", managed.spec->Label(), outlook.why);
    versions_.push_back(Successor(managed));
    BeginDrain(managed);
    return true;
  }
  if (outlook.kind == Outlook::Kind::kWaits) {
    managed.reason = outlook.why;
    return false;
  }
  if (spec == nullptr) {
    Transition(managed, VersionState::kFailed, outlook.why);
    return true;
  }
  MakePipeline(managed, outlook, std::move(spec));
  return true;
}

void Lifecycle::MakePipeline(Managed& managed, const Outlook& outlook,
                             std::shared_ptr<const ModelSpec> spec) {
  if (managed.request_series == nullptr) {
    managed.request_series =
        std::make_shared<MetricScope>(metrics_, VersionLabels(*spec));
  }
  managed.steps = outlook.steps;
  managed.pipeline = std::make_shared<PipelineVersion>(
      std::move(spec), **managed.tokenizers,
      managed.pipeline == nullptr ? nullptr : managed.pipeline->shared_stats(),
      managed.request_series, published_, *deps_.clock);
  if (managed.state != VersionState::kServing) {
    Transition(managed, VersionState::kServing);
  }
}

Lifecycle::Outlook Lifecycle::OutlookOf(const Managed& managed) const {
  Outlook outlook;
  if (managed.tokenizers == nullptr) {
    return {Outlook::Kind::kWaits, "reading its tokenizer", {}};
  }
  if (!managed.tokenizers->ok()) {
    return {Outlook::Kind::kFails,
            std::string(managed.tokenizers->status().message()),
            {}};
  }
  std::vector<std::string> way;
  if (std::string circle = CircleOf(managed.model, way); !circle.empty()) {
    return {Outlook::Kind::kFails, std::move(circle), {}};
  }
  for (const PipelineStep& step : managed.spec->pipeline->steps) {
    outlook.steps.push_back(step.is_tokenizer() ? nullptr
                                                : FindStep(step, outlook));
  }
  return outlook;
}

std::shared_ptr<const ModelSpec> Lifecycle::FindStep(const PipelineStep& step,
                                                     Outlook& outlook) const {
  int64_t number = step.version;
  if (!step.alias.empty()) {
    const auto aliases = aliases_.find(step.model);
    if (aliases != aliases_.end()) {
      const auto named = aliases->second.now().find(step.alias);
      if (named != aliases->second.now().end()) number = named->second.version;
    }
  }
  const Managed* best = nullptr;
  const Managed* coming = nullptr;
  const Managed* failed = nullptr;
  for (const auto& other : versions_) {
    if (other->model != step.model ||
        (number != 0 && other->version != number &&
         // Of what can't be read nobody knows the versions.
         other->version != 0)) {
      continue;
    }
    if (other->state == VersionState::kServing || GoesToRest(*other)) {
      if (best == nullptr || other->version >= best->version) {
        best = other.get();
      }
    } else if (other->wanted && OnItsWay(other->state)) {
      coming = other.get();
    } else if (other->wanted && other->state == VersionState::kFailed) {
      failed = other.get();
    }
  }
  if (best != nullptr && (step.alias.empty() || number != 0)) {
    if (best->running != nullptr) return best->running->shared_spec();
    return best->pipeline != nullptr ? best->pipeline->shared_spec()
                                     : best->spec;
  }
  const std::string which =
      absl::StrCat("model '", step.model, "'",
                   step.version > 0 ? absl::StrCat(" version ", step.version)
                   : step.alias.empty() ? ""
                                        : absl::StrCat(" '", step.alias, "'"));
  if (coming != nullptr) {
    if (outlook.kind == Outlook::Kind::kFails) return nullptr;
    absl::StrAppend(&outlook.why, outlook.why.empty() ? "waits for " : " and ",
                    which, " (step '", step.name, "')");
    outlook.kind = Outlook::Kind::kWaits;
    return nullptr;
  }
  if (outlook.kind == Outlook::Kind::kFails) return nullptr;
  outlook.kind = Outlook::Kind::kFails;
  outlook.why = absl::StrCat(
      "step '", step.name, "': expected ", which, " to serve, ",
      failed != nullptr ? absl::StrCat("which failed: ", failed->reason)
      : options_.explicit_control
          ? std::string("got none that is loaded")
          : absl::StrCat("found none in ", repository_.root()));
  return nullptr;
}

const PipelineSpec* Lifecycle::PipelineOf(const std::string& model) const {
  for (const auto& other : versions_) {
    if (other->model == model && other->wanted && other->spec != nullptr &&
        other->spec->pipeline != nullptr) {
      return other->spec->pipeline.get();
    }
  }
  return nullptr;
}

std::string Lifecycle::CircleOf(const std::string& model,
                                std::vector<std::string>& way) const {
  const bool closed = std::find(way.begin(), way.end(), model) != way.end();
  way.push_back(model);
  const auto text = [&](std::string_view expected) {
    return absl::StrCat("expected ", Absl(expected), ", got ",
                        absl::StrJoin(way, " -> "));
  };
  if (closed) return text("pipelines without a circle");
  const PipelineSpec* const pipeline = PipelineOf(model);
  if (pipeline != nullptr) {
    if (way.size() > kMaxDepth) {
      return text(
          absl::StrCat("at most ", kMaxDepth, " pipelines in each other"));
    }
    for (const std::string& step : pipeline->ModelNames()) {
      if (std::string circle = CircleOf(step, way); !circle.empty()) {
        return circle;
      }
    }
  }
  way.pop_back();
  return "";
}

bool Lifecycle::IsWanted(std::string_view model) const {
  return std::any_of(versions_.begin(), versions_.end(), [&](const auto& v) {
    return v->wanted && v->model == model;
  });
}

void Lifecycle::FollowSteps(const RepositorySnapshot& snapshot) {
  for (const DesiredVersion& desired : snapshot) {
    if (!desired.spec.ok() || (*desired.spec)->pipeline == nullptr) continue;
    for (const std::string& step : (*desired.spec)->pipeline->ModelNames()) {
      if (IsWanted(step)) continue;
      const absl::StatusOr<RepositorySnapshot> found =
          repository_.PollModel(step, nullptr);
      if (!found.ok() || found->empty()) continue;  // the pipeline says so
      log::Info("{}: loaded as a step of {}", step, desired.model);
      loaded_as_steps_.insert(step);
      Follow(*found, step, /*retry=*/true);
      FollowSteps(*found);
    }
  }
}

void Lifecycle::UnloadWithSteps(const std::string& model,
                                AwaitedChanges::Done done) {
  std::vector<std::string> steps;
  if (const PipelineSpec* const pipeline = PipelineOf(model)) {
    steps = pipeline->ModelNames();
  }
  UnloadModel(model, std::move(done));
  if (stopped_) return;
  for (const std::string& step : steps) {
    const bool others =
        std::any_of(versions_.begin(), versions_.end(), [&](const auto& v) {
          if (!v->wanted || v->spec == nullptr ||
              v->spec->pipeline == nullptr) {
            return false;
          }
          const std::vector<std::string> names =
              v->spec->pipeline->ModelNames();
          return std::find(names.begin(), names.end(), step) != names.end();
        });
    if (others || !loaded_as_steps_.contains(step)) continue;
    UnloadWithSteps(step, [](const absl::Status&) {});
  }
}

}  // namespace stoker
