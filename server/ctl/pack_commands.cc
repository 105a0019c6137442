#include "ctl/pack_commands.h"

#include <memory>
#include <optional>
#include <utility>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/files.h"
#include "base/status_macros.h"
#include "base/text_table.h"
#include "ctl/command_line.h"
#include "ctl/entry_info.h"
#include "ctl/output.h"
#include "ctl/repository_arguments.h"
#include "kernel_cache/oci_layout.h"
#include "kernel_cache/pack.h"
#include "nlohmann/json.hpp"
#include "planning/note_names.h"

namespace stoker {
namespace {

using Json = nlohmann::json;

absl::StatusOr<std::string> PathOf(const PackPlaceArgument& place) {
  RETURN_IF_ERROR(place.Check());
  if (place.oci_folder.empty()) return place.file;
  return FindPackInOciLayout(place.oci_folder, place.oci_tag);
}

int64_t BytesOf(const PackIndex& index) {
  int64_t bytes = 0;
  for (const PackMember& member : index.members) bytes += member.bytes;
  return bytes;
}

std::string Signer(const SignatureVerdict& verdict) {
  switch (verdict.kind) {
    case SignatureVerdict::Kind::kTrusted:
      return absl::StrCat("signed by trusted key ", verdict.signer);
    case SignatureVerdict::Kind::kUnknown:
      return absl::StrCat("signed by unknown key ", verdict.signer);
    case SignatureVerdict::Kind::kUnsigned:
      return "not signed";
    case SignatureVerdict::Kind::kWrong:
      break;
  }
  return absl::StrCat("wrong signature: ", verdict.detail);
}

}  // namespace

absl::Status PackPlaceArgument::Check() const {
  if (file.empty() != oci_folder.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "expected either the path of a pack or --oci FOLDER");
}

absl::StatusOr<int> PackCommands::Export(const std::vector<ArtifactKey>& keys,
                                         const PackPlaceArgument& to,
                                         const std::string& signing_key) const {
  RETURN_IF_ERROR(to.Check());
  std::optional<SigningKey> signer;
  if (!signing_key.empty()) {
    ASSIGN_OR_RETURN(signer, SigningKey::Load(signing_key));
  }
  const bool oci = !to.oci_folder.empty();
  const std::string path = oci ? to.oci_folder + ".pack" : to.file;
  ASSIGN_OR_RETURN(const PackIndex index,
                   ExportPack(cache, keys, NotesThatStay(), path,
                              signer.has_value() ? &*signer : nullptr));
  if (oci) {
    const absl::Status written =
        WriteOciLayout(path, to.oci_folder, to.oci_tag);
    RETURN_IF_ERROR(Files::Real().Remove(path));
    RETURN_IF_ERROR(written);
  }
  const std::string where =
      oci ? absl::StrCat("oci:", to.oci_folder, ":", to.oci_tag) : path;
  if (json) {
    PrintJson(Json{{"entries", index.entries.size()},
                   {"bytes", BytesOf(index)},
                   {"signed", signer.has_value()},
                   {"written", where}});
  } else {
    Print(absl::StrCat(where, ": ", index.entries.size(), " entries, ",
                       HumanBytes(BytesOf(index)),
                       signer.has_value() ? ", signed\n" : ", not signed\n"));
  }
  return 0;
}

absl::StatusOr<int> PackCommands::Import(
    const PackPlaceArgument& from, const std::vector<std::string>& trusted,
    bool allow_unsigned) const {
  SignaturePolicy policy;
  ASSIGN_OR_RETURN(policy.trusted, PublicKey::LoadAll(trusted));
  policy.allow_unsigned = allow_unsigned;
  RETURN_IF_ERROR(cache.entries().writable());
  ASSIGN_OR_RETURN(const std::string path, PathOf(from));
  ASSIGN_OR_RETURN(const ImportedPack pack,
                   ImportPack(cache, path, policy, NotesThatStay()));
  if (json) {
    PrintJson(Json{{"new", pack.committed.size()},
                   {"present", pack.present.size()},
                   {"bytes", BytesOf(pack.index)},
                   {"signature", Signer(pack.signature)}});
  } else {
    Print(absl::StrCat(pack.committed.size(), " entries are new, ",
                       pack.present.size(), " were there; ",
                       HumanBytes(BytesOf(pack.index)), ", ",
                       Signer(pack.signature), "\n"));
  }
  return 0;
}

absl::StatusOr<int> InspectPack(const PackPlaceArgument& from,
                                const std::vector<std::string>& trusted,
                                bool json) {
  ASSIGN_OR_RETURN(const std::vector<PublicKey> keys,
                   PublicKey::LoadAll(trusted));
  ASSIGN_OR_RETURN(const std::string path, PathOf(from));
  ASSIGN_OR_RETURN(const PackSummary pack, ReadPackSummary(path, keys));
  const PackHardware hardware = HardwareOf(pack.index.entries);
  if (json) {
    Json entries = Json::array();
    for (const PackEntry& entry : pack.index.entries) {
      entries.push_back({{"key", entry.key.hex()},
                         {"model", entry.model},
                         {"bucket", entry.bucket},
                         {"compile_seconds", entry.compile_seconds}});
    }
    PrintJson(Json{{"entries", std::move(entries)},
                   {"bytes", BytesOf(pack.index)},
                   {"fits", hardware},
                   {"signature", Signer(pack.signature)}});
    return 0;
  }
  TextTable table({"KEY", "MODEL", "BUCKET", "COMPILE"});
  for (const PackEntry& entry : pack.index.entries) {
    table.Add({entry.key.Short(), entry.model, entry.bucket,
               SecondsText(entry.compile_seconds)});
  }
  TextTable fits({"FITS", ""});
  for (const auto& [factor, values] : hardware) {
    fits.Add({factor, absl::StrJoin(values, ", ")});
  }
  Print(absl::StrCat(table.Text(), "\n", fits.Text(), "\n",
                     HumanBytes(BytesOf(pack.index)), ", ",
                     Signer(pack.signature), "\n"));
  return 0;
}

namespace {

void AddPlace(CLI::App& to, PackPlaceArgument& place, const char* file) {
  to.add_option("pack", place.file, file);
  to.add_option("--oci", place.oci_folder,
                "folder of an OCI image layout, in place of a file");
  to.add_option("--tag", place.oci_tag, "tag in it")->capture_default_str();
}

void AddTrust(CLI::App& to, std::vector<std::string>& trusted) {
  to.add_option("--trust", trusted,
                "public key (PEM) whose signature is accepted; may be "
                "given again");
}

struct ExportArguments {
  PackPlaceArgument place;
  std::vector<std::string> keys;
  std::string signing_key;
  RepositoryArguments repository;

