#include "ctl/cache_commands.h"

#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "base/json_text.h"
#include "base/status_macros.h"
#include "base/text_table.h"
#include "ctl/command_line.h"
#include "ctl/entry_info.h"
#include "ctl/output.h"
#include "ctl/pack_commands.h"
#include "ctl/plan_commands.h"
#include "nlohmann/json.hpp"

namespace stoker {
namespace {

using Json = nlohmann::json;

CacheCommands On(KernelCache& cache, const CommandLine& line) {
  return {cache.entries(), cache.facts(), Clock::Real(), line.json()};
}

std::string Joined(const std::vector<std::string>& texts) {
  std::string joined;
  for (const std::string& text : texts) {
    absl::StrAppend(&joined, joined.empty() ? "" : ", ", text);
  }
  return joined;
}

Json Described(const EntryInfo& entry) {
  Json json = {
      {"key", entry.key.hex()}, {"layer", LayerName(entry.layer)},
      {"model", entry.model},   {"bucket", entry.bucket},
      {"bytes", entry.bytes},   {"compile_seconds", entry.compile_seconds},
      {"notes", entry.notes}};
  if (entry.last_used != absl::InfinitePast()) {
    json["last_used"] = absl::FormatTime(entry.last_used, absl::UTCTimeZone());
  }
  return json;
}

// A section of `show`: a title and aligned lines of an object's members.
void PrintMembers(const std::string& title, const Json& object) {
  if (!object.is_object() || object.empty()) return;
  TextTable table({title, ""});
  for (const auto& [name, value] : object.items()) {
    table.Add({"  " + name,
               value.is_string() ? value.get<std::string>() : JsonText(value)});
  }
  Print("\n" + table.Text());
}

void AddCollectCommand(CommandLine& line, CLI::App& to) {
  struct Arguments {
    int64_t max_mb = 0;
    int max_age_days = 0;
    bool dry_run = false;

    CacheLimits Limits() const {
      CacheLimits limits{.max_bytes = max_mb << 20};
      if (max_age_days > 0) limits.max_age = absl::Hours(24 * max_age_days);
      return limits;
    }
  };
  const auto arguments = std::make_shared<Arguments>();
  CLI::App& gc = line.Add(
      to, "gc", "let go what is old or too much",
      [&line, arguments](KernelCache& cache) {
        return On(cache, line).Collect(arguments->Limits(), arguments->dry_run);
      });
  gc.add_option("--max-mb", arguments->max_mb,
                "size at which the least recently used go; 0: none do")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 30));
  gc.add_option("--max-age-days", arguments->max_age_days,
                "time since an entry was last used; 0: any")
      ->check(CLI::Range(0, 36500));
  gc.add_flag("--dry-run", arguments->dry_run, "only say what would go");
}

}  // namespace

absl::StatusOr<int> CacheCommands::List() const {
  const std::vector<EntryInfo> found = ListEntries(entries);
  if (json) {
    Json list = Json::array();
    for (const EntryInfo& entry : found) list.push_back(Described(entry));
    PrintJson(list);
    return 0;
  }
  TextTable table(
      {"KEY", "MODEL", "BUCKET", "LAYER", "SIZE", "COMPILE", "USED", "NOTES"});
  const absl::Time now = clock.WallNow();
  for (const EntryInfo& entry : found) {
    table.Add({entry.key.Short(), entry.model, entry.bucket,
               LayerName(entry.layer), HumanBytes(entry.bytes),
               SecondsText(entry.compile_seconds),
               HumanAge(entry.last_used, now), Joined(entry.notes)});
  }
  Print(table.empty() ? "the cache is empty\n" : table.Text());
  return 0;
}

absl::StatusOr<int> CacheCommands::Show(const std::string& prefix) const {
  ASSIGN_OR_RETURN(const EntryInfo entry, FindEntry(entries, prefix));
  if (json) {
    Json all = Described(entry);
    all["manifest"] = entry.manifest;
    PrintJson(all);
    return 0;
  }
  const CacheLayer& layer = entries.layers()[static_cast<size_t>(entry.layer)];
  TextTable head({"key", entry.key.hex()});
  head.Add({"model", entry.model});
  head.Add({"bucket", entry.bucket});
  head.Add({"folder", layer.EntryFolder(entry.key)});
  head.Add({"size", HumanBytes(entry.bytes)});
  head.Add({"compile", SecondsText(entry.compile_seconds)});
  head.Add({"last used", HumanAge(entry.last_used, clock.WallNow())});
  Print(head.Text());
  PrintMembers("factors of the key", entry.manifest.value("factors", Json()));
  PrintMembers("toolchain", entry.manifest.value("toolchain", Json()));
  PrintMembers("compile, seconds", entry.manifest.value("phases", Json()));
  PrintMembers("files", entry.manifest.value("files", Json()));
  for (const std::string& note : entry.notes) {
    PrintMembers(absl::StrCat("note ", note),
                 ReadJson(facts.ReadNote(entry.key, note).value_or("")));
  }
  return 0;
}

