// stokerctl: the operator's tool. Exit codes:
//   0  done
//   1  done, and found what a script should notice: a miss, a damaged entry,
//      keys that differ, a daemon that doesn't serve
//   2  a mistake on the command line
//   4  it could not be done; one line on stderr says why
#include <stdlib.h>

#include <utility>

#include "ctl/bucket_commands.h"
#include "ctl/cache_commands.h"
#include "ctl/command_line.h"
#include "ctl/explain_graph.h"
#include "ctl/health_command.h"
#include "ctl/parity_command.h"
#include "ctl/plan_commands.h"
#include "ctl/status_command.h"
#include "spdlog/sinks/stdout_color_sinks.h"
#include "spdlog/spdlog.h"

namespace stoker {
namespace {

constexpr int kMistake = 2;
constexpr int kFailed = 4;

struct Arguments {
  std::string cache = DefaultCacheFolder();
  std::vector<std::string> layers;
  bool json = false;
  bool fills_cache = false;

  std::string key;
  std::string other_key;
  std::string model;
  std::string repository;
  std::string model_name;
  std::string cxx;
  std::string gpu;
  int cores = 0;
  std::string save_folder;
  std::string grpc_address = "127.0.0.1:8001";
  std::string health_service;
  double timeout_seconds = 3;
  std::string metrics_url = "http://127.0.0.1:8002/metrics";
  std::vector<std::string> keys;
  PackPlaceArgument pack;
  std::string signing_key;
  std::vector<std::string> trusted;
  bool allow_unsigned = false;
  int64_t max_mb = 0;
  int max_age_days = 0;
  bool dry_run = false;
  int max_buckets = 0;
  double max_compile_seconds = 0;
  int64_t max_artifact_mb = 0;
  GraphQuestion question = {.model = "",
                            .bucket = "",
                            .html = "",
                            .compiler_python = "python3",
                            .compiler_folder = DefaultCompilerFolder()};

  absl::StatusOr<Toolchain> ToolchainOfHost() const {
    Toolchain toolchain = HostToolchain(cxx);
    if (!gpu.empty()) {
      ASSIGN_OR_RETURN(toolchain.gpu, ParseGpuTarget(gpu));
    }
    return toolchain;
  }
  int Cores() const { return cores > 0 ? cores : UsableCores(); }
  CacheLimits Limits() const {
    CacheLimits limits{.max_bytes = max_mb << 20};
    if (max_age_days > 0) limits.max_age = absl::Hours(24 * max_age_days);
    return limits;
  }
};

// What a subcommand does once everything is parsed.
using Command =
    std::function<absl::StatusOr<int>(const Arguments&, KernelCache& cache)>;

CacheCommands Commands(const Arguments& arguments, KernelCache& cache) {
  return {cache.entries(), cache.facts(), Clock::Real(), arguments.json};
}

// Calls `command` with the PlanCommands of the arguments' repository.
template <typename Command>
auto WithRepository(const Arguments& arguments, KernelCache& cache,
                    Command command)
    -> std::invoke_result_t<Command, const PlanCommands&, const std::string&> {
  ASSIGN_OR_RETURN(
      const std::unique_ptr<ModelRepository> repository,
      ModelRepository::Open(arguments.repository, arguments.model_name));
  ASSIGN_OR_RETURN(Toolchain toolchain, arguments.ToolchainOfHost());
  const PlanCommands plan{.cache = cache,
                          .repository = *repository,
                          .toolchain = std::move(toolchain),
                          .cores = arguments.Cores(),
                          .json = arguments.json};
  return std::invoke(command, plan, arguments.model);
}

absl::StatusOr<int> ProposeBuckets(const Arguments& arguments,
                                   KernelCache& cache) {
  ASSIGN_OR_RETURN(
      const std::unique_ptr<ModelRepository> repository,
      ModelRepository::Open(arguments.repository, arguments.model_name));
  BucketLimits limits{.max_buckets = arguments.max_buckets,
                      .max_compile_seconds = std::nullopt,
                      .max_artifact_bytes = std::nullopt};
  if (arguments.max_compile_seconds > 0) {
    limits.max_compile_seconds = arguments.max_compile_seconds;
  }
  if (arguments.max_artifact_mb > 0) {
    limits.max_artifact_bytes = arguments.max_artifact_mb << 20;
  }
  ASSIGN_OR_RETURN(Toolchain toolchain, arguments.ToolchainOfHost());
  const BucketCommands buckets{.cache = cache,
                               .repository = *repository,
                               .toolchain = std::move(toolchain),
                               .cores = arguments.Cores(),
                               .json = arguments.json};
  return buckets.Propose(arguments.model, limits);
}

// What `export` takes along: the keys that were named, else what the repository
// needs, else everything.
absl::StatusOr<std::vector<ArtifactKey>> ChosenKeys(const Arguments& arguments,
                                                    KernelCache& cache) {
  if (arguments.keys.empty() && !arguments.repository.empty()) {
    return WithRepository(arguments, cache, &PlanCommands::Keys);
  }
  if (arguments.keys.empty()) return cache.entries().Keys();
  std::vector<ArtifactKey> keys;
  for (const std::string& prefix : arguments.keys) {
    ASSIGN_OR_RETURN(const EntryInfo entry, FindEntry(cache.entries(), prefix));
    keys.push_back(entry.key);
  }
  return keys;
}

class CommandLine {
 public:
  CommandLine() {
    app_.set_version_flag("--version", STOKER_VERSION);
    app_.require_subcommand(1);
    app_.fallthrough();
    app_.get_formatter()->column_width(34);
    app_.add_option("--cache", arguments_.cache, "folder of compiled artifacts")
        ->capture_default_str();
    app_.add_option("--cache-layer", arguments_.layers,
                    "read-only folder below it; may be given again");
    app_.add_flag("--json", arguments_.json, "JSON in place of tables");
    AddCacheCommands();
    CLI::App* plan = AddCommand(
        app_, "plan", "what a start would compile here, how long, and why",
        [](const Arguments& a, KernelCache& cache) {
          return WithRepository(a, cache, &PlanCommands::Plan);
        });
    AddRepositoryArguments(*plan);
    CLI::App* parity = AddCommand(
        app_, "parity", "how compiled buckets compare with eager",
        [](const Arguments& a, KernelCache& cache) {
          return WithRepository(
              a, cache,
              [&](const PlanCommands& with, const std::string& model) {
                return ShowParity(with, model, a.save_folder);
              });
        });
    AddRepositoryArguments(*parity);
    parity->add_option("--save", arguments_.save_folder,
                       "folder for the inputs and both answers of buckets that "
                       "parity refused");
    CLI::App* status = app_.add_subcommand(
        "status", "what a running daemon does with its buckets");
    status->fallthrough();
    status->add_option("model", arguments_.model,
                       "one model; all of them unless given");
    status
        ->add_option("--metrics", arguments_.metrics_url,
                     "the daemon's metrics page; its status.json is read")
        ->capture_default_str();
    status->callback([this] {
      without_cache_ = [this] {
        return ShowStatus(arguments_.metrics_url, arguments_.model,
                          arguments_.json);
      };
    });
    AddHealthCommand();
    AddBucketsCommand();
    AddExplainGraphCommand();
  }

