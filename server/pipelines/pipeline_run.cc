#include "pipelines/pipeline_run.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace stoker {
namespace {

size_t At(int number) { return static_cast<size_t>(number); }

// With what a queue says of why it refused.
absl::Status InStep(const std::string& step, const absl::Status& status) {
  absl::Status named(status.code(),
                     absl::StrCat("step '", step, "': ", status.message()));
  status.ForEachPayload([&](absl::string_view type, const absl::Cord& payload) {
    named.SetPayload(type, payload);
  });
  return named;
}

const PipelineGraph::Link* LinkOf(const std::vector<PipelineGraph::Link>& links,
                                  const std::string& own) {
  const auto found =
      std::find_if(links.begin(), links.end(),
                   [&](const auto& link) { return link.own == own; });
  return found == links.end() ? nullptr : &*found;
}

}  // namespace

void PipelineRun::Start(std::shared_ptr<const ModelSpec> spec,
                        std::shared_ptr<const PipelineGraph> graph,
                        std::vector<std::shared_ptr<StepModel>> models,
                        std::unique_ptr<InferTask> task, Clock& clock,
                        OnStep on_step) {
  const bool may_run_here = task->may_run_here;
  std::make_shared<PipelineRun>(std::move(spec), std::move(graph),
                                std::move(models), std::move(task), clock,
                                std::move(on_step))
      ->GoOn(std::nullopt, may_run_here);
}

PipelineRun::PipelineRun(std::shared_ptr<const ModelSpec> spec,
                         std::shared_ptr<const PipelineGraph> graph,
                         std::vector<std::shared_ptr<StepModel>> models,
                         std::unique_ptr<InferTask> task, Clock& clock,
                         OnStep on_step)
    : spec_(std::move(spec)),
      graph_(std::move(graph)),
      models_(std::move(models)),
      clock_(clock),
      on_step_(std::move(on_step)),
      task_(std::move(task)),
      steps_(graph_->steps.size()),
      tensors_(graph_->tensors.size()) {
  if (task_->cancelled == nullptr) {
    task_->cancelled = std::make_shared<std::atomic<bool>>(false);
  }
}

void PipelineRun::GoOn(std::optional<Ended> ended, bool may_run_here) {
  const bool begins = !ended.has_value();
  {
    absl::MutexLock lock(&mu_);
    if (!begins) ended_.push_back(*std::move(ended));
    if (going_on_) return;
    going_on_ = true;
  }
  if (begins) Begin();
  for (;;) {
    SubmitReady(may_run_here);
    std::vector<Ended> over;
    {
      absl::MutexLock lock(&mu_);
      over.swap(ended_);
      if (over.empty()) {
        // Whoever ends a step from here on goes on himself; without one that
        // runs there is nobody.
        if (running_ == 0) break;
        going_on_ = false;
        return;
      }
    }
    for (Ended& one : over) Finish(std::move(one));
  }
  task_->on_done(Answer());
}

void PipelineRun::Begin() {
  for (size_t i = 0; i < steps_.size(); ++i) {
    steps_[i].missing = graph_->steps[i].inputs.size();
  }
  for (size_t i = 0; i < graph_->inputs.size(); ++i) {
    Made(graph_->inputs[i],
         {std::move(task_->inputs[i]), spec_->inputs[i].is_bytes}, 0);
  }
  task_->inputs.clear();
}

void PipelineRun::Made(int tensor, PassedTensor passed, size_t held) {
  tensors_[At(tensor)] = {std::move(passed), graph_->readers[At(tensor)], held};
  for (size_t i = 0; i < steps_.size(); ++i) {
    for (const PipelineGraph::Link& in : graph_->steps[i].inputs) {
      if (in.tensor == tensor && --steps_[i].missing == 0) ready_.push_back(i);
    }
  }
}

void PipelineRun::Took(int tensor) {
  std::optional<Passed>& passed = tensors_[At(tensor)];
  if (--passed->readers > 0) return;
  LetGo(passed->held);
  passed.reset();
}

void PipelineRun::SubmitReady(bool may_run_here) {
  const std::vector<size_t> ready = std::exchange(ready_, {});
  for (const size_t step : ready) {
    if (!failed_.ok()) return;
    const bool alone = task_->alone && ready.size() == 1 && running_ == 0;
    const absl::Status submitted = Submit(step, may_run_here, alone);
    if (!submitted.ok()) Fail(step, submitted);
  }
}

absl::StatusOr<StepInputs> PipelineRun::InputsOf(size_t step) const {
  const ModelSpec& spec = models_[step]->spec();
  std::vector<const PassedTensor*> given;
  for (const InputSpec& input : spec.inputs) {
    const PipelineGraph::Link* const link =
        LinkOf(graph_->steps[step].inputs, input.name);
    if (link == nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat("the pipeline gives no input '", input.name,
                       "', which model '", spec.name, "' takes"));
    }
    given.push_back(&tensors_[At(link->tensor)]->tensor);
  }
  return BindInputs(spec, given);
}

