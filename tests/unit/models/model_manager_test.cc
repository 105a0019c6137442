// The manager as its users have it: requests find versions from any thread
// while the lifecycle thread replaces them.
#include "models/model_manager.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/thread.h"
#include "tests/fakes/fake_clock.h"
#include "tests/fakes/fake_program_loader.h"
#include "tests/fakes/fake_repository.h"
#include "tests/unit/models/row_model.h"

namespace stoker {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr absl::Duration kPoll = absl::Seconds(1);

std::shared_ptr<ModelSpec> Spec(const std::string& model, int64_t version) {
  static std::atomic<int> count = 0;
  auto spec = RowModel({{{8}}});
  spec->name = model;
  spec->version = version;
  spec->program_path = absl::StrCat("/models/", model, "/", ++count);
  return spec;
}

class ModelManagerTest : public ::testing::Test {
 protected:
  void Start() {
    ModelManagerOptions options;
    options.poll_interval = kPoll;
    manager_ = std::make_unique<ModelManager>(
        options, repository_, nullptr, nullptr, loader_, clock_, metrics_);
    manager_->OnReadinessChange([this] {
      const absl::MutexLock lock(&mu_);
      ++publications_;
    });
    manager_->Start();
  }
  // Blocks until the model's version is the one that requests get.
  void AwaitServing(const std::string& model, int64_t version) {
    const absl::MutexLock lock(&mu_);
    const auto serves = [&] {
      mu_.AssertReaderHeld();
      // Looked at again at each publication.
      const auto handle = manager_->Acquire(model, {});
      return publications_ > 0 && handle.ok() &&
             handle->spec().version == version;
    };
    mu_.Await(absl::Condition(&serves));
  }

  // Lets the repository be read, and what it says be begun with.
  void PollOnce() {
    int before = 0;
    {
      const absl::MutexLock lock(&mu_);
      before = publications_;
    }
    clock_.Advance(kPoll);
    const absl::MutexLock lock(&mu_);
    const auto published = [&] {
      mu_.AssertReaderHeld();
      return publications_ > before;
    };
    mu_.Await(absl::Condition(&published));
  }

