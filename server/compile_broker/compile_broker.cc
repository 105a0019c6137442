#include "compile_broker/compile_broker.h"

#include <utility>

#include "base/thread.h"
#include "compile_broker/compile_supervisor.h"
#include "compile_broker/supervisor_inbox.h"

namespace stoker {

struct CompileBroker::Impl {
  Impl(const CompileWorkerOptions& options, EntryStore& entries, Clock& clock,
       MetricRegistry& metrics)
      : supervisor(options, entries, clock, metrics, inbox),
        thread("compile", [this] { supervisor.Run(); }) {}

  SupervisorInbox inbox;
  CompileSupervisor supervisor;
  Thread thread;
};

CompileBroker::CompileBroker(const CompileWorkerOptions& options,
                             EntryStore& entries, Clock& clock,
                             MetricRegistry& metrics)
    : impl_(std::make_unique<Impl>(options, entries, clock, metrics)) {}

CompileBroker::~CompileBroker() {
  impl_->inbox.Stop();
  impl_->thread.Join();
}

void CompileBroker::Submit(CompileRequest request, Progress progress, Done done,
                           std::stop_token stop) {
  impl_->inbox.Submit({std::move(request), std::move(progress), std::move(done),
                       std::move(stop)});
}

void CompileBroker::Expect() { impl_->inbox.NoteExpected(); }

}  // namespace stoker
