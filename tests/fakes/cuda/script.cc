#include "tests/fakes/cuda/script.h"

#include <sys/stat.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

namespace fake_cuda {
namespace {

std::string FileFromEnvironment() {
  const char* file = std::getenv("FAKE_CUDA_SCRIPT");
  return file == nullptr ? "" : file;
}

}  // namespace

Script::Script() : file_(FileFromEnvironment()) {}

void Script::Read(const std::string& text) {
  rules_.clear();
  free_bytes_ = -1;
  answers_.clear();
  baked_ = -1;
  launch_us_ = 0;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string first;
    words >> first;
    if (first.empty()) continue;
    if (first == "free") {
      words >> free_bytes_;
    } else if (first == "answers") {
      words >> answers_;
    } else if (first == "baked") {
      words >> baked_;
    } else if (first == "launch_us") {
      words >> launch_us_;
    } else {
      Rule rule{.call = first};
      std::string error;
      words >> rule.skip >> rule.times >> error;
      rule.error = error == "hang" ? kHang : std::atoi(error.c_str());
      rules_.push_back(rule);
    }
  }
}

void Script::ReadFileIfChanged() {
  struct stat found = {};
  if (file_.empty() || stat(file_.c_str(), &found) != 0) return;
  const std::string stamp = std::to_string(found.st_mtim.tv_sec) + "." +
                            std::to_string(found.st_mtim.tv_nsec) + " " +
                            std::to_string(found.st_ino);
  if (stamp == stamp_) return;
  stamp_ = stamp;
  std::ostringstream text;
  text << std::ifstream(file_).rdbuf();
  Read(text.str());
}

int Script::Count(const char* call) {
  ReadFileIfChanged();
  ++calls_[call];
  int error = 0;
  for (Rule& rule : rules_) {
    if (rule.call != call || rule.times == 0) continue;
    if (rule.skip > 0) {
      --rule.skip;
      continue;
    }
    if (rule.times > 0) --rule.times;
    error = rule.error;
  }
  return error;
}

long Script::calls(const std::string& call) const {
  const auto found = calls_.find(call);
  return found == calls_.end() ? 0 : found->second;
}

}  // namespace fake_cuda
