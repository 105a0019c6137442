#include "ctl/status_command.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "base/text_table.h"
#include "ctl/command_line.h"
#include "ctl/output.h"
#include "metrics/metrics_page.h"
#include "nlohmann/json.hpp"
#include "rpc/client_channel.h"

namespace stoker {
namespace {

using Ordered = nlohmann::ordered_json;

// Whether `label` is a version of the model: "minilm:1".
bool IsOf(const std::string& model, const std::string& label) {
  return label.substr(0, label.rfind(':')) == model;
}

// Leaves what is about the model.
void Keep(Ordered& status, const std::string& model) {
  Ordered versions = Ordered::object();
  for (const auto& [label, state] : status.at("versions").items()) {
    if (IsOf(model, label)) versions[label] = state;
  }
  status["versions"] = std::move(versions);
  for (const char* part : {"models", "buckets"}) {
    Ordered rows = Ordered::array();
    for (Ordered& row : status.at(part)) {
      if (IsOf(model, row.at("model"))) rows.push_back(std::move(row));
    }
    status[part] = std::move(rows);
  }
}

std::string PaidBack(const Ordered& bucket) {
  const auto runs = bucket.at("break_even_runs").get<int64_t>();
  if (runs == 0) return "";
  const bool paid = bucket.at("saved_seconds").get<double>() >=
                    bucket.at("compile_seconds").get<double>();
  return paid ? "yes" : absl::StrFormat("after %d runs", runs);
}

// A reason may have many lines; the first one says what, the JSON has all.
std::string FirstLine(const Ordered& reason) {
  const auto text = reason.get<std::string>();
  return text.substr(0, text.find('\n'));
}

// With a last column for the reasons, where there are any.
TextTable Table(std::vector<std::string> header, const Ordered& rows) {
  for (const Ordered& row : rows) {
    if (FirstLine(row.at("reason")).empty()) continue;
    header.emplace_back("WHY");
    break;
  }
  return TextTable(std::move(header));
}

std::string ModelTable(const Ordered& models) {
  const bool on_gpu =
      std::any_of(models.begin(), models.end(), [](const Ordered& model) {
        const auto device = model.value("device", "");
        return !device.empty() && device != "cpu";
      });
  std::vector<std::string> header = {"MODEL", "STATE"};
  if (on_gpu) header.emplace_back("DEVICE");
  TextTable table = Table(std::move(header), models);
  for (const Ordered& model : models) {
    std::vector<std::string> row = {model.at("model"), model.at("state")};
    if (on_gpu) row.push_back(model.value("device", ""));
    row.push_back(FirstLine(model.at("reason")));
    table.Add(std::move(row));
  }
  return table.empty() ? "no model is there\n" : table.Text();
}

std::string BucketTableText(const Ordered& buckets) {
  TextTable table = Table({"MODEL", "BUCKET", "STATE", "COMPILED", "EAGER",
                           "SPEEDUP", "COMPILE", "SAVED", "PAID BACK"},
                          buckets);
  for (const Ordered& bucket : buckets) {
    const auto speedup = bucket.at("speedup").get<double>();
    const auto compile = bucket.at("compile_seconds").get<double>();
    table.Add({bucket.at("model"), bucket.at("bucket"), bucket.at("state"),
               absl::StrCat(bucket.at("compiled_requests").get<int64_t>()),
               absl::StrCat(bucket.at("eager_requests").get<int64_t>()),
               speedup > 0 ? absl::StrFormat("%.2f", speedup) : "",
               compile > 0 ? SecondsText(compile) : "",
               compile > 0 ? SecondsText(bucket.at("saved_seconds")) : "",
               PaidBack(bucket), FirstLine(bucket.at("reason"))});
  }
  return table.empty() ? "" : absl::StrCat("\n", table.Text());
}

}  // namespace

absl::StatusOr<int> ShowStatus(const std::string& url, const std::string& model,
                               const std::string& token_file, bool json) {
  const std::string address =
      absl::StrCat(url.substr(0, url.rfind('/') + 1), "status.json");
  std::string token;
  if (!token_file.empty()) {
    ASSIGN_OR_RETURN(token, ReadToken(token_file));
  }
  ASSIGN_OR_RETURN(const std::string text,
                   HttpGet(address, absl::Seconds(5), token));
  try {
    Ordered status = Ordered::parse(text);
    if (!model.empty()) {
      Keep(status, model);
      if (status.at("models").empty()) {
        return absl::NotFoundError(
            absl::StrCat(address, " knows no model '", model, "'"));
      }
    }
    Print(json ? status.dump(2) + "\n"
               : ModelTable(status.at("models")) +
                     BucketTableText(status.at("buckets")));
  } catch (const Ordered::exception& e) {
    return absl::UnavailableError(absl::StrCat("expected a daemon's status at ",
                                               address, ", got ", e.what()));
  }
  return 0;
}

void AddStatusCommand(CommandLine& line) {
  struct Arguments {
    std::string model;
    std::string token_file;
    std::string url = "http://127.0.0.1:8002/metrics";
  };
  const auto arguments = std::make_shared<Arguments>();
  CLI::App& status = line.AddWithoutCache(
      line.app(), "status", "what a running daemon does with its buckets",
      [&line, arguments] {
        return ShowStatus(arguments->url, arguments->model,
                          arguments->token_file, line.json());
      });
  status.add_option("model", arguments->model,
                    "one model; all of them unless given");
  status
      .add_option("--metrics", arguments->url,
                  "the daemon's metrics page; its status.json is read")
      ->capture_default_str();
  status
      .add_option("--token-file", arguments->token_file,
                  "file with a bearer token to show to it")
      ->check(CLI::ExistingFile);
}

}  // namespace stoker
