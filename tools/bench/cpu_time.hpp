// CPU time of this process, of its threads by name, and of whole cores. Thread promise: any thread.
#pragma once

#include <sched.h>
#include <unistd.h>

#include <chrono>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace stagecraft::bench {

/// Seconds of a CPU clock, such as CLOCK_PROCESS_CPUTIME_ID.
inline double cpu_seconds(clockid_t clock) {
  timespec t{};
  if (clock_gettime(clock, &t) != 0) return 0;
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

struct ThreadTime {
  pid_t id = 0;
  std::string name;  ///< "main" for the first thread
  double seconds = 0;
  double waits = 0;  ///< how often it gave up its core to wait for something
  /// Streams of cpu devices bear the name of their stage (gpu/cpu/threaded_stream.cpp).
  bool is_device() const { return name.starts_with("stage "); }
};

/// Every thread of this process that is alive.
inline std::vector<ThreadTime> threads_of_process() {
  std::vector<ThreadTime> threads;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) {
    ThreadTime thread;
    thread.id = static_cast<pid_t>(std::stol(entry.path().filename().string()));
    std::ifstream comm(entry.path() / "comm"), status(entry.path() / "status");
    std::getline(comm, thread.name);
    if (thread.id == getpid()) thread.name = "main";
    for (std::string line; std::getline(status, line);)
      if (constexpr std::string_view key = "voluntary_ctxt_switches:"; line.starts_with(key))
        thread.waits = std::stod(line.substr(key.size()));
    // The kernel's numbering of per-thread CPU clocks, as pthread_getcpuclockid builds it.
    thread.seconds = cpu_seconds(static_cast<clockid_t>((~static_cast<unsigned>(thread.id) << 3) | 6U));
    threads.push_back(thread);
  }
  return threads;
}

/// CPU seconds that one sleep and wake-up of a thread costs here; a virtual machine makes it dear.
inline double cost_of_a_wait() {
  constexpr int times = 200;
  const double begin = cpu_seconds(CLOCK_THREAD_CPUTIME_ID);
  for (int i = 0; i < times; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return (cpu_seconds(CLOCK_THREAD_CPUTIME_ID) - begin) / times;
}

/// Seconds that some cores were not idle, over all processes and what the host took, since boot.
inline double busy_seconds(const std::set<int>& cores) {
  std::ifstream stat("/proc/stat");
  double ticks = 0;
  for (std::string line; std::getline(stat, line);) {
    std::istringstream words(line);
    std::string label;
    words >> label;
    if (!label.starts_with("cpu") || label == "cpu" || !cores.contains(std::stoi(label.substr(3)))) continue;
    // user nice system idle iowait irq softirq steal; guest time is within user.
    double value = 0;
    for (int column = 0; column < 8 && words >> value; ++column)
      if (column != 3 && column != 4) ticks += value;
  }
  return ticks / static_cast<double>(sysconf(_SC_CLK_TCK));
}

/// Confines a thread (0: the calling one) to some cores. False when the system refuses.
inline bool pin(pid_t thread, const std::set<int>& cores) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int core : cores) CPU_SET(core, &set);
  return sched_setaffinity(thread, sizeof set, &set) == 0;
}

}  // namespace stagecraft::bench