  // The keys that were named, else what the repository needs, else all.
  absl::StatusOr<std::vector<ArtifactKey>> ChosenKeys(KernelCache& cache,
                                                      bool json) const {
    if (keys.empty() && !repository.repository.empty()) {
      return repository.Plan(cache, json, &PlanCommands::Keys);
    }
    if (keys.empty()) return cache.entries().Keys();
    std::vector<ArtifactKey> chosen;
    for (const std::string& prefix : keys) {
      ASSIGN_OR_RETURN(const EntryInfo entry,
                       FindEntry(cache.entries(), prefix));
      chosen.push_back(entry.key);
    }
    return chosen;
  }
};

void AddExportCommand(CommandLine& line, CLI::App& to) {
  const auto arguments = std::make_shared<ExportArguments>();
  CLI::App& command =
      line.Add(to, "export", "write entries as one file, a pack",
               [&line, arguments](KernelCache& cache) -> absl::StatusOr<int> {
                 ASSIGN_OR_RETURN(const std::vector<ArtifactKey> keys,
                                  arguments->ChosenKeys(cache, line.json()));
                 return PackCommands{cache, line.json()}.Export(
                     keys, arguments->place, arguments->signing_key);
               });
  AddPlace(command, arguments->place, "file to write");
  command.add_option("--key", arguments->keys,
                     "an entry to take along; may be given again");
  command.add_option("--sign", arguments->signing_key,
                     "private key (PEM, Ed25519) to sign it with");
  command.add_option("--model", arguments->repository.model,
                     "take along what this model of the repository needs");
  arguments->repository.AddOptions(command)->description(
      "take along what it needs, and fail when something is missing");
}

void AddImportCommand(CommandLine& line, CLI::App& to) {
  struct Arguments {
    PackPlaceArgument place;
    std::vector<std::string> trusted;
    bool allow_unsigned = false;
  };
  const auto arguments = std::make_shared<Arguments>();
  CLI::App& command = line.Add(
      to, "import", "check a pack and add what is new",
      [&line, arguments](KernelCache& cache) {
        return PackCommands{cache, line.json()}.Import(
            arguments->place, arguments->trusted, arguments->allow_unsigned);
      },
      CommandLine::Folder::kIsMade);
  AddPlace(command, arguments->place, "file to read");
  AddTrust(command, arguments->trusted);
  command.add_flag("--allow-unsigned", arguments->allow_unsigned,
                   "also accept what nobody, or nobody known, has signed");
}

void AddInspectCommand(CommandLine& line, CLI::App& to) {
  struct Arguments {
    PackPlaceArgument place;
    std::vector<std::string> trusted;
  };
  const auto arguments = std::make_shared<Arguments>();
  CLI::App& command = line.AddWithoutCache(
      to, "inspect", "what a pack holds, fits, and who signed it",
      [&line, arguments] {
        return InspectPack(arguments->place, arguments->trusted, line.json());
      });
  AddPlace(command, arguments->place, "file to read");
  AddTrust(command, arguments->trusted);
}

}  // namespace

void AddPackCommands(CommandLine& line, CLI::App& to) {
  AddExportCommand(line, to);
  AddImportCommand(line, to);
  AddInspectCommand(line, to);
}

}  // namespace stoker
