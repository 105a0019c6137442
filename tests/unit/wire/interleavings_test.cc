// Random calls, cancels, resets, half messages and hang-ups of several peers at
// once, answered from several threads, while servers start and stop.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <thread>
#include <vector>

#include "tests/unit/wire/echo_calls.h"
#include "tests/unit/wire/raw_peer.h"

namespace stoker {
namespace {

constexpr const char* kWays[] = {"/echo/Now",  "/echo/Later", "/echo/Stream",
                                 "/echo/Fail", "/echo/Never", "/nobody/Knows"};

// One connection's worth of steps; returns how many it lived for.
int Misbehave(int port, std::mt19937& random, int steps) {
  RawPeer peer(port);
  uint32_t next = 1;
  for (int i = 0; i < steps; ++i) {
    const uint32_t some = next < 3 ? 1 : 1 + 2 * (random() % (next / 2));
    bool well = true;
    switch (random() % 8) {
      case 0:
      case 1:
      case 2:
        well = peer.Ask(next, kWays[random() % 6],
                        std::string(random() % 3000, 'x'));
        next += 2;
        break;
      case 3:
        well = peer.Open(next, kWays[random() % 6]);
        next += 2;
        break;
      case 4:
        if (next > 1) {
          well = peer.Send(RawFrame::kReset, 0, some, RawPeer::Number(8));
        }
        break;
      case 5:
        if (next > 1) {
          well = peer.Send(RawFrame::kData, static_cast<int>(random() % 2),
                           some, RawPeer::Message("part").substr(random() % 9));
        }
        break;
      case 6:
        well = peer.Send(RawFrame::kPing, 0, 0, "12345678");
        break;
      case 7:
        well = peer.Receive().type != RawFrame::kEnd;
        break;
    }
    if (!well) return i;
  }
  return steps;
}

TEST(Interleavings, NoneIsHeldForEver) {
  const char* const wanted = std::getenv("STOKER_INTERLEAVINGS");
  const int steps = wanted != nullptr ? std::atoi(wanted) : 6000;
  constexpr int kPeers = 4, kPerConnection = 60;
  const unsigned seed = wanted != nullptr ? std::random_device()() : 20261124;
  std::printf("seed %u\n", seed);
  std::mt19937 seeds(seed);
  int servers = 0;
  std::atomic<int> done = 0;
  while (done < steps) {
    WireOptions options;
    options.loops = 2;
    EchoServer server(options);
    std::vector<std::thread> peers;
    peers.reserve(kPeers);
    std::atomic<int> left = kPeers;
    for (int i = 0; i < kPeers; ++i) {
      peers.emplace_back([&server, &left, &done, seed = seeds()] {
        std::mt19937 random(seed);
        for (int connection = 0; connection < 5; ++connection) {
          done += Misbehave(server.port(), random, kPerConnection);
        }
        --left;
      });
    }
    ++servers;
    // Stops at any moment, and may have to cancel.
    const int stop_after = static_cast<int>(seeds() % 300);
    while (server.counts.started < stop_after && left > 0) {
      std::this_thread::yield();
    }
    server.wire->Shutdown(MonotonicTime::InfinitePast());
    for (std::thread& peer : peers) peer.join();
    EXPECT_EQ(server.counts.ended, server.counts.started);
  }
  std::printf("%d steps, %d servers\n", done.load(), servers);
}

}  // namespace
}  // namespace stoker
