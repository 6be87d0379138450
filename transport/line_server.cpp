#include "transport/line_server.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <map>
#include <mutex>
#include <system_error>
#include <thread>

#include "transport/line_server_client.hpp"

namespace stagecraft {

namespace {

class Server final : public LineServer {
 public:
  Server(ListeningSocket socket, Descriptor wake, Limits limits, Texts texts, const Clock& clock,
         std::function<void()> news)
      : socket_(std::move(socket)),
        wake_(std::move(wake)),
        limits_(limits),
        texts_(std::move(texts)),
        clock_(clock),
        news_(std::move(news)),
        thread_([this] { run(); }) {}
  ~Server() override {
    {
      const std::lock_guard guard(mutex_);
      stopping_ = true;
    }
    wake();
    thread_.join();
  }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  std::vector<Line> take() override {
    const std::lock_guard guard(mutex_);
    return std::exchange(inbox_, {});
  }
  void send(std::uint64_t client, std::string text, bool answers) override {
    {
      const std::lock_guard guard(mutex_);
      outbox_.push_back({client, std::move(text), answers});
    }
    wake();
  }
  std::size_t clients() const override { return count_; }
  const std::string& path() const override { return socket_.path(); }

 private:
  struct Outgoing {
    std::uint64_t client = 0;
    std::string text;
    bool answers = false;
  };
  static constexpr Duration last_words = std::chrono::seconds(1);       // for clients to read, when the server ends
  static constexpr Duration breather = std::chrono::milliseconds(100);  // when no connection can be accepted

  void wake() const {
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = write(wake_.get(), &one, sizeof one);  // full: it is awake
  }

  void run() {
    while (!end_at_ || (clock_.now() < *end_at_ && anyone_reads())) {
      wait();
      deliver();
      for (auto& [id, client] : clients_) look_at(id, client);
      drop_those_over();
    }
  }

  bool anyone_reads() const {
    return std::any_of(clients_.begin(), clients_.end(), [](const auto& c) { return c.second.wants_more(); });
  }

  // Until somebody moves, or the next deadline.
  void wait() {
    const Instant now = clock_.now();
    std::vector<pollfd> polled{{wake_.get(), POLLIN, 0}};
    const bool listens = !end_at_ && now >= listen_again_;
    polled.push_back({listens ? socket_.descriptor().get() : -1, POLLIN, 0});
    std::optional<Instant> until = end_at_;
    if (!listens && !until) until = listen_again_;
    for (const auto& [id, client] : clients_) {
      polled.push_back({client.descriptor(), client.events(), 0});
      if (const auto d = client.deadline(); d && (!until || *d < *until)) until = d;
    }
    const int most_ms = until ? milliseconds_to(*until - now) : -1;
    if (poll(polled.data(), polled.size(), most_ms) <= 0) return;
    if (polled[0].revents != 0) {
      std::uint64_t count = 0;
      [[maybe_unused]] const ssize_t size = read(wake_.get(), &count, sizeof count);
    }
    const Instant then = clock_.now();
    auto at = polled.begin() + 2;
    for (auto& [id, client] : clients_) move(client, *at++, then);
    if (polled[1].revents != 0) accept_all();
  }

  static int milliseconds_to(Duration left) {
    constexpr auto longest = std::chrono::milliseconds(60'000);
    const auto ms = std::chrono::ceil<std::chrono::milliseconds>(left);
    return static_cast<int>(std::clamp(ms, std::chrono::milliseconds(0), longest).count());
  }

  static void move(LineServerClient& client, const pollfd& what, Instant now) {
    if (what.revents & POLLOUT) client.write(now);
    if (what.revents & (POLLIN | POLLHUP)) client.read(now);
    if (what.revents & (POLLHUP | POLLERR | POLLNVAL)) client.drop();  // after its last line
  }

  // What the owner says goes out, as far as there is room for it.
  void deliver() {
    std::vector<Outgoing> all;
    {
      const std::lock_guard guard(mutex_);
      all = std::exchange(outbox_, {});
      if (stopping_ && !end_at_) end_at_ = clock_.now() + last_words;
    }
    const Instant now = clock_.now();
    for (const Outgoing& out : all) {
      const auto it = clients_.find(out.client);
      if (it == clients_.end()) continue;
      it->second.say(out.text, out.answers, now);
      it->second.write(now);
    }
  }

  void look_at(std::uint64_t id, LineServerClient& client) {
    const Instant now = clock_.now();
    bool any = false;
    while (const auto line = client.next(now)) {
      if (line->too_long) {
        client.say(texts_.too_long, false, now);
        continue;
      }
      const std::lock_guard guard(mutex_);
      inbox_.push_back({id, client.process(), line->text});
      any = true;
    }
    if (any) news_();
  }

  void drop_those_over() {
    const Instant now = clock_.now();
    std::erase_if(clients_, [&](const auto& c) { return c.second.is_over(now); });
    count_ = clients_.size();
  }

  void accept_all() {
    for (std::size_t turn = 0; turn < limits_.clients; ++turn) {
      Descriptor connection(accept4(socket_.descriptor().get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
      if (!connection.valid()) {
        if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED) listen_again_ = clock_.now() + breather;
        return;
      }
      const auto peer = peer_of(connection);
      if (!peer || (peer->user != geteuid() && peer->user != 0)) continue;
      const Instant now = clock_.now();
      if (clients_.size() >= limits_.clients && !make_room(now)) {
        const std::string text = texts_.too_many + "\n";
        [[maybe_unused]] const ssize_t sent = ::send(connection.get(), text.data(), text.size(), MSG_NOSIGNAL);
        continue;
      }
      clients_.try_emplace(++last_client_, std::move(connection), *peer, limits_, now);
    }
  }

  // Whoever has asked nothing for the longest time goes.
  bool make_room(Instant now) {
    auto longest = clients_.end();
    for (auto it = clients_.begin(); it != clients_.end(); ++it) {
      const auto since = it->second.idle_since();
      if (!since || now - *since < limits_.idle) continue;
      if (longest == clients_.end() || *since < *longest->second.idle_since()) longest = it;
    }
    if (longest == clients_.end()) return false;
    clients_.erase(longest);
    return true;
  }

  ListeningSocket socket_;
  Descriptor wake_;
  const Limits limits_;
  const Texts texts_;
  const Clock& clock_;
  const std::function<void()> news_;
  std::atomic<std::size_t> count_ = 0;

  // of the thread alone
  std::map<std::uint64_t, LineServerClient> clients_;
  std::uint64_t last_client_ = 0;
  Instant listen_again_{};
  std::optional<Instant> end_at_;

  std::mutex mutex_;
  std::vector<Line> inbox_;
  std::vector<Outgoing> outbox_;
  bool stopping_ = false;
  std::thread thread_;  // last: it uses everything above
};

}  // namespace

std::variant<std::unique_ptr<LineServer>, std::string> LineServer::open(const std::string& path, Limits limits,
                                                                        Texts texts, const Clock& clock,
                                                                        std::function<void()> news) {
  auto socket = ListeningSocket::at(path);
  if (auto* why = std::get_if<std::string>(&socket)) return std::move(*why);
  Descriptor wake(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!wake.valid()) return fmt::format("cannot serve '{}': {}", path, std::generic_category().message(errno));
  return std::make_unique<Server>(std::move(std::get<ListeningSocket>(socket)), std::move(wake), limits,
                                  std::move(texts), clock, std::move(news));
}

}  // namespace stagecraft