absl::StatusOr<int> CacheCommands::Verify(const std::string& prefix) const {
  struct Finding {
    ArtifactKey key;
    int layer;
    EntryCheck check;
  };
  std::vector<Finding> bad;
  int good = 0;
  bool found = prefix.empty();
  for (size_t i = 0; i < entries.layers().size(); ++i) {
    for (const ArtifactKey& key : entries.layers()[i].Keys()) {
      if (key.hex().compare(0, prefix.size(), prefix) != 0) continue;
      found = true;
      EntryCheck check = entries.layers()[i].Check(key);
      if (check.result == EntryCheck::Result::kGood) {
        ++good;
        continue;
      }
      bad.push_back({key, static_cast<int>(i), std::move(check)});
      // Sets it aside; a layer's is left where it is.
      if (i == 0) entries.Lookup(key);
    }
  }
  if (!found) {
    return absl::NotFoundError(
        absl::StrCat("no entry has a key that begins with ", prefix));
  }
  if (json) {
    Json list = Json::array();
    for (const Finding& one : bad) {
      list.push_back({{"key", one.key.hex()},
                      {"layer", LayerName(one.layer)},
                      {"reason", one.check.reason},
                      {"detail", one.check.detail}});
    }
    PrintJson(Json{{"good", good}, {"bad", std::move(list)}});
  } else {
    TextTable table({"KEY", "LAYER", "WHAT IS WRONG"});
    for (const Finding& one : bad) {
      table.Add({one.key.Short(), LayerName(one.layer), one.check.detail});
    }
    if (!bad.empty()) Print(table.Text() + "\n");
    Print(absl::StrCat(good, " good, ", bad.size(), " bad\n"));
  }
  return bad.empty() ? 0 : kFound;
}

absl::StatusOr<int> CacheCommands::Diff(const std::string& left,
                                        const std::string& right) const {
  ASSIGN_OR_RETURN(const EntryInfo a, FindEntry(entries, left));
  ASSIGN_OR_RETURN(const EntryInfo b, FindEntry(entries, right));
  const std::vector<FactorDifference> differences =
      Differences(a.factors, b.factors);
  if (json) {
    Json list = Json::array();
    for (const FactorDifference& one : differences) {
      list.push_back(
          {{"factor", one.factor}, {"left", one.left}, {"right", one.right}});
    }
    PrintJson(list);
  } else if (differences.empty()) {
    Print("all factors are equal\n");
  } else {
    TextTable table({"FACTOR", a.key.Short(), b.key.Short()});
    for (const FactorDifference& one : differences) {
      table.Add({one.factor, one.left, one.right});
    }
    Print(table.Text());
  }
  return differences.empty() ? 0 : kFound;
}

absl::StatusOr<int> CacheCommands::Stats() const {
  struct Sum {
    int entries = 0;
    int64_t bytes = 0;
    double compile_seconds = 0;
  };
  std::map<std::pair<std::string, int>, Sum> sums;  // by model and layer
  Sum all;
  for (const EntryInfo& entry : ListEntries(entries)) {
    for (Sum* sum : {&sums[{entry.model, entry.layer}], &all}) {
      ++sum->entries;
      sum->bytes += entry.bytes;
      sum->compile_seconds += entry.compile_seconds;
    }
  }
  if (json) {
    Json models = Json::array();
    for (const auto& [of, sum] : sums) {
      models.push_back({{"model", of.first},
                        {"layer", LayerName(of.second)},
                        {"entries", sum.entries},
                        {"bytes", sum.bytes},
                        {"compile_seconds", sum.compile_seconds}});
    }
    PrintJson(Json{{"entries", all.entries},
                   {"bytes", all.bytes},
                   {"compile_seconds", all.compile_seconds},
                   {"models", std::move(models)}});
    return 0;
  }
  TextTable table({"MODEL", "LAYER", "ENTRIES", "SIZE", "COMPILE"});
  const auto add = [&](const std::string& name, const std::string& layer,
                       const Sum& sum) {
    table.Add({name, layer, absl::StrCat(sum.entries), HumanBytes(sum.bytes),
               SecondsText(sum.compile_seconds)});
  };
  for (const auto& [of, sum] : sums) add(of.first, LayerName(of.second), sum);
  add("all", "", all);
  Print(table.Text());
  return 0;
}

