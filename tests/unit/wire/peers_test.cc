#include "wire/peers.h"

#include <gtest/gtest.h>

#include <vector>

namespace stoker {
namespace {

TEST(Peers, CountsInAllAndByAddress) {
  Peers peers;
  std::vector<PeerTicket> tickets;
  tickets.push_back(peers.Enter("10.0.0.1"));
  tickets.push_back(peers.Enter("10.0.0.1"));
  tickets.push_back(peers.Enter("10.0.0.2"));
  tickets.push_back(peers.Enter(""));
  EXPECT_EQ(tickets[1].of_peer(), 2);
  EXPECT_EQ(tickets[2].of_peer(), 1);
  EXPECT_EQ(tickets[3].of_peer(), 0);
  EXPECT_EQ(tickets[3].all(), 4);
  tickets.clear();
  const PeerTicket again = peers.Enter("10.0.0.1");
  EXPECT_EQ(again.of_peer(), 1);
  EXPECT_EQ(again.all(), 1);
}

}  // namespace
}  // namespace stoker