absl::Status PipelineRun::Submit(size_t step, bool may_run_here, bool alone) {
  ASSIGN_OR_RETURN(StepInputs inputs, InputsOf(step));
  Step& its = steps_[step];
  StepModel& model = *models_[step];
  const size_t bytes = OutputBytes(model.spec(), inputs.sizes);
  RETURN_IF_ERROR(Hold(bytes));
  its.held = bytes;
  its.rows = inputs.rows;
  its.submitted = clock_.Now();
  auto task = std::make_unique<InferTask>();
  task->inputs = std::move(inputs.tensors);
  task->sizes = std::move(inputs.sizes);
  task->rows = inputs.rows;
  task->deadline = task_->deadline;
  task->timeout = task_->timeout;
  task->priority = task_->priority;
  task->cancelled = task_->cancelled;
  task->alone = alone;
  task->may_run_here = may_run_here;
  task->memory = task_->memory;
  task->on_done = [self = shared_from_this(), step](Result result) {
    self->GoOn(Ended{step, std::move(result)}, /*may_run_here=*/false);
  };
  ++running_;
  absl::Status submitted = model.Submit(task);
  if (!submitted.ok()) {
    --running_;
    model.RecordFailure(submitted, /*queued=*/false,
                        clock_.Now() - its.submitted);
    on_step_(step, submitted, clock_.Now() - its.submitted);
    return submitted;
  }
  // The task has them now.
  for (const PipelineGraph::Link& in : graph_->steps[step].inputs) {
    Took(in.tensor);
  }
  return absl::OkStatus();
}

void PipelineRun::Finish(Ended ended) {
  const size_t step = ended.step;
  --running_;
  const absl::Duration total = clock_.Now() - steps_[step].submitted;
  const absl::Status status = ended.result.status();
  on_step_(step, status, total);
  if (!status.ok()) {
    models_[step]->RecordFailure(status, /*queued=*/true, total);
    LetGo(steps_[step].held);
    return Fail(step, status);
  }
  models_[step]->RecordSuccess(*ended.result, steps_[step].rows, total);
  Note(step, *ended.result, total);
  if (!failed_.ok()) return LetGo(steps_[step].held);
  const absl::Status handed = HandOn(step, *ended.result);
  if (!handed.ok()) Fail(step, handed);
}

absl::Status PipelineRun::HandOn(size_t step, InferResult& result) {
  const ModelSpec& spec = models_[step]->spec();
  const PipelineGraph::Step& links = graph_->steps[step];
  size_t made = 0;
  for (size_t i = 0; i < spec.outputs.size(); ++i) {
    if (LinkOf(links.outputs, spec.outputs[i].name) == nullptr) continue;
    made += result.outputs[i].byte_size;
  }
  // What is known by now instead of what was foreseen.
  LetGo(std::exchange(steps_[step].held, 0));
  RETURN_IF_ERROR(Hold(made));
  size_t links_made = 0;
  for (size_t i = 0; i < spec.outputs.size(); ++i) {
    const PipelineGraph::Link* const link =
        LinkOf(links.outputs, spec.outputs[i].name);
    if (link == nullptr) continue;
    const size_t bytes = result.outputs[i].byte_size;
    ASSIGN_OR_RETURN(PassedTensor passed,
                     PassOutput(spec, i, std::move(result.outputs[i])));
    ++links_made;
    if (graph_->readers[At(link->tensor)] == 0) {
      LetGo(bytes);
    } else {
      Made(link->tensor, std::move(passed), bytes);
    }
  }
  if (links_made == links.outputs.size()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("model '", spec.name,
                   "' has other outputs by now than the "
                   "pipeline was made for"));
}

void PipelineRun::Note(size_t step, const InferResult& result,
                       absl::Duration total) {
  if (answer_.steps.empty()) {
    answer_.started = result.started;
    answer_.begun = result.begun;
  }
  answer_.queue += result.queue;
  answer_.assemble += result.assemble;
  answer_.run += result.run;
  answer_.split += result.split;
  answer_.batch_rows = std::max(answer_.batch_rows, result.batch_rows);
  answer_.steps.push_back({.name = graph_->steps[step].name,
                           .tier = result.tier,
                           .submitted = steps_[step].submitted,
                           .queue = result.queue,
                           .run = result.run,
                           .total = total,
                           .batch = result.batch});
}

void PipelineRun::Fail(size_t step, const absl::Status& status) {
  if (!failed_.ok()) return;
  failed_ = InStep(graph_->steps[step].name, status);
  ready_.clear();
  if (running_ == 0) return;
  task_->cancelled->store(true);
  for (const std::shared_ptr<StepModel>& model : models_) {
    model->SweepCancelled();
  }
}

absl::Status PipelineRun::Hold(size_t bytes) {
  return task_->memory == nullptr ? absl::OkStatus()
                                  : task_->memory->Take(bytes);
}

void PipelineRun::LetGo(size_t bytes) {
  if (task_->memory != nullptr && bytes > 0) task_->memory->Give(bytes);
}

PipelineRun::Result PipelineRun::Answer() {
  if (failed_.ok()) {
    for (const int output : graph_->outputs) {
      // Once for each; a tensor that others have is shared.
      answer_.outputs.push_back(tensors_[At(output)]->tensor.tensor);
    }
  }
  for (std::optional<Passed>& passed : tensors_) {
    if (passed.has_value()) LetGo(passed->held);
    passed.reset();
  }
  if (!failed_.ok()) return failed_;
  answer_.tier = kPipelineTier;
  return std::move(answer_);
}

}  // namespace stoker
