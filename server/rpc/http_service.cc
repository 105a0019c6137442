#include "rpc/http_service.h"

#include <algorithm>
#include <functional>
#include <map>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/error_text.h"
#include "base/json_field.h"
#include "base/json_text.h"
#include "open_inference.pb.h"
#include "rpc/http_infer.h"
#include "rpc/http_method.h"
#include "rpc/http_path.h"
#include "rpc/json_control.h"
#include "rpc/log_settings_service.h"
#include "rpc/message_json.h"
#include "rpc/trace_settings_service.h"

namespace stoker {
namespace {

constexpr char kLoad[] = "/inference.GRPCInferenceService/RepositoryModelLoad";

// What a pattern's parts in braces stand for in a path.
using Names = std::map<std::string, std::string>;
using Build = std::function<absl::StatusOr<std::string>(const Names& names,
                                                        std::string_view body)>;

std::string Named(const Names& names, const char* what) {
  const auto found = names.find(what);
  return found == names.end() ? "" : found->second;
}

HttpAnswer Json(const std::string& text, int status = 200) {
  HttpAnswer answer;
  answer.status = status;
  answer.body = ByteChain::Copy(text);
  return answer;
}

// ---- requests

// Methods that take no more than what the path says.
template <typename Message>
absl::StatusOr<std::string> Nothing(const Names&, std::string_view) {
  return Message().SerializeAsString();
}
template <typename Message>
absl::StatusOr<std::string> OfVersion(const Names& names, std::string_view) {
  Message message;
  message.set_name(Named(names, "model"));
  message.set_version(Named(names, "version"));
  return message.SerializeAsString();
}
template <typename Message>
absl::StatusOr<std::string> OfRegion(const Names& names, std::string_view) {
  Message message;
  message.set_name(Named(names, "region"));
  return message.SerializeAsString();
}

absl::StatusOr<std::string> IndexRequest(const Names&, std::string_view body) {
  absl::StatusOr<nlohmann::json> json = JsonObjectOf(body);
  if (!json.ok()) return json.status();
  inference::RepositoryIndexRequest message;
  const nlohmann::json& ready = Field(*json, "ready");
  if (ready.is_boolean()) message.set_ready(ready.get<bool>());
  return message.SerializeAsString();
}

absl::StatusOr<std::string> TraceRequest(const Names& names,
                                         std::string_view body) {
  return TraceSettingRequestOf(Named(names, "model"), body);
}

absl::StatusOr<std::string> LogRequest(const Names&, std::string_view body) {
  return LogSettingsRequestOf(body);
}

absl::StatusOr<std::string> LoadRequestOf(const Names& names,
                                          std::string_view body) {
  return LoadRequestOfJson(Named(names, "model"), body);
}
absl::StatusOr<std::string> UnloadRequestOf(const Names& names,
                                            std::string_view body) {
  return UnloadRequestOfJson(Named(names, "model"), body);
}

absl::StatusOr<std::string> Register(const Names& names,
                                     std::string_view body) {
  absl::StatusOr<nlohmann::json> json = JsonObjectOf(body);
  if (!json.ok()) return json.status();
  inference::SystemSharedMemoryRegisterRequest message;
  message.set_name(Named(names, "region"));
  const nlohmann::json& key = Field(*json, "key");
  const nlohmann::json& offset = Field(*json, "offset");
  const nlohmann::json& size = Field(*json, "byte_size");
  if (!key.is_string() || !size.is_number_unsigned() ||
      !(offset.is_null() || offset.is_number_unsigned())) {
    return absl::InvalidArgumentError(
        "Unable to parse the region: expected a string 'key' and integers "
        "'byte_size' and 'offset' from 0");
  }
  message.set_key(key.get<std::string>());
  message.set_byte_size(size.get<uint64_t>());
  if (!offset.is_null()) message.set_offset(offset.get<uint64_t>());
  return message.SerializeAsString();
}

// ---- answers

template <typename Message>
Message Parsed(const std::string& bytes) {
  Message message;
  message.ParseFromString(bytes);
  return message;
}

template <typename Message>
HttpAnswer AsJson(const std::string& bytes) {
  return Json(MessageJson(Parsed<Message>(bytes)));
}
HttpAnswer Config(const std::string& bytes) {
  return Json(
      MessageJson(Parsed<inference::ModelConfigResponse>(bytes).config()));
}
HttpAnswer LogAnswer(const std::string& bytes) {
  return Json(LogSettingsJson(bytes));
}
HttpAnswer TraceAnswer(const std::string& bytes) {
  return Json(TraceSettingJson(bytes));
}
HttpAnswer IndexJson(const std::string& bytes) {
  return Json(
      FieldJson(Parsed<inference::RepositoryIndexResponse>(bytes), "models"));
}
HttpAnswer Done(const std::string&) { return HttpAnswer(); }

// Triton says no with 400.
HttpAnswer YesOrNo(const char* what, bool yes) {
  const char* const value = yes ? "true" : "false";
  return yes ? Json(absl::StrCat("{\"", what, "\":", value, "}"))
             : Json(absl::StrCat("{\"", what, "\":", value, ",\"error\":\"not ",
                                 what, "\"}"),
                    400);
}
HttpAnswer Live(const std::string& bytes) {
  return YesOrNo("live", Parsed<inference::ServerLiveResponse>(bytes).live());
}
HttpAnswer Ready(const std::string& bytes) {
  return YesOrNo("ready",
                 Parsed<inference::ServerReadyResponse>(bytes).ready());
}
HttpAnswer ModelIsReady(const std::string& bytes) {
  return YesOrNo("ready", Parsed<inference::ModelReadyResponse>(bytes).ready());
}

template <typename Message>
HttpAnswer Regions(const std::string& bytes) {
  std::string text;
  const Message message = Parsed<Message>(bytes);
  for (const auto& [name, region] : message.regions()) {
    absl::StrAppend(&text, text.empty() ? "" : ",", MessageJson(region));
  }
  return Json(absl::StrCat("[", text, "]"));
}

class FixedAnswer final : public HttpHandler {
 public:
  FixedAnswer(HttpCall& call, HttpAnswer answer)
      : call_(call), answer_(std::move(answer)) {}
  void OnStart() override { call_.Answer(answer_); }
  CallStatus Reserve(size_t) override { return {}; }
  void OnBody(const ByteChain&) override {}
  void OnBadBody(const CallStatus&) override {}

