#include <fmt/format.h>
#include <httplib.h>

#include <atomic>
#include <mutex>
#include <thread>

#include "tools/job_view.hpp"
#include "tools/metrics.hpp"

namespace stagecraft::tools {

namespace {

constexpr const char* here = "127.0.0.1";
constexpr Duration look_every = std::chrono::milliseconds(200);
constexpr time_t patience_s = 2;  // with a client that does not go on

}  // namespace

struct MetricsDoor::Server {
  httplib::Server http;
  std::thread thread;
  std::atomic<bool> over = false;
  int port = 0;
  std::mutex mutex;
  std::string text;  // under the mutex
  std::optional<Instant> looked;
};

std::variant<std::unique_ptr<MetricsDoor>, std::string> MetricsDoor::open(std::uint16_t port) {
  auto server = std::make_unique<Server>();
  Server* s = server.get();
  s->http.new_task_queue = [] { return new httplib::ThreadPool(1); };
  s->http.set_read_timeout(patience_s);
  s->http.set_write_timeout(patience_s);
  s->http.set_keep_alive_max_count(1);  // one thread serves all
  s->http.set_payload_max_length(0);
  s->http.Get("/metrics", [s](const httplib::Request&, httplib::Response& response) {
    const std::lock_guard<std::mutex> lock(s->mutex);
    response.set_content(s->text, "text/plain; version=0.0.4");
  });
  // An own socket option, because the library's usual one would let a second job listen on the same port.
  s->http.set_socket_options([](socket_t descriptor) {
    const int yes = 1;
    setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  });
  s->port = port == 0 ? s->http.bind_to_any_port(here) : s->http.bind_to_port(here, port) ? port : -1;
  if (s->port <= 0)
    return fmt::format("can't listen on {}:{}: {}; another port, or 0 for any that is free, helps", here, port,
                       std::generic_category().message(errno));
  s->thread = std::thread([s] {
    s->http.listen_after_bind();
    s->over = true;
  });
  return std::unique_ptr<MetricsDoor>(new MetricsDoor(std::move(server)));
}

MetricsDoor::MetricsDoor(std::unique_ptr<Server> server) : server_(std::move(server)) {}

MetricsDoor::~MetricsDoor() {
  while (!server_->http.is_running() && !server_->over) std::this_thread::yield();  // it can't be stopped before
  server_->http.stop();
  server_->thread.join();
}

std::string MetricsDoor::address() const { return fmt::format("http://{}:{}/metrics", here, server_->port); }

void MetricsDoor::attend(RunningJob& job) {
  const Instant now = job.world().now();
  if (server_->looked && now - *server_->looked < look_every && !job.end()) return;
  server_->looked = now;
  std::string text = metrics_text(status_of(job));
  const std::lock_guard<std::mutex> lock(server_->mutex);
  server_->text = std::move(text);
}

}  // namespace stagecraft::tools
