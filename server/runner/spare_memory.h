// What versions can do without on a device, and the order in which it goes when
// somebody needs the memory: kept graphs first, as what they were captured of
// answers as well; then eager's copies of the weights, where compiled code
// serves every bucket. (What goes after that is not here: whole versions that
// nobody asks for, models/idle_versions.cc.) One for each device. Knows neither
// versions nor CUDA.
//
// Thread-safe.
#pragma once

#include <array>
#include <functional>
#include <list>
#include <memory>
#include <string_view>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace stoker {

class SpareMemory {
 public:
  enum class Kind { kGraphs, kEager };  // in the order in which they go
  static constexpr std::array kKinds = {Kind::kGraphs, Kind::kEager};

  // Lets go of what there is of it now, if anything: `whom` needs it. On that
  // one's thread, which may hold the mutex of opening programs: must not open
  // any, nor wait for somebody who does.
  using Release = std::function<bool(std::string_view whom)>;

  // Holds until it is gone, which waits for a release under way. May outlive
  // the SpareMemory.
  class Offer {
   public:
    virtual ~Offer() = default;
  };

  SpareMemory();
  std::unique_ptr<Offer> Add(Kind kind, Release release);

  // One offer of the first kind of which anything goes; false: nothing is left.
  bool ReleaseNext(std::string_view whom);
  // All of one kind; false: there was nothing.
  bool ReleaseAll(Kind kind, std::string_view whom);

 private:
  // An offer, and who is taking it up.
  struct Entry {
    Kind kind = Kind::kGraphs;
    Release release;
    int releasing = 0;
    bool over = false;
  };
  struct Book {
    absl::Mutex mu;
    std::list<std::shared_ptr<Entry>> entries ABSL_GUARDED_BY(mu);
  };
  class Offered;
  bool ReleaseOf(Kind kind, std::string_view whom, bool one);

  const std::shared_ptr<Book> book_;
};

}  // namespace stoker
