#include <arpa/inet.h>
#include <fmt/format.h>
#include <microhttpd.h>

#include <cerrno>
#include <mutex>
#include <string_view>
#include <system_error>

#include "tools/job_view.hpp"
#include "tools/metrics.hpp"

namespace stagecraft::tools {

namespace {

constexpr const char* here = "127.0.0.1";
constexpr Duration look_every = std::chrono::milliseconds(200);
constexpr unsigned most_clients = 64, patience_s = 5;

}  // namespace

struct MetricsDoor::Server {
  struct Stop {
    void operator()(MHD_Daemon* running) const { MHD_stop_daemon(running); }  // closes whatever is connected
  };
  std::mutex mutex;
  std::string text;  // under the mutex
  std::optional<Instant> looked;
  std::unique_ptr<MHD_Daemon, Stop> daemon;  // the last to come and the first to go: its thread looks at the text

  static MHD_Result answer(void* self, MHD_Connection* connection, const char* path, const char* method, const char*,
                           const char*, std::size_t*, void**) {
    auto* server = static_cast<Server*>(self);
    const bool is_asked = std::string_view(path) == "/metrics" && std::string_view(method) == "GET";
    std::string text = "there is GET /metrics, and nothing else\n";
    if (is_asked) {
      const std::lock_guard<std::mutex> lock(server->mutex);
      text = server->text;
    }
    MHD_Response* response = MHD_create_response_from_buffer(text.size(), text.data(), MHD_RESPMEM_MUST_COPY);
    MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, "text/plain; version=0.0.4");
    const MHD_Result queued = MHD_queue_response(connection, is_asked ? MHD_HTTP_OK : MHD_HTTP_NOT_FOUND, response);
    MHD_destroy_response(response);
    return queued;
  }
};

std::variant<std::unique_ptr<MetricsDoor>, std::string> MetricsDoor::open(std::uint16_t port) {
  auto server = std::make_unique<Server>();
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  inet_pton(AF_INET, here, &address.sin_addr);
  server->daemon.reset(MHD_start_daemon(MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_POLL, port, nullptr, nullptr,
                                        &Server::answer, server.get(), MHD_OPTION_SOCK_ADDR,
                                        reinterpret_cast<sockaddr*>(&address), MHD_OPTION_CONNECTION_LIMIT,
                                        most_clients, MHD_OPTION_CONNECTION_TIMEOUT, patience_s, MHD_OPTION_END));
  if (!server->daemon)
    return fmt::format("can't listen on {}:{}: {}; another port, or 0 for any that is free, helps", here, port,
                       std::generic_category().message(errno));
  return std::unique_ptr<MetricsDoor>(new MetricsDoor(std::move(server)));
}

MetricsDoor::MetricsDoor(std::unique_ptr<Server> server) : server_(std::move(server)) {}
MetricsDoor::~MetricsDoor() = default;

std::string MetricsDoor::address() const {
  const MHD_DaemonInfo* info = MHD_get_daemon_info(server_->daemon.get(), MHD_DAEMON_INFO_BIND_PORT);
  return fmt::format("http://{}:{}/metrics", here, info ? info->port : 0);
}

void MetricsDoor::attend(RunningJob& job) {
  const Instant now = job.world().now();
  if (server_->looked && now - *server_->looked < look_every && !job.end()) return;
  server_->looked = now;
  std::string text = metrics_text(status_of(job));
  const std::lock_guard<std::mutex> lock(server_->mutex);
  server_->text = std::move(text);
}

}  // namespace stagecraft::tools
