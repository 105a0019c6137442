// stokerctl's command line: what all commands share, and the one that was
// chosen. Each command adds itself, with its own arguments, in the file that
// has what it does:
//
//   void AddFindCommand(CommandLine& line) {
//     const auto name = std::make_shared<std::string>();
//     CLI::App& find = line.Add(line.app(), "find", "looks for an entry",
//                               [&line, name](KernelCache& cache) {
//                                 return Find(cache, *name, line.json());
//                               });
//     find.add_option("name", *name, "its name");
//   }
//
// Used by one thread, and lives until the command is over.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kernel_cache/kernel_cache.h"

namespace CLI {
class App;
}  // namespace CLI

namespace stoker {

class CommandLine {
 public:
  // What a command does once everything is parsed; the exit code. An error is
  // one that kept the command from its work.
  using WithCache = std::function<absl::StatusOr<int>(KernelCache& cache)>;
  using WithoutCache = std::function<absl::StatusOr<int>()>;
  // A cache is made by those who fill it, not by a mistake in a path.
  enum class Folder { kMustExist, kIsMade };

  // With the options of all commands.
  CommandLine();
  ~CommandLine();

  CLI::App& app() { return *app_; }
  bool json() const { return json_; }

  // A command below `to`, which is app() or a command of commands.
  CLI::App& Add(CLI::App& to, const std::string& name, const std::string& help,
                WithCache run, Folder folder = Folder::kMustExist);
  CLI::App& AddWithoutCache(CLI::App& to, const std::string& name,
                            const std::string& help, WithoutCache run);

  // Parses, runs the command, says on stderr what is wrong; the exit code.
  int Run(int argc, char** argv);

 private:
  absl::StatusOr<int> RunWithCache(const WithCache& run, Folder folder) const;

  std::unique_ptr<CLI::App> app_;
  std::string cache_;
  std::vector<std::string> layers_;
  bool json_ = false;
  WithoutCache chosen_;
};

}  // namespace stoker
