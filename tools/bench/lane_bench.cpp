// A lane against Gloo alone, for tools/bench/lane: two processes on this machine, this one sends. Every round moves the
// same bytes both ways round, one after the other, and prints a line of JSON.
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <functional>
#include <mutex>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "transport/gloo_connection.hpp"
#include "transport/lane.hpp"

namespace stagecraft::bench {
namespace {

constexpr std::uint32_t window = 4;
constexpr std::array<std::size_t, 4> sizes{64 << 10, 1 << 20, 16 << 20, 64 << 20};
constexpr std::size_t bytes_per_run = 256 << 20, small_bytes = 4 << 10, pings = 400;

std::size_t count_of(std::size_t size) { return std::min<std::size_t>(bytes_per_run / size, 1024); }

double seconds_of(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// The other process, and a way to tell it an address.
struct Wire {
  std::array<int, 2> there{}, back{};
  bool is_child = false;

  std::string exchange(const std::string& own) const {
    std::array<char, 100> text{};
    std::copy(own.begin(), own.end(), text.begin());
    const int out = is_child ? back[1] : there[1], in = is_child ? there[0] : back[0];
    if (write(out, text.data(), text.size()) != ssize_t{100} || read(in, text.data(), text.size()) != ssize_t{100})
      throw std::runtime_error("the other process has gone");
    return text.data();
  }
};

// Gloo alone: as many receives posted ahead as a lane has parcels on their way, no frame, no acknowledgement but at the
// end, nothing allocated.
class Plain {
 public:
  explicit Plain(const Wire& wire)
      : is_child_(wire.is_child), connection_("127.0.0.1", is_child_ ? 1 : 0), memory_(window * sizes.back()) {
    connection_.connect(wire.exchange(connection_.address()));
  }
  ~Plain() { connection_.hang_up(); }
  Plain(const Plain&) = delete;
  Plain& operator=(const Plain&) = delete;

  void stream(std::size_t size) {
    const std::size_t count = count_of(size);
    if (!is_child_) {
      const auto out = connection_.buffer(memory_.data(), size);
      const auto ack = connection_.buffer(&word_, sizeof word_);
      ack->receive(2);
      for (std::size_t i = 0; i < count; ++i) out->send(1);
      ack->wait();
      return;
    }
    std::vector<std::unique_ptr<PostedBuffer>> in;
    for (std::size_t i = 0; i < std::min<std::size_t>(window, count); ++i) {
      in.push_back(connection_.buffer(memory_.data() + i * size, size));
      in.back()->receive(1);
    }
    for (std::size_t i = 0; i < count; ++i) {
      in[i % in.size()]->wait();
      if (i + in.size() < count) in[i % in.size()]->receive(1);
    }
    done_.push_back(connection_.buffer(&word_, sizeof word_));
    done_.back()->send(2);
  }
  // Seconds there and back, of each.
  std::vector<double> ping() {
    const auto out = connection_.buffer(memory_.data(), small_bytes);
    const auto in = connection_.buffer(memory_.data() + small_bytes, small_bytes);
    std::vector<double> times;
    for (std::size_t i = 0; i < pings; ++i) {
      in->receive(3);
      if (is_child_) in->wait();
      times.push_back(seconds_of([&] {
        out->send(3);
        if (!is_child_) in->wait();
      }));
    }
    return times;
  }

 private:
  bool is_child_;
  GlooConnection connection_;
  std::vector<char> memory_;
  std::uint64_t word_ = 0;
  std::vector<std::unique_ptr<PostedBuffer>> done_;  // until the connection is closed
};

class Ear final : public LaneEvents {
 public:
  void connected() override {}
  void arrived(LaneParcel) override {
    const std::lock_guard lock(mutex_);
    ++arrived_, changed_.notify_all();
  }
  void failed(std::string why) override {
    const std::lock_guard lock(mutex_);
    why_ = std::move(why), changed_.notify_all();
  }
  void wait(std::size_t more) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return arrived_ >= taken_ + more || !why_.empty(); });
    if (!why_.empty()) throw std::runtime_error(why_);
    taken_ += more;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t arrived_ = 0, taken_ = 0;
  std::string why_;
};

class Moved {
 public:
  explicit Moved(const Wire& wire) : is_child_(wire.is_child), payload_(*arena_, sizes.back() / sizeof(float)) {
    std::memset(payload_.data(), 1, sizes.back());
    // As that of a stage: what arrives is small against what was ever in use, so its blocks are kept and used again.
    arena_->allocate(std::size_t{1} << 30);
    LaneOptions options;
    options.name = "bench", options.listen = "127.0.0.1", options.rank = is_child_ ? 1 : 0;
    options.limits.window = window;
    options.connect_within = std::chrono::seconds(20);
    options.memory = arena_;
    LaneResult made = make_gloo_lane(options, ear_);
    if (const auto* why = std::get_if<std::string>(&made)) throw std::runtime_error(*why);
    lane_ = std::move(std::get<std::unique_ptr<Lane>>(made));
    lane_->connect(wire.exchange(lane_->address()));
  }
  void stream(std::size_t size) {
    const std::size_t count = count_of(size);
    if (is_child_) {
      ear_.wait(count);
      return put({{'k'}, {}});
    }
    const Tensor payload(payload_.buffer(), size / sizeof(float));
    for (std::size_t i = 0; i < count; ++i) put({std::vector<char>(64), {payload}});
    ear_.wait(1);
  }
  std::vector<double> ping(std::size_t header, std::size_t size) {
    LaneParcel parcel{std::vector<char>(header), {}};
    if (size > 0) parcel.payloads.emplace_back(payload_.buffer(), size / sizeof(float));
    std::vector<double> times;
    for (std::size_t i = 0; i < pings; ++i) {
      if (is_child_) ear_.wait(1);
      times.push_back(seconds_of([&] {
        put(parcel);
        if (!is_child_) ear_.wait(1);
      }));
    }
    return times;
  }
  LaneFigures figures() const { return lane_->figures(); }

