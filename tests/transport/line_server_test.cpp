// Lines over a Unix socket: what clients may do to it, and what they may not.
#include "transport/line_server.hpp"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <fstream>
#include <thread>

#include "disk_fixture.hpp"
#include "planning/random.hpp"
#include "transport/line_client.hpp"

namespace stagecraft::test {
namespace {

using namespace std::chrono_literals;
using Failure = LineClient::Failure;

class SteadyClock final : public Clock {
 public:
  Instant now() const override { return std::chrono::steady_clock::now().time_since_epoch(); }
};

// Answers every line with "you said N bytes", but for those that begin with "later".
class Echo {
 public:
  Echo(const std::string& path, LineServer::Limits limits) {
    auto opened = LineServer::open(path, limits, {"too long", "too many"}, clock, [] {});
    if (auto* server = std::get_if<std::unique_ptr<LineServer>>(&opened)) {
      server_ = std::move(*server);
    } else {
      problem = std::get<std::string>(opened);
    }
    thread_ = std::thread([this] {
      while (server_ && !stop_) {
        for (const LineServer::Line& line : server_->take()) {
          ++lines;
          process = line.process;
          if (line.text.starts_with("flood")) server_->send(line.client, std::string(100'000, 'x'), false);
          if (!line.text.starts_with("later"))
            server_->send(line.client, "you said " + std::to_string(line.text.size()) + " bytes", true);
        }
        std::this_thread::sleep_for(1ms);
      }
    });
  }
  ~Echo() {
    stop_ = true;
    thread_.join();
  }
  std::size_t clients() const { return server_->clients(); }

  SteadyClock clock;
  std::string problem;
  std::atomic<std::size_t> lines = 0;
  std::atomic<pid_t> process = 0;

 private:
  std::unique_ptr<LineServer> server_;
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

LineServer::Limits quick() {
  LineServer::Limits limits;
  limits.patience = 200ms;
  limits.idle = 200ms;
  return limits;
}

template <class Condition>
bool soon(const Condition& holds, Duration within = 10s) {
  const SteadyClock clock;
  const Instant until = clock.now() + within;
  while (!holds() && clock.now() < until) std::this_thread::sleep_for(2ms);
  return holds();
}

// A connection without manners.
class Raw {
 public:
  explicit Raw(const std::string& path) : descriptor_(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path.c_str(), path.size());
    connected = connect(descriptor_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  }
  ~Raw() { close(descriptor_); }
  Raw(const Raw&) = delete;
  Raw& operator=(const Raw&) = delete;
  // How much of it was taken without waiting.
  std::size_t send(const std::string& bytes) const {
    const ssize_t size = ::send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    return size > 0 ? static_cast<std::size_t>(size) : 0;
  }
  void send_no_more() const { shutdown(descriptor_, SHUT_WR); }
  // All until the other end closes, or nothing comes for a while.
  std::string read_all() const {
    std::string all;
    char piece[4096];
    pollfd polled{descriptor_, POLLIN, 0};
    while (poll(&polled, 1, 5000) > 0) {
      const ssize_t size = recv(descriptor_, piece, sizeof piece, 0);
      if (size <= 0) break;
      all.append(piece, static_cast<std::size_t>(size));
    }
    return all;
  }
  bool connected = false;

 private:
  int descriptor_;
};

LineClient connected(const std::string& path, const Clock& clock) {
  auto client = LineClient::connect(path, clock, 5s);
  if (auto* why = std::get_if<std::string>(&client)) throw std::runtime_error(*why);
  return std::move(std::get<LineClient>(client));
}

std::string said(LineClient& client, Duration patience = 5s) {
  const auto line = client.receive(patience);
  if (const auto* text = std::get_if<std::string>(&line)) return *text;
  const Failure failure = std::get<Failure>(line);
  return failure == Failure::closed ? "(closed)" : failure == Failure::silent ? "(silent)" : "(interrupted)";
}

class LineServing : public ::testing::Test {
 protected:
  TemporaryFolder folder;
  std::string path = folder / "s.sock";
  SteadyClock clock;
};

TEST_F(LineServing, answers_line_by_line_in_order) {
  Echo echo(path, {});
  ASSERT_EQ(echo.problem, "");
  LineClient client = connected(path, clock);
  EXPECT_EQ(client.process(), getpid());
  for (const char* text : {"a", "four", "", "twelve bytes"}) client.send(text, 1s);
  EXPECT_EQ(said(client), "you said 1 bytes");
  EXPECT_EQ(said(client), "you said 4 bytes");
  EXPECT_EQ(said(client), "you said 12 bytes") << "an empty line is none";
  EXPECT_EQ(echo.process, getpid());
}

TEST_F(LineServing, is_for_the_owner_alone_and_gone_afterwards) {
  {
    const Echo echo(path, {});
    struct stat found = {};
    ASSERT_EQ(lstat(path.c_str(), &found), 0);
    EXPECT_TRUE(S_ISSOCK(found.st_mode));
    EXPECT_EQ(found.st_mode & 0777, 0600U);
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST_F(LineServing, does_not_remove_what_another_has_put_there_since) {
  {
    const Echo echo(path, {});
    std::filesystem::remove(path);
    std::ofstream(path) << "mine";
  }
  EXPECT_TRUE(std::filesystem::exists(path));
}

TEST_F(LineServing, takes_the_place_of_one_that_died_but_of_nothing_else) {
  {
    const int left = socket(AF_UNIX, SOCK_STREAM, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path.c_str(), path.size());
    ASSERT_EQ(bind(left, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    ASSERT_EQ(listen(left, 1), 0);
    const Echo second(path, {});
    EXPECT_NE(second.problem.find("cannot listen at"), std::string::npos) << "the other one lives";
    close(left);
  }
  Echo echo(path, {});
  EXPECT_EQ(echo.problem, "");
  LineClient client = connected(path, clock);
  client.send("hello", 1s);
  EXPECT_EQ(said(client), "you said 5 bytes");
  const std::string file = folder / "file";
  std::ofstream(file) << "not a socket";
  const Echo on_file(file, {});
  EXPECT_NE(on_file.problem.find("cannot listen at"), std::string::npos) << on_file.problem;
  EXPECT_TRUE(std::filesystem::exists(file));
}

TEST_F(LineServing, says_that_a_path_is_too_long) {
  const Echo echo(folder / std::string(120, 'p'), {});
  EXPECT_NE(echo.problem.find("the path of a socket may have at most 107"), std::string::npos) << echo.problem;
  const auto client = LineClient::connect(folder / std::string(120, 'p'), clock, 1s);
  EXPECT_NE(std::get<std::string>(client).find("at most 107"), std::string::npos);
}

TEST_F(LineServing, a_line_that_is_too_long_is_dropped_and_the_next_one_answered) {
  Echo echo(path, {});
  LineClient client = connected(path, clock);
  client.send(std::string(65'536, 'x'), 5s);
  EXPECT_EQ(said(client), "you said 65536 bytes") << "just within the limit";
  client.send(std::string(65'537, 'x'), 5s);
  EXPECT_EQ(said(client), "too long");
  client.send(std::string(3'000'000, 'x'), 5s);
  client.send("still there", 5s);
  EXPECT_EQ(said(client), "too long");
  EXPECT_EQ(said(client), "you said 11 bytes");
}

TEST_F(LineServing, random_bytes_do_no_harm) {
  Echo echo(path, quick());
  for (std::uint64_t round = 0; round < 50; ++round) {
    Raw raw(path);
    std::string bytes;
    for (std::uint64_t i = 0; i < 20'000; ++i) bytes += static_cast<char>(keyed(1, round, i));
    raw.send(bytes);
  }
  ASSERT_TRUE(soon([&] { return echo.clients() == 0; }));
  LineClient client = connected(path, clock);
  client.send("well?", 1s);
  EXPECT_EQ(said(client), "you said 5 bytes");
}

TEST_F(LineServing, who_does_not_read_is_dropped_and_holds_up_nobody) {
  LineServer::Limits limits = quick();
  limits.unread = 1U << 20;
  Echo echo(path, limits);
  const Raw raw(path);
  for (int i = 0; i < 4; ++i) raw.send("flood\n");
  LineClient client = connected(path, clock);
  client.send("well?", 1s);
  EXPECT_EQ(said(client), "you said 5 bytes");
  EXPECT_TRUE(soon([&] { return echo.clients() <= 1; }));
}

TEST_F(LineServing, more_than_may_wait_for_a_client_drops_it_at_once) {
  LineServer::Limits limits;
  limits.unread = 150'000;
  Echo echo(path, limits);
  const Raw raw(path);
  for (int i = 0; i < 8; ++i) raw.send("flood\n");
  EXPECT_TRUE(soon([&] { return echo.clients() == 0; }));
}

TEST_F(LineServing, who_does_not_finish_a_line_is_dropped) {
  Echo echo(path, quick());
  const Raw raw(path);
  raw.send("half a li");
  ASSERT_TRUE(soon([&] { return echo.clients() == 1; }));
  EXPECT_TRUE(soon([&] { return echo.clients() == 0; }));
}

TEST_F(LineServing, who_waits_for_an_answer_may_wait_long_and_is_not_read_from_meanwhile) {
  Echo echo(path, quick());
  const Raw raw(path);
  std::string lines;
  for (int i = 0; i < 20; ++i) lines += "later\n";
  raw.send(lines);
  ASSERT_TRUE(soon([&] { return echo.lines == 8; }));
  std::this_thread::sleep_for(500ms);
  EXPECT_EQ(echo.lines, 8U) << "as many as may be unanswered";
  EXPECT_EQ(echo.clients(), 1U);
}

TEST_F(LineServing, a_client_that_only_listens_from_now_on_gets_its_answers) {
  Echo echo(path, {});
  const Raw raw(path);
  raw.send("one\nthree\n");
  raw.send_no_more();
  EXPECT_EQ(raw.read_all(), "you said 3 bytes\nyou said 5 bytes\n");
  EXPECT_TRUE(soon([&] { return echo.clients() == 0; }));
}

TEST_F(LineServing, what_a_client_asked_before_it_left_is_heard) {
  Echo echo(path, {});
  { Raw(path).send("last words\n"); }
  EXPECT_TRUE(soon([&] { return echo.lines == 1; }));
  EXPECT_TRUE(soon([&] { return echo.clients() == 0; }));
}

TEST_F(LineServing, newcomers_are_sent_away_when_all_places_are_taken_unless_somebody_is_idle) {
  LineServer::Limits limits = quick();
  limits.clients = 4;
  limits.idle = 2s;
  Echo echo(path, limits);
  std::vector<LineClient> clients;
  for (int i = 0; i < 4; ++i) {
    clients.push_back(connected(path, clock));
    clients.back().send("hello", 1s);
    EXPECT_EQ(said(clients.back()), "you said 5 bytes");
  }
  LineClient fifth = connected(path, clock);
  EXPECT_EQ(said(fifth), "too many");
  EXPECT_EQ(said(fifth), "(closed)");
  std::this_thread::sleep_for(2100ms);
  clients[0].send("not idle", 1s);
  EXPECT_EQ(said(clients[0]), "you said 8 bytes");
  LineClient sixth = connected(path, clock);
  sixth.send("hello", 1s);
  EXPECT_EQ(said(sixth), "you said 5 bytes");
  clients[0].send("hello", 1s);
  EXPECT_EQ(said(clients[0]), "you said 5 bytes");
  EXPECT_EQ(said(clients[1]), "(closed)") << "the one that was idle for longest";
}

TEST_F(LineServing, many_clients_at_once_are_all_answered_or_sent_away) {
  Echo echo(path, {});
  std::vector<std::thread> threads;
  std::atomic<int> answered = 0, sent_away = 0, other = 0;
  for (int t = 0; t < 40; ++t)
    threads.emplace_back([&] {
      for (int round = 0; round < 10; ++round) {
        LineClient client = connected(path, clock);
        client.send("hello", 5s);
        const std::string answer = said(client, 20s);
        ++(answer == "you said 5 bytes" ? answered : answer == "too many" ? sent_away : other);
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(other, 0);
  EXPECT_GT(answered, 100);
  EXPECT_EQ(answered + sent_away, 400);
}

TEST_F(LineServing, a_client_that_hears_nothing_says_so_in_time) {
  Echo echo(path, {});
  LineClient client = connected(path, clock);
  client.send("later", 1s);
  const Instant before = clock.now();
  EXPECT_EQ(said(client, 300ms), "(silent)");
  EXPECT_GE(clock.now() - before, 300ms);
  EXPECT_LT(clock.now() - before, 5s);
}

TEST_F(LineServing, the_last_words_of_a_server_are_read) {
  std::optional<LineClient> client;
  {
    auto opened = LineServer::open(path, {}, {}, clock, [] {});
    auto& server = std::get<std::unique_ptr<LineServer>>(opened);
    client = connected(path, clock);
    client->send("stop", 1s);
    std::vector<LineServer::Line> lines;
    ASSERT_TRUE(soon([&] {
      if (lines.empty()) lines = server->take();
      return !lines.empty();
    }));
    server->send(lines[0].client, "it is over", true);
  }
  EXPECT_EQ(said(*client), "it is over");
  EXPECT_EQ(said(*client), "(closed)");
}

TEST(LineSplitter, holds_no_more_than_a_line) {
  LineSplitter lines(4);
  std::size_t most = 0;
  std::string text;
  for (const char* piece : {"ab", "cd\n", "\r\n\n", "abcde", "fghijklmnop", "q\nxy\nz"}) {
    lines.feed(piece);
    while (const auto line = lines.next()) text += line->too_long ? "(too long)" : "[" + line->text + "]";
    most = std::max(most, lines.size());
  }
  EXPECT_EQ(text, "[abcd](too long)[xy]");
  EXPECT_LE(most, 5U);
  EXPECT_TRUE(lines.is_within_line());
}

}  // namespace
}  // namespace stagecraft::test
