#include "ctl/explain_graph.h"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/clock.h"
#include "base/communicate.h"
#include "base/json_field.h"
#include "base/json_text.h"
#include "base/status_macros.h"
#include "base/subprocess.h"
#include "compile_broker/compiler_folder.h"
#include "compile_broker/worker_environment.h"
#include "ctl/cache_commands.h"
#include "ctl/command_line.h"
#include "ctl/graph_report.h"
#include "ctl/output.h"
#include "ctl/planned_buckets.h"
#include "ctl/repository_arguments.h"
#include "nlohmann/json.hpp"
#include "tensor/shape_bucket.h"

namespace stoker {
namespace {

using Json = nlohmann::json;

// A C++ compiler says nothing while it works.
constexpr absl::Duration kSilence = absl::Minutes(15);

absl::StatusOr<PlannedBucket> Chosen(const PlanCommands& with,
                                     const GraphQuestion& question) {
  ASSIGN_OR_RETURN(
      const std::shared_ptr<const ModelSpec> spec,
      NewestVersion(with.repository, with.toolchain, question.model));
  if (spec->on_gpu()) {
    return absl::UnimplementedError(
        absl::StrCat(spec->Label(), " runs on ", spec->devices.front().Text(),
                     ": only what runs on the CPU is taken apart"));
  }
  std::vector<PlannedBucket> buckets =
      BucketsOf(with.cache, spec, with.toolchain, with.cores);
  // It is run on inputs of fixed sizes.
  std::erase_if(buckets, [](const PlannedBucket& bucket) {
    return bucket.step.dynamic();
  });
  if (buckets.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat("model.yaml of ", question.model,
                     " says 'buckets: []': there is none to explain"));
  }
  const auto volume = [](const PlannedBucket& bucket) {
    return Volume(bucket.spec->buckets[bucket.step.bucket].sizes);
  };
  const auto found =
      question.bucket.empty()
          ? std::max_element(buckets.begin(), buckets.end(),
                             [&](const auto& a, const auto& b) {
                               return volume(a) < volume(b);
                             })
          : std::find_if(buckets.begin(), buckets.end(), [&](const auto& one) {
              return one.step.name == question.bucket;
            });
  if (found != buckets.end()) return std::move(*found);
  const std::string names = absl::StrJoin(
      buckets, ", ", [](std::string* to, const PlannedBucket& bucket) {
        absl::StrAppend(to, "'", bucket.step.name, "'");
      });
  return absl::NotFoundError(absl::StrCat("--bucket: ", spec->Label(),
                                          " has no bucket '", question.bucket,
                                          "', only ", names));
}

Subprocess::Options Command(const PlanCommands& with,
                            const GraphQuestion& question,
                            const PlannedBucket& bucket) {
  const CompileRequest& request = bucket.step.request;
  Json ranges = Json::array();
  for (const InputSpec& input : bucket.spec->inputs) {
    ranges.push_back(input.range.has_value()
                         ? Json{input.range->first, input.range->second}
                         : Json());
  }
  Subprocess::Options options;
  options.argv = {
      question.compiler_python,
      "-m",
      "compiler.explain",
      absl::StrCat("--reply-fd=", options.reply_fd),
      absl::StrCat("--program=",
                   std::filesystem::absolute(request.program_path).string()),
      absl::StrCat("--sizes=", JsonText(request.sizes)),
      absl::StrCat("--ranges=", JsonText(ranges)),
      absl::StrCat("--factors=", JsonText(request.factors)),
      absl::StrCat("--operators=", JsonText(request.operator_libraries)),
      absl::StrCat(
          "--threads=",
          ComputeThreads(*bucket.spec, InstanceCpus(*bucket.spec), with.cores)),
      absl::StrCat("--march=", request.march),
      absl::StrCat("--simdlen=", request.simdlen),
      absl::StrCat("--scratch=", with.cache.entries().scratch_folder()),
      absl::StrCat("--model=", request.model),
      absl::StrCat("--bucket=", request.bucket)};
  if (!request.passes_path.empty()) {
    options.argv.push_back(absl::StrCat("--passes=", request.passes_path));
  }
  if (!question.html.empty()) {
    options.argv.push_back(absl::StrCat(
        "--html=", std::filesystem::absolute(question.html).string()));
  }
  options.working_folder = question.compiler_folder;
  options.inherit = WorkerVariables();
  return options;
}

// Tells of the phases that the compiler goes through.
class Progress {
 public:
  explicit Progress(std::string what) : what_(std::move(what)) {}

