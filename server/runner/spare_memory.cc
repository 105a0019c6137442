#include "runner/spare_memory.h"

#include <utility>
#include <vector>

namespace stoker {

class SpareMemory::Offered : public Offer {
 public:
  Offered(std::shared_ptr<Book> book, std::shared_ptr<Entry> entry)
      : book_(std::move(book)), entry_(std::move(entry)) {}
  ~Offered() override {
    const absl::MutexLock lock(&book_->mu);
    entry_->over = true;
    book_->entries.remove(entry_);
    const auto idle = [this] { return entry_->releasing == 0; };
    book_->mu.Await(absl::Condition(&idle));
  }

 private:
  const std::shared_ptr<Book> book_;
  const std::shared_ptr<Entry> entry_;  // under the book's lock
};

SpareMemory::SpareMemory() : book_(std::make_shared<Book>()) {}

std::unique_ptr<SpareMemory::Offer> SpareMemory::Add(Kind kind,
                                                     Release release) {
  auto entry = std::make_shared<Entry>();
  entry->kind = kind;
  entry->release = std::move(release);
  {
    const absl::MutexLock lock(&book_->mu);
    book_->entries.push_back(entry);
  }
  return std::make_unique<Offered>(book_, std::move(entry));
}

bool SpareMemory::ReleaseOf(Kind kind, std::string_view whom, bool one) {
  std::vector<std::shared_ptr<Entry>> offered;
  {
    const absl::MutexLock lock(&book_->mu);
    for (const std::shared_ptr<Entry>& entry : book_->entries) {
      if (entry->kind == kind) offered.push_back(entry);
    }
  }
  bool any = false;
  for (const std::shared_ptr<Entry>& entry : offered) {
    {
      const absl::MutexLock lock(&book_->mu);
      if (entry->over) continue;
      ++entry->releasing;
    }
    any |= entry->release(whom);
    {
      const absl::MutexLock lock(&book_->mu);
      --entry->releasing;
    }
    if (any && one) break;
  }
  return any;
}

bool SpareMemory::ReleaseNext(std::string_view whom) {
  for (const Kind kind : kKinds) {
    if (ReleaseOf(kind, whom, /*one=*/true)) return true;
  }
  return false;
}

bool SpareMemory::ReleaseAll(Kind kind, std::string_view whom) {
  return ReleaseOf(kind, whom, /*one=*/false);
}

}  // namespace stoker
