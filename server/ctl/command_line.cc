#include "ctl/command_line.h"

#include <cstdio>
#include <utility>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "base/files.h"
#include "base/status_macros.h"
#include "kernel_cache/cache_folder.h"
#include "metrics/metrics.h"

namespace stoker {
namespace {

constexpr int kMistake = 2;
constexpr int kFailed = 4;

}  // namespace

CommandLine::CommandLine()
    : app_(std::make_unique<CLI::App>(
          "stokerctl looks after Stoker's kernel cache, and shows what a "
          "daemon does with it.")),
      cache_(DefaultCacheFolder()) {
  app_->set_version_flag("--version", STOKER_VERSION);
  app_->require_subcommand(1);
  app_->fallthrough();
  app_->get_formatter()->column_width(34);
  app_->add_option("--cache", cache_, "folder of compiled artifacts")
      ->capture_default_str();
  app_->add_option("--cache-layer", layers_,
                   "read-only folder below it; may be given again");
  app_->add_flag("--json", json_, "JSON in place of tables");
}

CommandLine::~CommandLine() = default;

CLI::App& CommandLine::Add(CLI::App& to, const std::string& name,
                           const std::string& help, WithCache run,
                           Folder folder) {
  return AddWithoutCache(to, name, help, [this, run = std::move(run), folder] {
    return RunWithCache(run, folder);
  });
}

CLI::App& CommandLine::AddWithoutCache(CLI::App& to, const std::string& name,
                                       const std::string& help,
                                       WithoutCache run) {
  CLI::App& added = *to.add_subcommand(name, help);
  added.fallthrough();
  added.callback([this, run = std::move(run)] { chosen_ = run; });
  return added;
}

absl::StatusOr<int> CommandLine::RunWithCache(const WithCache& run,
                                              Folder folder) const {
  if (folder == Folder::kMustExist && !Files::Real().Stat(cache_).ok()) {
    return absl::NotFoundError(
        absl::StrCat("--cache: there is no folder ", cache_));
  }
  MetricRegistry metrics;
  ASSIGN_OR_RETURN(const std::unique_ptr<KernelCache> cache,
                   KernelCache::Open({.root = cache_, .layers = layers_},
                                     Files::Real(), metrics));
  return run(*cache);
}

int CommandLine::Run(int argc, char** argv) {
  try {
    app_->parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app_->exit(error);
    std::fprintf(stderr, "stokerctl: %s (see stokerctl --help)\n",
                 error.what());
    return kMistake;
  }
  const absl::StatusOr<int> done = chosen_();
  if (done.ok()) return *done;
  std::fprintf(stderr, "stokerctl: %s\n",
               std::string(done.status().message()).c_str());
  return kFailed;
}

}  // namespace stoker
