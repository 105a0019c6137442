// The jobs that have not been answered, in order of arrival. Private to this
// room. Belongs to the supervisor thread.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <memory>

#include "compile_broker/compile_job.h"

namespace stoker {

class CompileQueue {
 public:
  void Add(std::unique_ptr<CompileJob> job) { jobs_.push_back(std::move(job)); }
  std::unique_ptr<CompileJob> Remove(const CompileJob& job);

  // Null when there is none.
  CompileJob* FindRunning(int64_t id) const;
  CompileJob* FindKey(const ArtifactKey& key) const;
  CompileJob* First() const;

  int Count() const { return static_cast<int>(jobs_.size()); }
  int Count(CompileJob::State state) const;
  // In order of arrival. `visit` may remove the job it is given, no other.
  void ForEach(CompileJob::State state,
               const std::function<void(CompileJob&)>& visit) const;
  void ForEach(const std::function<void(const CompileJob&)>& visit) const;

 private:
  std::list<std::unique_ptr<CompileJob>> jobs_;
};

}  // namespace stoker
