// The most that compiled artifacts can do without a server: sentences sorted by
// length, put into batches that are built before the clock starts, run one
// after the other on one thread (and the compute threads below it).
//
//   offline_loop --program model.pt2 --sizes sizes.csv
//       --artifact 1,32=<cache entry folder> --artifact 8,32=... [--seconds 5]
//
// sizes.csv is what `stoker-loadtest sizes` prints: a header line, then one
// length per sentence. Each batch size that the artifacts have is tried for
// `seconds`: batches of that many neighbours, in the smallest artifact that
// holds the longest of them. Prints one JSON object: sentences per second by
// batch size, and the best.
//
// For encoder models such as the demo's: two INT64 inputs [batch,tokens], token
// ids and a mask that is 0 for the filling.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "base/files.h"
#include "loadtest/benchmarks/artifact.h"

namespace {

using SteadyClock = std::chrono::steady_clock;

struct Arguments {
  std::string program, sizes;
  std::vector<std::string> artifacts;
  double seconds = 5;
  int threads = 2;
  int64_t vocabulary = 30522;
};

[[noreturn]] void Fail(const std::string& what) {
  std::fprintf(stderr, "offline_loop: %s\n", what.c_str());
  std::exit(1);
}

double SecondsSince(SteadyClock::time_point start) {
  return std::chrono::duration<double>(SteadyClock::now() - start).count();
}

// Shortest first.
std::vector<int64_t> ReadLengths(const std::string& path) {
  const auto text = stoker::Files::Real().Read(path);
  if (!text.ok()) Fail(text.status().ToString());
  const std::vector<std::string> lines =
      absl::StrSplit(*text, '\n', absl::SkipEmpty());
  std::vector<int64_t> lengths;
  for (size_t i = 1; i < lines.size(); ++i) {
    int64_t length = 0;
    if (!absl::SimpleAtoi(lines[i], &length) || length < 1) {
      Fail(path + ":" + std::to_string(i + 1) +
           ": expected a length from 1 up, got '" + lines[i] + "'");
    }
    lengths.push_back(length);
  }
  if (lengths.empty()) Fail(path + ": expected one length a line, got none");
  std::sort(lengths.begin(), lengths.end());
  return lengths;
}

// artifacts[batch][tokens].
using Artifacts =
    std::map<int64_t, std::map<int64_t, std::unique_ptr<Artifact>>>;

Artifacts OpenArtifacts(const Arguments& arguments) {
  Artifacts artifacts;
  for (const std::string& text : arguments.artifacts) {
    const std::pair<std::string, std::string> pair =
        absl::StrSplit(text, absl::MaxSplits('=', 1));
    const std::pair<std::string, std::string> sizes =
        absl::StrSplit(pair.first, absl::MaxSplits(',', 1));
    int64_t batch = 0, tokens = 0;
    if (!absl::SimpleAtoi(sizes.first, &batch) || batch < 1 ||
        !absl::SimpleAtoi(sizes.second, &tokens) || tokens < 1) {
      Fail("expected --artifact BATCH,TOKENS=FOLDER, got '" + text + "'");
    }
    artifacts[batch][tokens] =
        std::make_unique<Artifact>(arguments.program, pair.second);
  }
  return artifacts;
}

// One run: the inputs, and what runs them.
struct Batch {
  Artifact* artifact;
  std::vector<stoker::Tensor> inputs;
};

stoker::Tensor MakeInput(const std::vector<int64_t>& values, int64_t batch) {
  stoker::Buffer buffer(values.size() * sizeof(int64_t));
  std::copy(values.begin(), values.end(),
            reinterpret_cast<int64_t*>(buffer.data()));
  return {stoker::DataType::kInt64,
          {batch, static_cast<int64_t>(values.size()) / batch},
          buffer.data(),
          buffer.size(),
          buffer.share()};
}

// Rows that the last batch lacks are sentences of one token.
std::vector<Batch> MakeBatches(
    const std::vector<int64_t>& lengths, int64_t batch,
    const std::map<int64_t, std::unique_ptr<Artifact>>& by_tokens,
    int64_t vocabulary) {
  std::mt19937_64 random(1);
  std::uniform_int_distribution<int64_t> token(0, vocabulary - 1);
  std::vector<Batch> batches;
  const auto rows = static_cast<size_t>(batch);
  for (size_t first = 0; first < lengths.size(); first += rows) {
    const size_t end = std::min(first + rows, lengths.size());
    const auto bucket = by_tokens.lower_bound(lengths[end - 1]);
    if (bucket == by_tokens.end()) {
      Fail("no artifact of batch " + std::to_string(batch) + " holds " +
           std::to_string(lengths[end - 1]) + " tokens");
    }
    const auto tokens = static_cast<size_t>(bucket->first);
    std::vector<int64_t> ids(rows * tokens, 0), mask(rows * tokens, 0);
    for (size_t row = 0; row < rows; ++row) {
      const auto length =
          static_cast<size_t>(first + row < end ? lengths[first + row] : 1);
      for (size_t i = row * tokens; i < row * tokens + length; ++i) {
        ids[i] = token(random);
        mask[i] = 1;
      }
    }
    batches.push_back({bucket->second.get(),
                       {MakeInput(ids, batch), MakeInput(mask, batch)}});
  }
  return batches;
}

// Sentences per second over whole passes: the shortest and the longest batch
// count as often as any other.
double Measure(const std::vector<Batch>& batches, size_t sentences,
               stoker::ExecutionContext& context, double seconds) {
  std::set<Artifact*> warm;
  for (const Batch& batch : batches) {
    if (warm.insert(batch.artifact).second)
      batch.artifact->Run(context, batch.inputs);
  }
  size_t passes = 0;
  double elapsed = 0;
  const auto start = SteadyClock::now();
  do {
    for (const Batch& batch : batches)
      batch.artifact->Run(context, batch.inputs);
    ++passes;
    elapsed = SecondsSince(start);
  } while (elapsed < seconds);
  return static_cast<double>(passes * sentences) / elapsed;
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  CLI::App app{"Sentences through compiled artifacts, without a server"};
  app.add_option("--program", arguments.program, "model.pt2")->required();
  app.add_option("--sizes", arguments.sizes, "lengths, one a line")->required();
  app.add_option("--artifact", arguments.artifacts, "BATCH,TOKENS=FOLDER")
      ->required()
      ->allow_extra_args(false);
  app.add_option("--seconds", arguments.seconds,
                 "at least, for each batch size")
      ->capture_default_str();
  app.add_option("--threads", arguments.threads)->capture_default_str();
  app.add_option("--vocabulary", arguments.vocabulary, "token ids are below it")
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);

  const std::vector<int64_t> lengths = ReadLengths(arguments.sizes);
  const Artifacts artifacts = OpenArtifacts(arguments);
  // All artifacts run on this thread, so one context serves them.
  const auto context =
      artifacts.begin()->second.begin()->second->NewContext(arguments.threads);
  nlohmann::ordered_json rates;
  int64_t best = 0;
  double best_rate = 0;
  for (const auto& [batch, by_tokens] : artifacts) {
    const double rate =
        Measure(MakeBatches(lengths, batch, by_tokens, arguments.vocabulary),
                lengths.size(), *context, arguments.seconds);
    rates[std::to_string(batch)] = rate;
    if (rate > best_rate) {
      best = batch;
      best_rate = rate;
    }
  }
  const nlohmann::ordered_json result = {{"sentences", lengths.size()},
                                         {"threads", arguments.threads},
                                         {"per_second", rates},
                                         {"best_batch", best},
                                         {"best_per_second", best_rate}};
  std::printf("%s\n", result.dump().c_str());
  return 0;
}