  void Hear(std::string_view piece) {
    heard_ += piece;
    for (size_t end; (end = heard_.find('\n')) != std::string::npos;) {
      const Json message = ReadJson(heard_.substr(0, end));
      heard_.erase(0, end + 1);
      if (TextField(message, "event") == "phase") {
        std::fprintf(stderr, "%6.1f s  %s: %s\n",
                     absl::ToDoubleSeconds(Clock::Real().Now() - begin_),
                     what_.c_str(), TextField(message, "phase").c_str());
      }
    }
  }

 private:
  const std::string what_;
  const MonotonicTime begin_ = Clock::Real().Now();
  std::string heard_;  // of a line that has no end yet
};

// The last line says how it went.
absl::StatusOr<Json> Outcome(const Conversation& heard) {
  const Json last = ReadJson(LastLine(heard.reply));
  const std::string event = TextField(last, "event");
  if (event == "done" && last.contains("report")) return last.at("report");
  if (event == "failed") {
    return absl::InternalError(TextField(last, "message"));
  }
  return absl::InternalError(absl::StrCat(
      "the compiler gave no report (", heard.end, "): ", LastLine(heard.log)));
}

}  // namespace

absl::StatusOr<int> ExplainGraph(const PlanCommands& with,
                                 const GraphQuestion& question) {
  ASSIGN_OR_RETURN(const PlannedBucket bucket, Chosen(with, question));
  if (question.compiler_python.empty()) {
    return absl::UnavailableError(
        "--compiler-python is empty: explaining a graph takes a compiler");
  }
  signal(SIGPIPE, SIG_IGN);
  auto child = Subprocess::Start(Command(with, question, bucket));
  if (!child.ok()) {
    return absl::UnavailableError(
        absl::StrCat("--compiler-python: ", child.status().message()));
  }
  Progress progress(absl::StrCat(bucket.spec->Label(), " ", bucket.step.name));
  const Conversation heard =
      Communicate(**child, "", kSilence,
                  [&](std::string_view piece) { progress.Hear(piece); });
  ASSIGN_OR_RETURN(const Json report, Outcome(heard));
  if (with.json) {
    PrintJson(report);
  } else {
    ASSIGN_OR_RETURN(const std::string text, GraphReportText(report));
    Print(text);
    if (!question.html.empty()) {
      Print(absl::StrCat("\nwritten to ", question.html, "\n"));
    }
  }
  const bool complete = report.value("not_compiled", Json()).is_null() &&
                        report.value("not_run", Json()).is_null();
  return complete ? 0 : kFound;
}

void AddExplainGraphCommand(CommandLine& line) {
  struct Arguments {
    RepositoryArguments repository;
    GraphQuestion question = {.model = "",
                              .bucket = "",
                              .html = "",
                              .compiler_python = "python3",
                              .compiler_folder = DefaultCompilerFolder()};
  };
  const auto arguments = std::make_shared<Arguments>();
  CLI::App& explain = line.Add(
      line.app(), "explain-graph",
      "what a graph is made of, what is compiled from it, and its run time",
      [&line, arguments](KernelCache& cache) {
        return arguments->repository.Plan(
            cache, line.json(),
            [&](const PlanCommands& with, const std::string& model) {
              GraphQuestion question = arguments->question;
              question.model = model;
              return ExplainGraph(with, question);
            });
      },
      // The compiler's own caches lie there.
      CommandLine::Folder::kIsMade);
  explain.add_option("model", arguments->repository.model, "the model")
      ->required();
  arguments->repository.AddOptions(explain)->required();
  GraphQuestion& question = arguments->question;
  explain.add_option("--bucket", question.bucket,
                     "such as batch=8,tokens=32; the largest unless given");
  explain.add_option("--html", question.html,
                     "file to write it to as one page, with pictures");
  explain
      .add_option("--compiler-python", question.compiler_python,
                  "as for stokerd")
      ->capture_default_str();
  explain.add_option("--compiler-folder", question.compiler_folder,
                     "as for stokerd");
}

}  // namespace stoker
