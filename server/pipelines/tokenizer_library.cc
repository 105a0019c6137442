#include "pipelines/tokenizer_library.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/files.h"
#include "base/status_macros.h"
#include "pipelines/tokenizer_functions.h"
#include "pipelines/tokenizer_step.h"

namespace stoker {
namespace {

// The largest that are known have 35 MB.
constexpr int64_t kMaxFileBytes = 256 << 20;

}  // namespace

std::string DefaultTokenizerLibrary() {
  namespace fs = std::filesystem;
  constexpr char kName[] = "libstoker_tokenizer.so";
  std::error_code error;
  const fs::path folder =
      fs::read_symlink("/proc/self/exe", error).parent_path();
  const fs::path beside = folder / kName;
  if (fs::exists(beside, error)) return beside.string();
  return (folder.parent_path() / "lib/stoker" / kName).string();
}

TokenizerLibrary::TokenizerLibrary(std::string path, Clock& clock)
    : path_(std::move(path)), clock_(clock) {}

TokenizerLibrary::~TokenizerLibrary() {
  Thread thread;
  {
    absl::MutexLock lock(&mu_);
    ends_ = true;
    thread = std::move(thread_);
  }
  thread.Join();
}

absl::StatusOr<const TokenizerFunctions*> TokenizerLibrary::Open() const {
  absl::MutexLock lock(&open_mu_);
  if (functions_ == nullptr) {
    ASSIGN_OR_RETURN(functions_, TokenizerFunctions::Find(path_));
  }
  return functions_.get();
}

absl::StatusOr<std::shared_ptr<StepModel>> TokenizerLibrary::Load(
    const PipelineStep& step) const {
  const std::string& path = step.tokenizer_path;
  const absl::StatusOr<int64_t> bytes = Files::Real().Size(path);
  if (!bytes.ok()) {
    return absl::Status(bytes.status().code(),
                        absl::StrCat(path, ": expected a tokenizer.json: ",
                                     bytes.status().message()));
  }
  if (*bytes > kMaxFileBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": expected a tokenizer.json of at most ",
                     kMaxFileBytes, " bytes, got ", *bytes));
  }
  ASSIGN_OR_RETURN(const std::string json, Files::Real().Read(path));
  ASSIGN_OR_RETURN(const TokenizerFunctions* const functions, Open());
  return TokenizerStep::Make(
      step, json, *functions,
      [this](std::function<void()> work) { return Run(std::move(work)); },
      clock_);
}

bool TokenizerLibrary::Run(std::function<void()> work) const {
  absl::MutexLock lock(&mu_);
  if (ends_ || waiting_.size() >= kMaxWaiting) return false;
  waiting_.push_back(std::move(work));
  if (!started_) {
    started_ = true;
    thread_ = Thread("tokenizer", [this] { Work(); });
  }
  return true;
}

void TokenizerLibrary::Work() const {
  const auto any = [this]() ABSL_SHARED_LOCKS_REQUIRED(mu_) {
    return ends_ || !waiting_.empty();
  };
  for (;;) {
    std::function<void()> work;
    {
      absl::MutexLock lock(&mu_);
      mu_.Await(absl::Condition(&any));
      if (waiting_.empty()) return;
      work = std::move(waiting_.front());
      waiting_.pop_front();
    }
    work();
  }
}

}  // namespace stoker