  int Run(int argc, char** argv) {
    try {
      app_.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
      if (error.get_exit_code() == 0) return app_.exit(error);
      std::fprintf(stderr, "stokerctl: %s (see stokerctl --help)\n",
                   error.what());
      return kMistake;
    }
    const absl::StatusOr<int> done = Do();
    if (done.ok()) return *done;
    std::fprintf(stderr, "stokerctl: %s\n",
                 std::string(done.status().message()).c_str());
    return kFailed;
  }

 private:
  CLI::App* AddCommand(CLI::App& to, const std::string& name,
                       const std::string& help, Command command) {
    CLI::App* added = to.add_subcommand(name, help);
    added->fallthrough();
    added->callback(
        [this, command = std::move(command)] { chosen_ = command; });
    return added;
  }

  // With a model's name as argument, the repository is what it is about.
  void AddRepositoryArguments(CLI::App& to) {
    to.add_option("model", arguments_.model,
                  "one model; all of them unless given");
    AddRepositoryOptions(to)->required();
  }
  CLI::Option* AddRepositoryOptions(CLI::App& to) {
    CLI::Option* repository =
        to.add_option("--model-repository", arguments_.repository,
                      "as for stokerd")
            ->check(CLI::ExistingDirectory);
    to.add_option("--model-name", arguments_.model_name, "as for stokerd");
    to.add_option("--cxx", arguments_.cxx, "as for stokerd");
    to.add_option("--cores", arguments_.cores,
                  "of the host that will serve; those here unless given")
        ->check(CLI::Range(1, 4096));
    to.add_option("--gpu", arguments_.gpu,
                  "of the host that will serve, for models on one: "
                  "architecture, multiprocessors, GiB, driver's branch, as in "
                  "sm_90:132:79:580")
        ->check(CLI::Validator(
            [](const std::string& text) {
              const auto gpu = ParseGpuTarget(text);
              return gpu.ok() ? std::string()
                              : std::string(gpu.status().message());
            },
            ""));
    return repository;
  }

  void AddHealthCommand();
  void AddBucketsCommand();
  void AddExplainGraphCommand();
  void AddCacheCommands();
  void AddPackCommands(CLI::App& cache);
  absl::StatusOr<int> Do();

