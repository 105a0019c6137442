// One thread that waits for the events of its calls and reacts to them. All
// calls of a connection that came through its queue stay with it.
//
// Thread-safe where it says so.
#pragma once

#include <grpcpp/alarm.h>
#include <grpcpp/completion_queue.h>
#include <grpcpp/generic/async_generic_service.h>

#include <functional>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/thread.h"
#include "rpc/call.h"
#include "rpc/method_table.h"

namespace stoker {

class CallLoop {
 public:
  // Everything passed by reference outlives this object.
  CallLoop(const std::string& name, grpc::AsyncGenericService& service,
           std::unique_ptr<grpc::ServerCompletionQueue> queue,
           const MethodTable& methods, absl::Duration stall_limit,
           std::function<void()> on_stall, Clock& clock);
  // After Join, or without Start.
  ~CallLoop();

  // When the server has started.
  void Start();
  // Tells every call, and those that come yet, that the server stops. Once.
  void StopCalls();
  // When the server has shut down: waits for the calls that are left, then ends
  // the thread.
  void Join() ABSL_LOCKS_EXCLUDED(mu_);

 private:
  friend class Call;

  // Something that another thread wants to be done on this one. Never for
  // later: gRPC's own timers wait for a time of day, and come an hour late when
  // that is stepped back by an hour.
  class Errand final : public LoopEvent {
   public:
    Errand(CallLoop& loop, void (CallLoop::*work)())
        : loop_(loop), work_(work) {}
    void Run();
    void Happen(bool ok) override {
      if (ok) (loop_.*work_)();
    }

   private:
    CallLoop& loop_;
    void (CallLoop::*const work_)();
    grpc::Alarm alarm_;
  };

  void Loop();
  void TellOfStop();
  void EndStalledCalls(MonotonicTime now);
  void End() { queue_->Shutdown(); }

  // For Call.
  void Add(Call& call) ABSL_LOCKS_EXCLUDED(mu_);  // has arrived
  void Unlink(Call& call);                        // gRPC is done with it
  void Remove() ABSL_LOCKS_EXCLUDED(mu_);         // one is gone

  grpc::AsyncGenericService& service_;
  const std::unique_ptr<grpc::ServerCompletionQueue> queue_;
  const MethodTable& methods_;
  const absl::Duration stall_limit_;
  const absl::Duration look_interval_;  // for stalled calls
  const std::function<void()> on_stall_;
  Clock& clock_;
  const std::string name_;
  bool started_ = false;  // the owner's

  // On the thread only.
  Call* first_ = nullptr;
  bool stopping_ = false;

  Errand tell_of_stop_{*this, &CallLoop::TellOfStop};
  Errand end_{*this, &CallLoop::End};

  absl::Mutex mu_;
  int calls_ ABSL_GUARDED_BY(mu_) = 0;  // arrived and not gone

  Thread thread_;
};

}  // namespace stoker