 private:
  void put(LaneParcel parcel) {
    if (const auto why = lane_->send(std::move(parcel))) throw std::runtime_error(*why);
  }

  bool is_child_;
  std::shared_ptr<Arena> arena_ = Arena::make("bench", Bytes{});
  Tensor payload_;
  Ear ear_;
  std::unique_ptr<Lane> lane_;
};

double median_microseconds(std::vector<double> times) {
  std::sort(times.begin(), times.end());
  return times[times.size() / 2] * 1e6;
}

nlohmann::json round(Plain& plain, Moved& moved, bool plain_first) {
  nlohmann::json line;
  const auto in_turn = [&](const std::function<void()>& one, const std::function<void()>& other) {
    plain_first ? one() : other();
    plain_first ? other() : one();
  };
  for (const std::size_t size : sizes) {
    auto& found = line["stream"][std::to_string(size)];
    const double gigabytes = static_cast<double>(count_of(size) * size) * 1e-9;
    in_turn([&] { found["plain"] = gigabytes / seconds_of([&] { plain.stream(size); }); },
            [&] { found["lane"] = gigabytes / seconds_of([&] { moved.stream(size); }); });
  }
  auto& ping = line["ping"];
  in_turn([&] { ping["plain, 4 KiB"] = median_microseconds(plain.ping()); },
          [&] {
            ping["lane, header of 64 B"] = median_microseconds(moved.ping(64, 0));
            ping["lane, payload of 4 KiB"] = median_microseconds(moved.ping(64, small_bytes));
          });
  return line;
}

void measure(const Wire& wire, int rounds) {
  Plain plain(wire);
  Moved moved(wire);
  round(plain, moved, true);  // memory is touched for the first time, sockets grow
  for (int i = 0; i < rounds; ++i) {
    nlohmann::json line = round(plain, moved, i % 2 == 0);
    if (wire.is_child) continue;
    const LaneFigures now = moved.figures();
    line["copied_per_byte"] = static_cast<double>(now.bytes_copied) / static_cast<double>(now.bytes_sent);
    fmt::print("{}\n", line.dump());
    std::fflush(stdout);
  }
  wire.exchange("the end");  // neither hangs up before the other is done
}

int print_rounds(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("usage: lane_bench ROUNDS\n", stderr);
    return 2;
  }
  Wire wire;
  if (pipe(wire.there.data()) != 0 || pipe(wire.back.data()) != 0) return 1;
  const pid_t child = fork();
  wire.is_child = child == 0;
  int code = 0;
  try {
    measure(wire, std::atoi(argv[1]));
  } catch (const std::exception& problem) {
    fmt::print(stderr, "lane_bench: {}\n", problem.what());
    code = 1;
  }
  if (!wire.is_child) waitpid(child, nullptr, 0);
  return code;
}

}  // namespace
}  // namespace stagecraft::bench

int main(int argc, char** argv) { return stagecraft::bench::print_rounds(argc, argv); }