absl::StatusOr<int> CacheCommands::Collect(const CacheLimits& limits,
                                           bool dry_run) const {
  const absl::Time now = clock.WallNow();
  if (!dry_run) {
    RETURN_IF_ERROR(entries.writable());
    const CacheUse use = entries.Evict(limits, now);
    if (json) {
      PrintJson(Json{{"evicted_entries", use.evicted_entries},
                     {"evicted_bytes", use.evicted_bytes},
                     {"entries", use.entries},
                     {"bytes", use.bytes}});
    } else {
      Print(absl::StrCat("evicted ", use.evicted_entries, " entries, ",
                         HumanBytes(use.evicted_bytes), "; ", use.entries,
                         " entries, ", HumanBytes(use.bytes), " are left\n"));
    }
    return 0;
  }
  const std::vector<Eviction> chosen = entries.Evictions(limits, now);
  if (json) {
    Json list = Json::array();
    for (const Eviction& one : chosen) {
      list.push_back({{"key", one.key.hex()}, {"reason", one.reason}});
    }
    PrintJson(list);
    return 0;
  }
  TextTable table({"KEY", "WOULD GO FOR ITS"});
  for (const Eviction& one : chosen) {
    table.Add({one.key.Short(), std::string(one.reason)});
  }
  Print(table.empty() ? "nothing would go\n" : table.Text());
  return 0;
}

absl::StatusOr<int> CacheCommands::Remove(const std::string& prefix) const {
  ASSIGN_OR_RETURN(const EntryInfo entry, FindEntry(entries, prefix));
  if (entry.layer != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("entry ", entry.key.Short(), " is in layer ",
                     LayerName(entry.layer), ", which is only read"));
  }
  RETURN_IF_ERROR(entries.Remove(entry.key));
  if (!json) Print(absl::StrCat(entry.key.Short(), " is removed\n"));
  return 0;
}

absl::StatusOr<int> CacheCommands::Pin(const std::string& prefix,
                                       bool pinned) const {
  ASSIGN_OR_RETURN(const EntryInfo entry, FindEntry(entries, prefix));
  RETURN_IF_ERROR(entries.SetPinned(entry.key, pinned));
  if (!json) {
    Print(absl::StrCat(entry.key.Short(),
                       pinned ? " is pinned\n" : " is not pinned any more\n"));
  }
  return 0;
}

void AddCacheCommands(CommandLine& line) {
  CLI::App& to = *line.app().add_subcommand("cache", "the kernel cache");
  to.require_subcommand(1);
  to.fallthrough();
  // A command that is about one entry, whose key may be left out unless it is
  // `required`.
  using OfEntry = std::function<absl::StatusOr<int>(const CacheCommands&,
                                                    const std::string& key)>;
  const auto add = [&](const char* name, const char* help, OfEntry run,
                       bool required = true) -> CLI::App& {
    const auto key = std::make_shared<std::string>();
    CLI::App& command =
        line.Add(to, name, help, [&line, key, run](KernelCache& cache) {
          return run(On(cache, line), *key);
        });
    command
        .add_option("key", *key,
                    "the entry's key, or as much of its beginning as tells "
                    "it from others")
        ->required(required);
    return command;
  };
  line.Add(to, "list", "its entries",
           [&line](KernelCache& cache) { return On(cache, line).List(); });
  add("show", "one entry: factors, files, notes", &CacheCommands::Show);
  AddCacheExplainCommand(line, to);
  add("verify", "read every byte; set aside what is damaged",
      &CacheCommands::Verify, /*required=*/false);
  const auto other = std::make_shared<std::string>();
  add("diff", "factors that differ",
      [other](const CacheCommands& cache, const std::string& key) {
        return cache.Diff(key, *other);
      })
      .add_option("other", *other, "the other entry's key")
      ->required();
  line.Add(to, "stats", "entries, bytes and compile time by model",
           [&line](KernelCache& cache) { return On(cache, line).Stats(); });
  AddCollectCommand(line, to);
  add("rm", "let one entry go, unless it is in use or pinned",
      &CacheCommands::Remove);
  add("pin", "never let it go",
      [](const CacheCommands& cache, const std::string& key) {
        return cache.Pin(key, true);
      });
  add("unpin", "undo pin",
      [](const CacheCommands& cache, const std::string& key) {
        return cache.Pin(key, false);
      });
  AddPackCommands(line, to);
}

}  // namespace stoker
