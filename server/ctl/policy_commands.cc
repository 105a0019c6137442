#include "ctl/policy_commands.h"

#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "access/jwk_set.h"
#include "access/jwt.h"
#include "access/method.h"
#include "access/policy.h"
#include "base/absl_view.h"
#include "base/clock.h"
#include "base/status_macros.h"
#include "ctl/command_line.h"
#include "ctl/output.h"
#include "nlohmann/json.hpp"
#include "rpc/client_channel.h"

namespace stoker {
namespace {

// Below that a token can be found from its hash by trying.
constexpr size_t kShortToken = 22;

// At most one token's bytes, and one more to tell of more.
std::string ReadInput() {
  std::string text(kMaxTokenBytes + 2, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), stdin));
  if (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

absl::StatusOr<int> PrintHash(bool json) {
  const std::string token = ReadInput();
  RETURN_IF_ERROR(CheckToken(token));
  const TokenHash hash = HashToken(token);
  const std::string text = absl::BytesToHexString(absl::string_view(
      reinterpret_cast<const char*>(hash.data()), hash.size()));
  if (token.size() < kShortToken) {
    std::fprintf(stderr,
                 "stokerctl: a token of %zu characters can be guessed from its "
                 "hash; openssl rand -base64 32 makes one that can't\n",
                 token.size());
  }
  if (json) {
    PrintJson({{"sha256", text}});
  } else {
    Print(text + "\n");
  }
  return 0;
}

struct Question {
  std::string file;
  std::string token;
  std::string token_file;
  std::string name;
  bool anonymous = false;
  std::string method;
  std::string model;
};

std::string MethodNames() {
  return absl::StrJoin(AllMethods(), ", ",
                       [](std::string* out, const Method& method) {
                         out->append(std::string(method.name()));
                       });
}

std::string When(absl::Time time) {
  return absl::FormatTime(absl::RFC3339_sec, time, absl::UTCTimeZone());
}

// As FindCaller.
std::string FindSigner(const AccessPolicy& policy, const JwkSet& keys,
                       const std::string& shown,
                       const AccessPolicy::Caller*& caller) {
  const absl::StatusOr<Jwt> token = Jwt::Verify(shown, keys, *policy.jwt());
  if (!token.ok()) return std::string(token.status().message());
  const AccessPolicy::Caller* const found = policy.FindClaiming(*token);
  if (found == nullptr) return "no caller has the claims of this token";
  caller = found;
  const absl::Time now = Clock::Real().WallNow();
  if (now < token->not_before()) {
    return absl::StrCat("the token of ", caller->name, " is good from ",
                        When(token->not_before()), " on");
  }
  if (now < token->expires()) return "";
  return absl::StrCat("the token of ", caller->name, " expired at ",
                      When(token->expires()));
}

// Why it is nobody's; empty: `caller` is who it is. `keys` null: the policy
// has none.
absl::StatusOr<std::string> FindCaller(const AccessPolicy& policy,
                                       const JwkSet* keys,
                                       const Question& asked,
                                       const AccessPolicy::Caller*& caller) {
  caller = &policy.anonymous();
  if (!asked.name.empty()) {
    if (const auto* named = policy.FindNamed({asked.name})) caller = named;
    return "";
  }
  std::string shown = asked.token;
  if (!asked.token_file.empty()) {
    ASSIGN_OR_RETURN(shown, ReadToken(asked.token_file));
  }
  if (shown.empty()) return "";
  RETURN_IF_ERROR(CheckToken(shown));
  const AccessPolicy::Token* const token = policy.FindToken(HashToken(shown));
  if (token == nullptr && keys != nullptr && Jwt::IsOne(shown)) {
    return FindSigner(policy, *keys, shown, caller);
  }
  if (token == nullptr) return "nobody has this token";
  caller = token->caller;
  if (Clock::Real().WallNow() < token->expires) return "";
  return absl::StrCat("the token of ", caller->name, " expired at ",
                      When(token->expires));
}

Target TargetOf(const Question& asked, const Method& method) {
  if (!asked.model.empty()) return Target::Of(asked.model);
  const bool lists = method.name() == "RepositoryIndex" ||
                     method.name() == "ModelStatistics" ||
                     method.name() == "TraceSetting" ||
                     method.group == MethodGroup::kMetrics;
  return lists ? Target::Every() : Target::Server();
}

absl::StatusOr<int> Test(const Question& asked, bool json) {
  ASSIGN_OR_RETURN(const AccessPolicy policy, AccessPolicy::Read(asked.file));
  const Method* const method = FindMethodNamed(asked.method);
  if (method == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(
        "expected one of ", MethodNames(), ", got ", asked.method));
  }
  std::optional<JwkSet> keys;
  if (policy.jwt().has_value()) {
    ASSIGN_OR_RETURN(JwkSet read, JwkSet::Read(policy.jwt()->jwks));
    keys.emplace(std::move(read));
  }
  const AccessPolicy::Caller* caller = nullptr;
  ASSIGN_OR_RETURN(
      const std::string nobody,
      FindCaller(policy, keys.has_value() ? &*keys : nullptr, asked, caller));
  const AccessPolicy::Rule* const rule =
      nobody.empty() ? AccessPolicy::Grant(*caller, method->group,
                                           TargetOf(asked, *method))
                     : nullptr;
  const std::string why =
      rule != nullptr ? rule->name
      : !nobody.empty()
          ? nobody
          : absl::StrCat("no rule grants ", NameOf(method->group),
                         asked.model.empty() ? "" : " on model " + asked.model,
                         " to ", caller->name);
  const char* const verdict = rule != nullptr ? "allowed" : "refused";
  if (json) {
    PrintJson({{"verdict", verdict},
               {"caller", caller->name},
               {"group", NameOf(method->group)},
               {rule != nullptr ? "rule" : "reason", why}});
  } else {
    Print(absl::StrCat(verdict, ": ", caller->name, ", group ",
                       NameOf(method->group), ", ",
                       rule != nullptr ? "by " : "", why, "\n"));
  }
  return rule != nullptr ? 0 : 1;
}

void AddTest(CommandLine& line, CLI::App& to) {
  const auto asked = std::make_shared<Question>();
  CLI::App& test = line.AddWithoutCache(
      to, "test",
      "whether a policy allows a call, and by which rule: exit "
      "code 0, else 1",
      [&line, asked] { return Test(*asked, line.json()); });
  test.add_option("file", asked->file, "the policy")
      ->required()
      ->check(CLI::ExistingFile);
  test.add_option("method", asked->method,
                  "such as ModelInfer, or a page such as /metrics")
      ->required();
  test.add_option("model", asked->model, "that the call is about");
  CLI::Option_group& who = *test.add_option_group("who", "who calls");
  who.add_option("--token", asked->token,
                 "a token, which others on this machine can see");
  who.add_option("--token-file", asked->token_file, "a file that holds one")
      ->check(CLI::ExistingFile);
  who.add_option("--san", asked->name, "a name of a client's certificate");
  who.add_flag("--anonymous", asked->anonymous, "who shows nothing");
  who.require_option(1);
}

}  // namespace

void AddPolicyCommands(CommandLine& line) {
  CLI::App& policy =
      *line.app().add_subcommand("policy", "files for stokerd --policy");
  policy.require_subcommand(1);
  policy.fallthrough();
  AddTest(line, policy);
  line.AddWithoutCache(policy, "hash",
                       "reads a token from stdin and prints its hash",
                       [&line] { return PrintHash(line.json()); });
}

}  // namespace stoker