  Arguments arguments_;
  CLI::App app_{
      "stokerctl looks after Stoker's kernel cache, and shows what a daemon "
      "does with it."};
  Command chosen_;
  // A subcommand that needs no cache.
  std::function<absl::StatusOr<int>()> without_cache_;
};

void CommandLine::AddHealthCommand() {
  CLI::App* health = app_.add_subcommand(
      "health", "whether a running daemon serves: exit code 0, else 1");
  health->fallthrough();
  health->add_option("service", arguments_.health_service,
                     "a model, liveness, readiness or startup; the daemon "
                     "itself unless given");
  health
      ->add_option("--grpc", arguments_.grpc_address,
                   "the daemon's gRPC address")
      ->capture_default_str();
  health
      ->add_option("--timeout-seconds", arguments_.timeout_seconds,
                   "how long to wait for its answer")
      ->check(CLI::Range(0.001, 3600.0))
      ->capture_default_str();
  health->callback([this] {
    without_cache_ = [this] {
      return ShowHealth(arguments_.grpc_address, arguments_.health_service,
                        absl::Seconds(arguments_.timeout_seconds),
                        arguments_.json);
    };
  });
}

void CommandLine::AddBucketsCommand() {
  CLI::App* buckets =
      AddCommand(app_, "buckets", "the buckets that a model's traffic asks for",
                 ProposeBuckets);
  buckets->add_option("model", arguments_.model, "the model")->required();
  AddRepositoryOptions(*buckets)->required();
  buckets
      ->add_option("--max-buckets", arguments_.max_buckets,
                   "no more than this; as many as today unless given")
      ->check(CLI::Range(1, kMostBuckets));
  buckets
      ->add_option("--max-compile-seconds", arguments_.max_compile_seconds,
                   "no more than can be compiled in this time, one by one")
      ->check(CLI::PositiveNumber);
  buckets
      ->add_option("--max-artifact-mb", arguments_.max_artifact_mb,
                   "no more than have artifacts of this size, all together")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 30));
}

void CommandLine::AddExplainGraphCommand() {
  CLI::App* explain = AddCommand(
      app_, "explain-graph",
      "what a graph is made of, what is compiled from it, and its run time",
      [](const Arguments& a, KernelCache& cache) {
        return WithRepository(
            a, cache, [&](const PlanCommands& with, const std::string& model) {
              GraphQuestion question = a.question;
              question.model = model;
              return ExplainGraph(with, question);
            });
      });
  explain->add_option("model", arguments_.model, "the model")->required();
  AddRepositoryOptions(*explain)->required();
  GraphQuestion& question = arguments_.question;
  explain->add_option("--bucket", question.bucket,
                      "such as batch=8,tokens=32; the largest unless given");
  explain->add_option("--html", question.html,
                      "file to write it to as one page, with pictures");
  explain
      ->add_option("--compiler-python", question.compiler_python,
                   "as for stokerd")
      ->capture_default_str();
  explain->add_option("--compiler-folder", question.compiler_folder,
                      "as for stokerd");
  // The compiler's own caches lie there.
  explain->preparse_callback([this](size_t) { arguments_.fills_cache = true; });
}

void CommandLine::AddCacheCommands() {
  CLI::App& cache = *app_.add_subcommand("cache", "the kernel cache");
  cache.require_subcommand(1);
  cache.fallthrough();
  AddCommand(
      cache, "list", "its entries",
      [](const Arguments& a, KernelCache& c) { return Commands(a, c).List(); });
  const auto with_key = [this](CLI::App* command, bool required) {
    command
        ->add_option("key", arguments_.key,
                     "the entry's key, or as much of its beginning as tells "
                     "it from others")
        ->required(required);
    return command;
  };
  with_key(AddCommand(cache, "show", "one entry: factors, files, notes",
                      [](const Arguments& a, KernelCache& c) {
                        return Commands(a, c).Show(a.key);
                      }),
           true);
  AddRepositoryArguments(
      *AddCommand(cache, "explain",
                  "for each bucket of a model: a hit, or the "
                  "nearest entry and what differs",
                  [](const Arguments& a, KernelCache& c) {
                    return WithRepository(a, c, &PlanCommands::Explain);
                  }));
  with_key(
      AddCommand(cache, "verify", "read every byte; set aside what is damaged",
                 [](const Arguments& a, KernelCache& c) {
                   return Commands(a, c).Verify(a.key);
                 }),
      false);
  CLI::App* diff =
      with_key(AddCommand(cache, "diff", "factors that differ",
                          [](const Arguments& a, KernelCache& c) {
                            return Commands(a, c).Diff(a.key, a.other_key);
                          }),
               true);
  diff->add_option("other", arguments_.other_key, "the other entry's key")
      ->required();
  AddCommand(cache, "stats", "entries, bytes and compile time by model",
             [](const Arguments& a, KernelCache& c) {
               return Commands(a, c).Stats();
             });
  CLI::App* gc =
      AddCommand(cache, "gc", "let go what is old or too much",
                 [](const Arguments& a, KernelCache& c) {
                   return Commands(a, c).Collect(a.Limits(), a.dry_run);
                 });
  gc->add_option("--max-mb", arguments_.max_mb,
                 "size at which the least recently used go; 0: none do")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 30));
  gc->add_option("--max-age-days", arguments_.max_age_days,
                 "time since an entry was last used; 0: any")
      ->check(CLI::Range(0, 36500));
  gc->add_flag("--dry-run", arguments_.dry_run, "only say what would go");
  with_key(AddCommand(cache, "pin", "never let it go",
                      [](const Arguments& a, KernelCache& c) {
                        return Commands(a, c).Pin(a.key, true);
                      }),
           true);
  with_key(AddCommand(cache, "unpin", "undo pin",
                      [](const Arguments& a, KernelCache& c) {
                        return Commands(a, c).Pin(a.key, false);
                      }),
           true);
  AddPackCommands(cache);
}

