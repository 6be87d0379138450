// Strangers that connect and say nothing are hung up on; whoever talks, and whoever came elsewhere, is not.
#include "transport/silent_sockets.hpp"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <thread>

namespace stagecraft {
namespace {

using namespace std::chrono_literals;

struct Socket {
  int descriptor;
  explicit Socket(int d) : descriptor(d) { EXPECT_GE(d, 0); }
  ~Socket() { close(descriptor); }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
};

// Listens on loopback, and has somebody who connects.
struct Door {
  sockaddr_in address{};
  Socket listener{socket(AF_INET, SOCK_STREAM, 0)};
  Socket outside{socket(AF_INET, SOCK_STREAM, 0)};
  int inside = -1;

  Door() {
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* any = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(bind(listener.descriptor, any, size), 0);
    EXPECT_EQ(listen(listener.descriptor, 1), 0);
    EXPECT_EQ(getsockname(listener.descriptor, any, &size), 0);
    EXPECT_EQ(connect(outside.descriptor, any, size), 0);
    inside = accept(listener.descriptor, nullptr, nullptr);
  }
  ~Door() { close(inside); }
  std::uint16_t port() const { return ntohs(address.sin_port); }
  bool hung_up() const {
    char byte = 0;
    return recv(outside.descriptor, &byte, 1, MSG_DONTWAIT) == 0;
  }
};

TEST(SilentSockets, are_hung_up_on_and_others_are_not) {
  Door silent, other;
  EXPECT_EQ(hang_up_on_the_silent(silent.port(), 10s), 0U);
  std::this_thread::sleep_for(60ms);
  EXPECT_EQ(send(other.outside.descriptor, "x", 1, 0), 1);
  EXPECT_EQ(hang_up_on_the_silent(other.port(), 40ms), 0U);
  EXPECT_EQ(hang_up_on_the_silent(silent.port(), 40ms), 1U);
  EXPECT_TRUE(silent.hung_up());
  EXPECT_FALSE(other.hung_up());
  // It still listens.
  EXPECT_EQ(connect(Socket(socket(AF_INET, SOCK_STREAM, 0)).descriptor, reinterpret_cast<sockaddr*>(&silent.address),
                    sizeof silent.address),
            0);
}

}  // namespace
}  // namespace stagecraft