  FakeClock clock_;
  MetricRegistry metrics_;
  FakeRepository repository_;
  FakeProgramLoader loader_;
  absl::Mutex mu_;
  int publications_ ABSL_GUARDED_BY(mu_) = 0;
  std::unique_ptr<ModelManager> manager_;
};

TEST_F(ModelManagerTest, PublishesWhatServes) {
  repository_.Put(Spec("rows", 1));
  Start();
  AwaitServing("rows", 1);
  EXPECT_TRUE(manager_->ServerReady());
  EXPECT_TRUE(manager_->Ready("rows", {.number = 1}));
  EXPECT_FALSE(manager_->Ready("rows", {.number = 2}));
  EXPECT_THAT(manager_->ModelNames(), ElementsAre("rows"));
  const std::vector<VersionReport> report = manager_->Report();
  ASSERT_EQ(report.size(), 1u);
  EXPECT_EQ(report[0].device, "cpu");
  EXPECT_EQ(report[0].warmup.settled, 1);
  ASSERT_EQ(report[0].buckets.size(), 1u);
  EXPECT_EQ(report[0].buckets[0].slot.fallback, FallbackReason::kNoCache);
  const auto handle = manager_->Acquire("rows", {.number = 0});
  ASSERT_TRUE(handle.ok());
  EXPECT_TRUE(AskForRows(*handle, 3).ok());
  EXPECT_EQ(AskForRows(*handle, 65).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(ModelManagerTest, ADrainedServerIsNotReadyAndServesNothing) {
  repository_.Put(Spec("rows", 1));
  Start();
  AwaitServing("rows", 1);
  const auto handle = manager_->Acquire("rows", {.number = 0});
  ASSERT_TRUE(handle.ok());
  manager_->Drain(MonotonicTime::InfiniteFuture());
  EXPECT_FALSE(manager_->ServerReady());
  EXPECT_FALSE(manager_->Ready("rows", {.number = 1}));
  EXPECT_EQ(AskForRows(*handle, 3).status().code(),
            absl::StatusCode::kUnavailable);
}

TEST_F(ModelManagerTest, AHandleOutlivesTheManager) {
  repository_.Put(Spec("rows", 1));
  Start();
  AwaitServing("rows", 1);
  const auto handle = manager_->Acquire("rows", {.number = 0});
  ASSERT_TRUE(handle.ok());
  manager_.reset();
  EXPECT_EQ(handle->spec().name, "rows");
}

TEST_F(ModelManagerTest, CanBeDrainedBeforeItStarts) {
  ModelManager never(ModelManagerOptions(), repository_, nullptr, nullptr,
                     loader_, clock_, metrics_);
  never.Drain(MonotonicTime::InfiniteFuture());
  EXPECT_THAT(never.Index(), IsEmpty());
}

// --- a request never fails because a version changed ---

// What clients and the schedule tell each other. A client may keep a handle
// until the next change is under way, and submit only then.
class Turns {
 public:
  explicit Turns(size_t clients)
      : answered_(clients), held_since_(clients, -1) {}

  // Of a client.
  void Answered(size_t client) {
    const absl::MutexLock lock(&mu_);
    ++answered_[client];
  }
  void HoldUntilNextChange(size_t client) {
    const absl::MutexLock lock(&mu_);
    held_since_[client] = changes_;
    const auto changed = [&] {
      mu_.AssertReaderHeld();
      return over_ || changes_ > held_since_[client];
    };
    mu_.Await(absl::Condition(&changed));
    held_since_[client] = -1;
  }
  bool over() const {
    const absl::MutexLock lock(&mu_);
    return over_;
  }

  // Of the schedule: counts a change, and waits until every client has had an
  // answer since, or holds a handle since.
  void Changed() {
    const absl::MutexLock lock(&mu_);
    ++changes_;
    const std::vector<int64_t> before = answered_;
    const auto all = [&] {
      mu_.AssertReaderHeld();
      for (size_t i = 0; i < before.size(); ++i) {
        if (answered_[i] == before[i] && held_since_[i] < changes_) {
          return false;
        }
      }
      return true;
    };
    mu_.Await(absl::Condition(&all));
  }
  void End() {
    const absl::MutexLock lock(&mu_);
    over_ = true;
  }

 private:
  mutable absl::Mutex mu_;
  bool over_ ABSL_GUARDED_BY(mu_) = false;
  int64_t changes_ ABSL_GUARDED_BY(mu_) = 0;
  std::vector<int64_t> answered_ ABSL_GUARDED_BY(mu_);
  std::vector<int64_t> held_since_ ABSL_GUARDED_BY(mu_);
};

class RandomSchedule : public ModelManagerTest,
                       public ::testing::WithParamInterface<unsigned> {
 protected:
  // Changes what the repository says of model "rows", of which something can
  // always be served, and of version 1 of model "pinned", which always can.
  void Change(std::mt19937& random) {
    const auto one_in = [&](unsigned n) { return random() % n == 0; };
    repository_.Fail(one_in(8) ? absl::NotFoundError("away")
                               : absl::OkStatus());
    switch (random() % 6) {
      case 0:  // a version comes, and those before go
        repository_.Put(Spec("rows", ++newest_));
        for (int64_t i = 1; i < newest_; ++i) repository_.Remove("rows", i);
        break;
      case 1:  // one comes beside them
        repository_.Put(Spec("rows", ++newest_));
        break;
      case 2:  // a file is replaced
        repository_.Put(Spec("rows", newest_));
        repository_.Put(Spec("pinned", 1));
        break;
      case 3:  // by one that can't be read, or can't be loaded
        if (one_in(2)) {
          repository_.PutBroken("pinned", 1, "cut short");
          repository_.PutBroken("rows", newest_, "cut short");
        } else {
          for (const auto& spec : {Spec("pinned", 1), Spec("rows", newest_)}) {
            loader_.Refuse(spec->program_path);
            repository_.Put(spec);
          }
        }
        break;
      case 4:  // a version of the other model comes or goes
        if (one_in(2)) {
          repository_.Put(Spec("pinned", 2));
        } else {
          repository_.Remove("pinned", 2);
        }
        break;
      default:  // the newest goes again, once there is another one
        repository_.Put(Spec("rows", newest_ + 1));
        repository_.Remove("rows", newest_);
        ++newest_;
    }
  }

  void Ask(size_t client, Turns& turns) {
    std::mt19937 random(static_cast<unsigned>(client) + 100 * GetParam());
    while (!turns.over()) {
      const bool pinned = random() % 2 == 0;
      const auto handle = manager_->Acquire(pinned ? "pinned" : "rows",
                                            {.number = pinned ? 1 : 0});
      EXPECT_TRUE(handle.ok()) << handle.status();
      if (handle.ok()) {
        if (random() % 3 == 0) turns.HoldUntilNextChange(client);
        const auto answer = AskForRows(*handle, 1 + random() % 8);
        EXPECT_TRUE(answer.ok()) << answer.status();
      }
      turns.Answered(client);
    }
  }

  int64_t newest_ = 1;
};

TEST_P(RandomSchedule, NoRequestFailsBecauseAVersionChanged) {
  repository_.Put(Spec("rows", 1));
  repository_.Put(Spec("pinned", 1));
  Start();
  AwaitServing("rows", 1);
  AwaitServing("pinned", 1);
  constexpr size_t kClients = 3;
  Turns turns(kClients);
  std::vector<Thread> clients;
  for (size_t i = 0; i < kClients; ++i) {
    clients.emplace_back("client", [this, i, &turns] { Ask(i, turns); });
  }
  std::mt19937 random(GetParam());
  for (int i = 0; i < 30; ++i) {
    Change(random);
    PollOnce();
    turns.Changed();
  }
  turns.End();
  for (Thread& client : clients) client.Join();
  manager_->Drain(clock_.Now());
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomSchedule, ::testing::Range(0U, 20U));

}  // namespace
}  // namespace stoker