void CommandLine::AddPackCommands(CLI::App& cache) {
  const auto with_place = [this](CLI::App* command, const char* what) {
    command->add_option("pack", arguments_.pack.file, what);
    command->add_option("--oci", arguments_.pack.oci_folder,
                        "folder of an OCI image layout, in place of a file");
    command->add_option("--tag", arguments_.pack.oci_tag, "tag in it")
        ->capture_default_str();
    return command;
  };
  const auto with_trust = [this](CLI::App* command) {
    command->add_option("--trust", arguments_.trusted,
                        "public key (PEM) whose signature is accepted; may be "
                        "given again");
    return command;
  };
  CLI::App* to = with_place(
      AddCommand(
          cache, "export", "write entries as one file, a pack",
          [](const Arguments& a, KernelCache& c) -> absl::StatusOr<int> {
            ASSIGN_OR_RETURN(const std::vector<ArtifactKey> keys,
                             ChosenKeys(a, c));
            return PackCommands{c, a.json}.Export(keys, a.pack, a.signing_key);
          }),
      "file to write");
  to->add_option("--key", arguments_.keys,
                 "an entry to take along; may be given again");
  to->add_option("--sign", arguments_.signing_key,
                 "private key (PEM, Ed25519) to sign it with");
  to->add_option("--model", arguments_.model,
                 "take along what this model of the repository needs");
  AddRepositoryOptions(*to)->description(
      "take along what it needs, and fail when something is missing");
  CLI::App* from = with_trust(
      with_place(AddCommand(cache, "import", "check a pack and add what is new",
                            [](const Arguments& a, KernelCache& c) {
                              return PackCommands{c, a.json}.Import(
                                  a.pack, a.trusted, a.allow_unsigned);
                            }),
                 "file to read"));
  from->add_flag("--allow-unsigned", arguments_.allow_unsigned,
                 "also accept what nobody, or nobody known, has signed");
  from->preparse_callback([this](size_t) { arguments_.fills_cache = true; });
  CLI::App* inspect = with_trust(
      with_place(cache.add_subcommand(
                     "inspect", "what a pack holds, fits, and who signed it"),
                 "file to read"));
  inspect->fallthrough();
  inspect->callback([this] {
    without_cache_ = [this] {
      return InspectPack(arguments_.pack, arguments_.trusted, arguments_.json);
    };
  });
}

absl::StatusOr<int> CommandLine::Do() {
  if (without_cache_) return without_cache_();
  // A cache is made by those who fill it, not by a mistake in a path.
  if (!arguments_.fills_cache && !Files::Real().Stat(arguments_.cache).ok()) {
    return absl::NotFoundError(
        absl::StrCat("--cache: there is no folder ", arguments_.cache));
  }
  MetricRegistry metrics;
  ASSIGN_OR_RETURN(
      const std::unique_ptr<KernelCache> cache,
      KernelCache::Open({.root = arguments_.cache, .layers = arguments_.layers},
                        Files::Real(), metrics));
  return chosen_(arguments_, *cache);
}

}  // namespace
}  // namespace stoker

int main(int argc, char** argv) {
  // gRPC writes to stderr on its own, also where the caller reports the error.
  setenv("GRPC_VERBOSITY", "NONE", /*overwrite=*/0);
  auto logger = spdlog::stderr_color_mt("stokerctl");
  logger->set_pattern("stokerctl: %v");
  logger->set_level(spdlog::level::warn);
  spdlog::set_default_logger(std::move(logger));
  stoker::CommandLine line;
  stoker::AddCacheCommands(line);
  stoker::AddPlanCommand(line);
  stoker::AddParityCommand(line);
  stoker::AddStatusCommand(line);
  stoker::AddHealthCommand(line);
  stoker::AddBucketsCommand(line);
  stoker::AddExplainGraphCommand(line);
  return line.Run(argc, argv);
}
