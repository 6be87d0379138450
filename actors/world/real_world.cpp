#include <readerwritercircularbuffer.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "actors/cluster/network.hpp"
#include "actors/world/real_scheduler.hpp"
#include "actors/world/world.hpp"
#include "gpu/cpu/threaded_stream.hpp"
#include "gpu/timed/timed_stream.hpp"
#include "planning/bug.hpp"
#include "transport/real_disk.hpp"

namespace stagecraft {

namespace {

using namespace std::chrono_literals;

// A finite throughput, so that no actor keeps a thread for itself.
struct RealConfig : caf::actor_system_config {
  RealConfig(std::size_t threads, const NetworkOptions* network) {
    set("logger.verbosity", caf::atom("quiet"));
    set("scheduler.max-threads", threads);
    set("scheduler.max-throughput", std::size_t{50});
    load<RealScheduler>();
    if (network) join_network(*this, *network);
  }
};

// A thread that appends to files, behind a bounded queue with one producer.
class LogWriter {
 public:
  explicit LogWriter(Disk& disk) : disk_(disk), queue_(backlog), thread_([this] { run(); }) {}
  ~LogWriter() {
    stopping_ = true;
    queue_.try_enqueue({});  // wakes it
    thread_.join();
  }
  LogWriter(const LogWriter&) = delete;
  LogWriter& operator=(const LogWriter&) = delete;

  bool push(const std::string& path, std::string text) {
    if (!queue_.try_enqueue({path, std::move(text)})) return false;
    ++pushed_;
    return true;
  }
  DiskStatus flush(std::chrono::nanoseconds patience) {
    const auto deadline = std::chrono::steady_clock::now() + patience;
    while (written_ < pushed_ && std::chrono::steady_clock::now() < deadline) std::this_thread::sleep_for(1ms);
    std::lock_guard guard(mutex_);
    if (!error_ && written_ < pushed_) error_ = disk_error("finish writing", "the event log", EBUSY);
    return error_;
  }

 private:
  struct Entry {
    std::string path, text;
  };
  static constexpr std::size_t backlog = 8192;

  void run() {
    Entry entry;
    while (!stopping_) {
      if (!queue_.wait_dequeue_timed(entry, 500ms) || entry.path.empty()) continue;
      if (auto error = disk_.append(entry.path, entry.text)) {
        std::lock_guard guard(mutex_);
        if (!error_) error_ = std::move(error);
      }
      ++written_;
    }
  }

  Disk& disk_;
  moodycamel::BlockingReaderWriterCircularBuffer<Entry> queue_;
  std::atomic<std::uint64_t> pushed_ = 0, written_ = 0;
  std::atomic<bool> stopping_ = false;
  std::mutex mutex_;
  DiskStatus error_;
  std::thread thread_;  // last: it uses everything above
};

class RealWorld final : public World {
 public:
  RealWorld(std::size_t threads, const NetworkOptions* network)
      : config_(threads, network), system_(config_), writer_(disk_) {}

  Instant now() const override {
    return std::chrono::steady_clock::now().time_since_epoch() - Duration{start_.load(std::memory_order_relaxed)};
  }
  std::int64_t calendar_s() const override {
    return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch())
        .count();
  }
  void set_clock(Instant now) override { start_ = (std::chrono::steady_clock::now().time_since_epoch() - now).count(); }
  caf::actor_system& system() override { return system_; }
  bool is_virtual() const override { return false; }
  Entropy entropy(std::string_view name) const override { return Entropy(0, name); }

  Stream& open_stream(DeviceKind kind, const std::string& name, std::unique_ptr<Completions> completions) override {
    std::lock_guard guard(mutex_);
    completions_.push_back(std::move(completions));
    streams_.push_back(kind == DeviceKind::cpu
                           ? make_threaded_stream(name, Urgency::compute, *this, *completions_.back())
                           : make_timed_stream(TimerKind::late, 0, *this, *completions_.back()));
    return *streams_.back();
  }
  Stream& open_background_stream(const std::string& name, std::unique_ptr<Completions> completions) override {
    std::lock_guard guard(mutex_);
    completions_.push_back(std::move(completions));
    streams_.push_back(make_threaded_stream(name, Urgency::background, *this, *completions_.back()));
    return *streams_.back();
  }
  void close_streams() override {
    std::lock_guard guard(mutex_);
    streams_.clear();
    completions_.clear();
  }

  Duration computed() const override {
    const std::lock_guard guard(mutex_);
    Duration sum{};
    for (const auto& stream : streams_) sum += stream->computed();
    return sum;
  }
  void help_actors(const std::function<bool()>& wanted_back) override { RealScheduler::of(system_).help(wanted_back); }

  std::unique_ptr<Channel> open_channel(const LinkCost& cost, bool crosses_nodes, Arrivals& arrivals,
                                        LinkWeather* weather) override {
    return make_inproc_channel(cost, crosses_nodes, *this, arrivals, weather);
  }

  Disk& disk() override { return disk_; }
  bool log(const std::string& path, std::string text) override { return writer_.push(path, std::move(text)); }
  DiskStatus flush_logs() override { return writer_.flush(10s); }

  void when_quiet(std::function<void()>) override { STAGECRAFT_ASSERT(false, "the real world is never quiet"); }
  Duration lateness() override { return {}; }
  bool rarely(std::string_view) override { return false; }
  bool serialises() const override { return false; }

  bool drive(const std::function<bool()>& done) override {
    while (!done()) {
      std::unique_lock lock(mutex_);
      news_.wait_for(lock, 50ms, [this] { return has_news_; });
      has_news_ = false;
    }
    return true;
  }
  void news() override {
    {
      const std::lock_guard guard(mutex_);
      has_news_ = true;
    }
    news_.notify_one();
  }

 private:
  std::atomic<std::int64_t> start_ = Duration(std::chrono::steady_clock::now().time_since_epoch()).count();
  RealDisk disk_;
  RealConfig config_;
  mutable caf::actor_system system_;  // asking it for its scheduler is not const in CAF
  LogWriter writer_;
  mutable std::mutex mutex_;
  std::condition_variable news_;
  bool has_news_ = false;
  std::vector<std::unique_ptr<Completions>> completions_;
  std::vector<std::unique_ptr<Stream>> streams_;
};

}  // namespace

std::unique_ptr<World> make_real_world(std::size_t worker_threads, const NetworkOptions* network) {
  return std::make_unique<RealWorld>(worker_threads, network);
}

}  // namespace stagecraft
