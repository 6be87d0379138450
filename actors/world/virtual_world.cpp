#include <vector>

#include "actors/world/deterministic_scheduler.hpp"
#include "actors/world/world.hpp"
#include "gpu/timed/timed_stream.hpp"
#include "planning/bug.hpp"

namespace stagecraft {

namespace {

struct VirtualConfig : caf::actor_system_config {
  VirtualConfig() {
    set("logger.verbosity", caf::atom("quiet"));
    load<DeterministicScheduler>();
  }
};

class VirtualWorld final : public World {
 public:
  VirtualWorld(const VirtualOptions& options, std::shared_ptr<Disk> disk)
      : options_(options),
        disk_(std::move(disk)),
        system_(config_),
        lateness_(options.seed, "lateness"),
        rare_(options.seed, "rare") {
    scheduler().seed(options.seed);
  }

  Instant now() const override { return DeterministicScheduler::of(system_).now(); }
  caf::actor_system& system() override { return system_; }
  bool is_virtual() const override { return true; }
  Entropy entropy(std::string_view name) const override { return Entropy(options_.seed, name); }

  Stream& open_stream(DeviceKind, const std::string& name, std::unique_ptr<Completions> completions) override {
    const std::uint64_t seed = keyed(options_.seed, name_key("stream"), name_key(name));
    completions_.push_back(std::move(completions));
    streams_.push_back(make_timed_stream(TimerKind::exact, seed, *this, *completions_.back()));
    return *streams_.back();
  }
  Stream& open_background_stream(const std::string& name, std::unique_ptr<Completions> completions) override {
    return open_stream(DeviceKind::cpu, name, std::move(completions));
  }
  void close_streams() override {
    streams_.clear();
    completions_.clear();
  }

  Duration computed() const override { return {}; }
  void help_actors(const std::function<bool()>&) override {}

  std::unique_ptr<Channel> open_channel(const LinkCost& cost, bool crosses_nodes, Arrivals& arrivals,
                                        LinkWeather* weather) override {
    return make_inproc_channel(cost, crosses_nodes, *this, arrivals, weather);
  }

  Disk& disk() override { return *disk_; }
  bool log(const std::string& path, std::string text) override {
    Disk& disk = options_.log_disk ? *options_.log_disk : *disk_;
    if (auto error = disk.append(path, text); error && !log_error_) log_error_ = std::move(error);
    return true;
  }
  DiskStatus flush_logs() override { return log_error_; }

  void when_quiet(std::function<void()> then) override { quiet_.push_back(std::move(then)); }

  Duration lateness() override {
    if (options_.lateness.count() == 0) return {};
    return Duration(lateness_.below(static_cast<std::uint64_t>(options_.lateness.count()) + 1));
  }
  // Both by a chance of one in four, so that each run takes another mixture of branches.
  bool rarely(std::string_view site) override {
    if (!options_.rare_branches || keyed(options_.seed, name_key("rare"), name_key(site)) % 4 != 0) return false;
    return rare_.below(4) == 0;
  }
  bool serialises() const override { return options_.serialise; }

  // Asking costs more than most messages: so only when there is news, and every so often.
  std::int64_t calendar_s() const override { return std::chrono::duration_cast<std::chrono::seconds>(now()).count(); }
  void set_clock(Instant) override { STAGECRAFT_ASSERT(false, "the virtual clock is not set"); }
  bool drive(const std::function<bool()>& done) override {
    has_news_ = true;
    for (std::uint32_t asked = 0;; ++asked) {
      if ((has_news_ || asked % 256 == 0) && (has_news_ = false, done())) return true;
      if (options_.before_step) options_.before_step(scheduler().steps());
      if (scheduler().step() || scheduler().fire_due()) continue;
      if (!quiet_.empty()) {
        for (const auto& then : std::exchange(quiet_, {})) then();
        continue;
      }
      if (done()) return true;  // before time passes
      if (!scheduler().advance()) return false;
    }
  }
  void news() override { has_news_ = true; }

 private:
  DeterministicScheduler& scheduler() { return DeterministicScheduler::of(system_); }

  VirtualOptions options_;
  std::shared_ptr<Disk> disk_;
  DiskStatus log_error_;
  VirtualConfig config_;
  mutable caf::actor_system system_;  // asking it for its scheduler is not const in CAF
  Entropy lateness_, rare_;
  bool has_news_ = false;
  std::vector<std::function<void()>> quiet_;  // to be called at the end of this instant
  std::vector<std::unique_ptr<Completions>> completions_;
  std::vector<std::unique_ptr<Stream>> streams_;
};

}  // namespace

std::unique_ptr<World> make_virtual_world(const VirtualOptions& options, std::shared_ptr<Disk> disk) {
  return std::make_unique<VirtualWorld>(options, std::move(disk));
}

}  // namespace stagecraft
