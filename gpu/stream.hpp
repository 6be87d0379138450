// The door to a device: streams that run work in order, and the completions through which they report.
//
// Shaped so that CUDA fits behind it: a stream is a queue, its body enqueues kernels, a completion is an event that
// was recorded behind them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "gpu/clock.hpp"

namespace stagecraft {

/// One piece of work for a stream.
struct Work {
  std::uint64_t ticket = 0;    ///< comes back in the completion
  Instant not_before{};        ///< the latest of the due times of its inputs
  Duration cost{};             ///< what it takes, where the device charges a cost table instead of the wall clock
  std::function<void()> body;  ///< the arithmetic; may throw
};

struct Completion {
  std::uint64_t ticket = 0;
  Instant started{}, ended{};  ///< due times: on emulated devices free of the timers' lateness
  std::string error;           ///< what the body threw; empty: nothing
  bool out_of_memory = false;  ///< that is what it threw about
};

/// Where devices report. Devices know no actor. Thread promise: any thread may call.
class Completions {
 public:
  virtual ~Completions() = default;
  /// Deliver `completion` after `delay` (zero: now).
  virtual void report(const Completion& completion, Duration delay) = 0;
  /// Called by a device's thread after each report, where it has one: it may be used for other things until
  /// `wanted_back` is true. Returns soon after that; at once by default.
  virtual void lend_thread(const std::function<bool()>& wanted_back) { (void)wanted_back; }
};

/// A queue of one device. submit() and retire() from one owner; bodies run wherever the backend runs them.
class Stream {
 public:
  virtual ~Stream() = default;
  virtual void submit(Work work) = 0;
  /// The owner has received the completion of `ticket`: the body has run when this returns.
  virtual void retire(std::uint64_t ticket) = 0;
  /// CPU time of all bodies so far; zero where a device charges costs instead. Any thread.
  virtual Duration computed() const { return {}; }
};

}  // namespace stagecraft
