// Hugging Face's tokenizers, which a library of its own brings
// (tokenizer/stoker_tokenizer.h): a host without pipelines of strings needs
// none. It is opened for the first tokenizer that is loaded.
//
// Strings take microseconds each. What takes longer than a loop of the ports
// may be kept is done on a thread that all tokenizers share.
//
// Thread-safe.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "base/clock.h"
#include "base/thread.h"
#include "pipelines/step_model.h"
#include "pipelines/tokenizers.h"

namespace stoker {

struct TokenizerFunctions;

// libstoker_tokenizer.so beside this program or, where it isn't there, in
// ../lib/stoker.
std::string DefaultTokenizerLibrary();

class TokenizerLibrary final : public Tokenizers {
 public:
  // `path`: of the library. `clock` outlives it, and it what it loaded.
  TokenizerLibrary(std::string path, Clock& clock);
  ~TokenizerLibrary() override;

  absl::StatusOr<std::shared_ptr<StepModel>> Load(
      const PipelineStep& step) const override;

  // Of texts that wait for the thread.
  static constexpr size_t kMaxWaiting = 1024;

  // Has the thread do `work`. False: as many wait as may, or it ends.
  bool Run(std::function<void()> work) const ABSL_LOCKS_EXCLUDED(mu_);

 private:
  absl::StatusOr<const TokenizerFunctions*> Open() const
      ABSL_LOCKS_EXCLUDED(open_mu_);
  void Work() const ABSL_LOCKS_EXCLUDED(mu_);

  const std::string path_;
  Clock& clock_;
  mutable absl::Mutex open_mu_;
  mutable std::unique_ptr<const TokenizerFunctions> functions_
      ABSL_GUARDED_BY(open_mu_);

  mutable absl::Mutex mu_;
  mutable std::deque<std::function<void()>> waiting_ ABSL_GUARDED_BY(mu_);
  mutable bool started_ ABSL_GUARDED_BY(mu_) = false;
  mutable bool ends_ ABSL_GUARDED_BY(mu_) = false;
  mutable Thread thread_ ABSL_GUARDED_BY(mu_);  // since `started_`
};

}  // namespace stoker