 private:
  HttpCall& call_;
  const HttpAnswer answer_;
};

}  // namespace

struct HttpService::Route {
  std::string verb;
  std::string pattern;
  std::string method;  // of gRPC; empty: inference
  Build build;
  HttpMethod::Translate translate;
  std::vector<std::string> parts;

  Route(std::string verb, std::string pattern, const char* method, Build build,
        HttpMethod::Translate translate)
      : verb(std::move(verb)),
        pattern(std::move(pattern)),
        method(*method == '\0' ? "" : InferencePath(method)),
        build(std::move(build)),
        translate(std::move(translate)),
        parts(PathParts(this->pattern)) {}

  bool Matches(const std::vector<std::string>& path, Names& names) const {
    if (path.size() != parts.size()) return false;
    for (size_t i = 0; i < parts.size(); ++i) {
      if (parts[i].front() == '{') {
        if (path[i].empty()) return false;
        names[parts[i].substr(1, parts[i].size() - 2)] = path[i];
      } else if (parts[i] != path[i]) {
        return false;
      }
    }
    return true;
  }
};

HttpService::~HttpService() = default;

std::unique_ptr<HttpHandler> RefuseHttp(HttpCall& call, HttpAnswer answer) {
  return std::make_unique<FixedAnswer>(call, std::move(answer));
}

HttpService::HttpService(const InferCall::Services& services,
                         const MethodTable& methods,
                         const HttpMethod::Large& loads)
    : services_(services), methods_(methods), loads_(loads), routes_([] {
        using namespace inference;
        std::vector<Route> all;
        const auto add = [&all](const char* verb, const char* pattern,
                                const char* method, const Build& build,
                                const HttpMethod::Translate& translate) {
          all.emplace_back(verb, pattern, method, build, translate);
        };
        // What a model's path can be followed by, with a version and without.
        const auto of_model = [&add](const char* verb, const std::string& rest,
                                     const char* method, const Build& build,
                                     const HttpMethod::Translate& translate) {
          for (const char* model : {"/v2/models/{model}",
                                    "/v2/models/{model}/versions/{version}"}) {
            add(verb, (model + rest).c_str(), method, build, translate);
          }
        };
        of_model("POST", "/infer", "", nullptr, nullptr);
        add("GET", "/v2/health/live", "ServerLive", Nothing<ServerLiveRequest>,
            Live);
        add("GET", "/v2/health/ready", "ServerReady",
            Nothing<ServerReadyRequest>, Ready);
        of_model("GET", "/ready", "ModelReady", OfVersion<ModelReadyRequest>,
                 ModelIsReady);
        add("GET", "/v2", "ServerMetadata", Nothing<ServerMetadataRequest>,
            AsJson<ServerMetadataResponse>);
        add("GET", "/v2/models/stats", "ModelStatistics",
            Nothing<ModelStatisticsRequest>, AsJson<ModelStatisticsResponse>);
        of_model("GET", "", "ModelMetadata", OfVersion<ModelMetadataRequest>,
                 AsJson<ModelMetadataResponse>);
        of_model("GET", "/config", "ModelConfig", OfVersion<ModelConfigRequest>,
                 Config);
        of_model("GET", "/stats", "ModelStatistics",
                 OfVersion<ModelStatisticsRequest>,
                 AsJson<ModelStatisticsResponse>);
        add("POST", "/v2/repository/index", "RepositoryIndex", IndexRequest,
            IndexJson);
        add("POST", "/v2/repository/models/{model}/load", "RepositoryModelLoad",
            LoadRequestOf, Done);
        add("POST", "/v2/repository/models/{model}/unload",
            "RepositoryModelUnload", UnloadRequestOf, Done);
        for (const char* verb : {"GET", "POST"}) {
          for (const char* path :
               {"/v2/trace/setting", "/v2/models/{model}/trace/setting"}) {
            add(verb, path, "TraceSetting", TraceRequest, TraceAnswer);
          }
          add(verb, "/v2/logging", "LogSettings", LogRequest, LogAnswer);
        }
        for (const char* region : {"", "/region/{region}"}) {
          const std::string system =
              absl::StrCat("/v2/systemsharedmemory", region);
          const std::string cuda = absl::StrCat("/v2/cudasharedmemory", region);
          add("GET", (system + "/status").c_str(), "SystemSharedMemoryStatus",
              OfRegion<SystemSharedMemoryStatusRequest>,
              Regions<SystemSharedMemoryStatusResponse>);
          add("POST", (system + "/unregister").c_str(),
              "SystemSharedMemoryUnregister",
              OfRegion<SystemSharedMemoryUnregisterRequest>, Done);
          add("GET", (cuda + "/status").c_str(), "CudaSharedMemoryStatus",
              OfRegion<CudaSharedMemoryStatusRequest>,
              Regions<CudaSharedMemoryStatusResponse>);
          add("POST", (cuda + "/unregister").c_str(),
              "CudaSharedMemoryUnregister",
              OfRegion<CudaSharedMemoryUnregisterRequest>, Done);
        }
        add("POST", "/v2/systemsharedmemory/region/{region}/register",
            "SystemSharedMemoryRegister", Register, Done);
        add("POST", "/v2/cudasharedmemory/region/{region}/register",
            "CudaSharedMemoryRegister",
            OfRegion<CudaSharedMemoryRegisterRequest>, Done);
        return all;
      }()) {}

std::vector<std::string> HttpService::Routes() const {
  std::vector<std::string> all;
  for (const Route& route : routes_) {
    all.push_back(absl::StrCat(route.verb, " ", route.pattern));
  }
  return all;
}

std::unique_ptr<HttpHandler> HttpService::NewHandler(HttpCall& call) const {
  const HttpHead& head = call.head();
  const std::vector<std::string> path = PathParts(head.target);
  const std::string verb = head.method == "HEAD" ? "GET" : head.method;
  std::string allowed;
  for (const Route& route : routes_) {
    Names names;
    if (!route.Matches(path, names)) continue;
    if (route.verb != verb) {
      absl::StrAppend(&allowed, allowed.empty() ? "" : ", ", route.verb,
                      route.verb == "GET" ? ", HEAD" : "");
      continue;
    }
    if (route.method.empty()) {
      return std::make_unique<HttpInfer>(services_, call, Named(names, "model"),
                                         Named(names, "version"));
    }
    return std::make_unique<HttpMethod>(
        call, methods_, route.method,
        [&route, names](std::string_view body) {
          return route.build(names, body);
        },
        route.translate, route.method == kLoad ? &loads_ : nullptr);
  }
  HttpAnswer answer;
  if (!allowed.empty()) {
    answer.status = 405;
    answer.headers = absl::StrCat("Allow: ", allowed, "\r\n");
    answer.body = HttpErrorBody(
        absl::StrCat("expected ", allowed, ", got ", head.method));
  } else {
    answer.status = 404;
    answer.body = HttpErrorBody(
        absl::StrCat("expected a path of the KServe v2 protocol, got '",
                     Excerpt(head.target), "'"));
  }
  return RefuseHttp(call, std::move(answer));
}

}  // namespace stoker
