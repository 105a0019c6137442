// Which handshake is next, and which one makes room.
#include "wire/handshakes.h"

#include <gtest/gtest.h>

#include <array>

#include "wire/peer_connection.h"

namespace stoker {
namespace {

// Handshakes tells connections apart, and does nothing with them.
class HandshakesTest : public ::testing::Test {
 protected:
  PeerConnection& Peer(size_t i) {
    return *reinterpret_cast<PeerConnection*>(places_.data() +
                                              i * alignof(PeerConnection));
  }

 private:
  alignas(PeerConnection)
      std::array<char, 8 * alignof(PeerConnection)> places_ = {};
};

TEST_F(HandshakesTest, InTheOrderInWhichTheyCame) {
  Handshakes handshakes(8);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(handshakes.Enter(Peer(i)), nullptr);
  EXPECT_EQ(handshakes.Next(), nullptr);
  handshakes.Queue(Peer(2));
  handshakes.Queue(Peer(0));
  handshakes.Queue(Peer(2));  // it is queued already
  EXPECT_TRUE(handshakes.waiting());
  EXPECT_EQ(handshakes.Next(), &Peer(2));
  handshakes.Queue(Peer(2));
  EXPECT_EQ(handshakes.Next(), &Peer(0));
  EXPECT_EQ(handshakes.Next(), &Peer(2));
  EXPECT_EQ(handshakes.Next(), nullptr);
  EXPECT_FALSE(handshakes.waiting());
}

TEST_F(HandshakesTest, WhoHasBeenSilentForLongestMakesRoom) {
  Handshakes handshakes(3);
  for (size_t i = 0; i < 3; ++i) handshakes.Enter(Peer(i));
  handshakes.Queue(Peer(0));
  EXPECT_EQ(handshakes.Enter(Peer(3)), &Peer(1));
  handshakes.Leave(Peer(1));
  handshakes.Leave(Peer(1));
  // Its turn makes one that has spoken the youngest of the silent.
  EXPECT_EQ(handshakes.Next(), &Peer(0));
  EXPECT_EQ(handshakes.Enter(Peer(4)), &Peer(2));
  handshakes.Leave(Peer(2));
  EXPECT_EQ(handshakes.size(), 3u);
}

TEST_F(HandshakesTest, WhereAllWaitForThisSideTheNewestGoes) {
  Handshakes handshakes(2);
  for (size_t i = 0; i < 2; ++i) {
    handshakes.Enter(Peer(i));
    handshakes.Queue(Peer(i));
  }
  EXPECT_EQ(handshakes.Enter(Peer(2)), &Peer(2));
  handshakes.Leave(Peer(2));
  handshakes.Leave(Peer(0));  // out of the queue
  EXPECT_EQ(handshakes.Next(), &Peer(1));
  EXPECT_EQ(handshakes.Next(), nullptr);
}

TEST_F(HandshakesTest, WhoNeverEntered) {
  Handshakes handshakes(2);
  handshakes.Queue(Peer(0));
  handshakes.Leave(Peer(0));
  EXPECT_FALSE(handshakes.waiting());
}

}  // namespace
}  // namespace stoker
