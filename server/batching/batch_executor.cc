#include "batching/batch_executor.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "base/status_macros.h"
#include "batching/row_faults.h"
#include "batching/scatter.h"
#include "batching/task_queue.h"

namespace stoker {
namespace {

int64_t Elements(absl::Span<const Tensor> tensors) {
  int64_t elements = 0;
  for (const Tensor& tensor : tensors) {
    elements +=
        static_cast<int64_t>(tensor.byte_size / DataTypeSize(tensor.dtype));
  }
  return elements;
}

uint64_t NextBatch() {
  static std::atomic<uint64_t> last = 0;
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

}  // namespace

BatchExecutor::BatchExecutor(int thread, const BatchRules& rules,
                             BatchRunner& runner, BucketCosts& costs,
                             Clock& clock, MetricSource& metrics,
                             const Labels& labels,
                             const std::atomic<bool>& abandon)
    : thread_(thread),
      rules_(rules),
      layout_(rules.layout()),
      runner_(runner),
      costs_(costs),
      clock_(clock),
      abandon_(abandon),
      metrics_(metrics, labels),
      gatherer_(layout_, [&runner, thread](size_t bytes) {
        return thread == kHere ? Buffer(bytes)
                               : runner.NewBuffer(thread, bytes);
      }) {}

void BatchExecutor::Execute(Batch batch) {
  for (const auto& task : batch.tasks) {
    metrics_.RecordQueued(batch.started - task->enqueued);
  }
  Answers answers;
  const absl::Status status = Attempt(batch, answers);
  if (status.ok()) {
    for (size_t i = 0; i < answers.size(); ++i) {
      Keep(std::move(batch.tasks[i]), std::move(answers[i]));
    }
  } else if (batch.tasks.size() == 1) {
    Keep(std::move(batch.tasks[0]), status);
  } else {
    for (auto& task : batch.tasks) {
      Batch alone = rules_.Begin(std::move(task), batch.started);
      absl::StatusOr<InferResult> answer = ExecuteAlone(alone);
      Keep(std::move(alone.tasks[0]), std::move(answer));
    }
  }
}

absl::StatusOr<InferResult> BatchExecutor::ExecuteAlone(const Batch& alone) {
  if (IsCancelled(*alone.tasks[0])) return CancelledStatus();
  if (abandon_.load()) return StoppedStatus();
  Answers answers;
  RETURN_IF_ERROR(Attempt(alone, answers));
  return std::move(answers[0]);
}

void BatchExecutor::Keep(std::unique_ptr<InferTask> task,
                         absl::StatusOr<InferResult> answer) {
  answered_.push_back({std::move(task), std::move(answer)});
}

void BatchExecutor::Deliver() {
  for (Answered& answered : answered_) {
    answered.task->on_done(std::move(answered.answer));
  }
  answered_.clear();
}

absl::Status BatchExecutor::Attempt(const Batch& batch, Answers& answers) {
  ASSIGN_OR_RETURN(const DimensionSizes sizes, rules_.RunSizes(batch));
  Timing timing;
  timing.begin = clock_.Now();
  const absl::Span<const Tensor> inputs = gatherer_.Gather(batch, sizes);
  const int64_t run_elements = Elements(inputs);
  timing.gathered = clock_.Now();
  const BatchRunner::Outcome outcome =
      thread_ == kHere ? runner_.RunHere(batch.bucket, inputs)
                       : runner_.Run(thread_, batch.bucket, inputs);
  timing.done = clock_.Now();
  gatherer_.Release();

  if (!outcome.result.ok()) {
    const bool refused = absl::IsInvalidArgument(outcome.result.status());
    if (refused && batch.tasks.size() == 1) metrics_.RecordRowFaults(1);
    return outcome.result.status();
  }
  RETURN_IF_ERROR(Answer(batch, sizes, *outcome.result, answers));
  Record(batch, outcome, timing, run_elements, answers);
  return absl::OkStatus();
}

absl::Status BatchExecutor::Answer(const Batch& batch,
                                   absl::Span<const int64_t> sizes,
                                   const RunResult& result, Answers& answers) {
  RETURN_IF_ERROR(CheckOutputs(layout_, sizes, result.outputs));
  // A ragged batch's rows are no rows to the program.
  const bool has_rows =
      layout_.batch_dimension.has_value() && !layout_.is_ragged();
  ASSIGN_OR_RETURN(const TaskFaults faults,
                   AssignFaults(batch, has_rows, result.faults));
  if (faults.rows > 0) metrics_.RecordRowFaults(faults.rows);
  answers.reserve(batch.tasks.size());
  int64_t first_row = 0;
  for (size_t i = 0; i < batch.tasks.size(); ++i) {
    const InferTask& task = *batch.tasks[i];
    if (!faults.per_task[i].ok()) {
      answers.emplace_back(faults.per_task[i]);
    } else {
      absl::StatusOr<std::vector<Tensor>> outputs =
          CutOutputs(layout_, result.outputs, task.sizes, first_row,
                     static_cast<int64_t>(i));
      if (outputs.ok()) {
        answers.emplace_back(InferResult{.outputs = *std::move(outputs)});
      } else {
        answers.emplace_back(std::move(outputs).status());
      }
    }
    first_row += task.rows;
  }
  return absl::OkStatus();
}

void BatchExecutor::Record(const Batch& batch,
                           const BatchRunner::Outcome& outcome,
                           const Timing& timing, int64_t run_elements,
                           Answers& answers) {
  const BatchReport report{.bucket = batch.bucket,
                           .tier = outcome.tier,
                           .requests = static_cast<int>(batch.tasks.size()),
                           .rows = batch.rows,
                           .assemble = timing.gathered - timing.begin,
                           .run = timing.done - timing.gathered,
                           .split = clock_.Now() - timing.done};
  const uint64_t number = NextBatch();
  int64_t useful_elements = 0;
  for (size_t i = 0; i < batch.tasks.size(); ++i) {
    const InferTask& task = *batch.tasks[i];
    useful_elements += Elements(task.inputs);
    if (!answers[i].ok()) continue;
    InferResult& answer = *answers[i];
    answer.tier = outcome.tier;
    answer.bucket = batch.bucket >= 0 ? batch.bucket : outcome.form;
    answer.batch_rows = batch.rows;
    answer.queue = batch.started - task.enqueued;
    answer.assemble = report.assemble;
    answer.run = report.run;
    answer.split = report.split;
    answer.started = batch.started;
    answer.begun = timing.begin;
    answer.batch = number;
    answer.thread = thread_;
  }
  metrics_.RecordRun(outcome.tier, report.run, batch.tasks.size(), batch.rows,
                     useful_elements, run_elements);
  if (batch.bucket >= 0) costs_.Record(batch.bucket, report.run, timing.done);
  runner_.OnBatch(report);
}

}  // namespace stoker
