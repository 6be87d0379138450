#include "gpu/cpu/threaded_stream.hpp"

#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <ctime>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>

namespace stagecraft {

namespace {

constexpr int niceness_of(Urgency urgency) { return urgency == Urgency::compute ? 5 : 19; }

class ThreadedStream final : public Stream {
 public:
  ThreadedStream(const std::string& name, Urgency urgency, const Clock& clock, Completions& completions)
      : urgency_(urgency), clock_(clock), completions_(completions), thread_([this] { run(); }) {
    pthread_setname_np(thread_.native_handle(), name.substr(0, 15).c_str());
  }

  ~ThreadedStream() override {
    {
      std::lock_guard guard(mutex_);
      stopping_ = true;
    }
    wake_.notify_one();
    thread_.join();
  }

  void submit(Work work) override {
    {
      std::lock_guard guard(mutex_);
      queue_.push_back(std::move(work));
    }
    wake_.notify_one();
  }

  // A completion is reported after its body has run.
  void retire(std::uint64_t) override {}

  Duration computed() const override { return Duration{computed_.load(std::memory_order_relaxed)}; }

 private:
  // CPU time of the calling thread.
  static std::int64_t cpu_time() {
    timespec now = {};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return now.tv_sec * 1'000'000'000 + now.tv_nsec;
  }

  // Arithmetic yields to the actors that schedule it: where devices outnumber cores, a completion would otherwise wait
  // for a whole time slice of somebody's matrix product.
  void step_back() const { setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), niceness_of(urgency_)); }

  void run() {
    step_back();
    for (;;) {
      Work work;
      {
        std::unique_lock lock(mutex_);
        wake_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
        if (stopping_) return;
        work = std::move(queue_.front());
        queue_.pop_front();
      }
      Completion done;
      done.ticket = work.ticket;
      done.started = clock_.now();
      const std::int64_t begin = cpu_time();
      try {
        work.body();
      } catch (const std::bad_alloc&) {
        done.error = "there is no memory left";
        done.out_of_memory = true;
      } catch (const std::exception& e) {
        done.error = e.what();
        if (done.error.empty()) done.error = "an exception without a text";  // an empty error would mean none
      } catch (...) {
        done.error = "something that is no std::exception";
      }
      work.body = nullptr;  // what the body holds is released here, not by the next one
      computed_.fetch_add(cpu_time() - begin, std::memory_order_relaxed);
      done.ended = clock_.now();
      completions_.report(done, Duration{});
      if (urgency_ == Urgency::background) continue;
      completions_.lend_thread([this] {
        const std::lock_guard guard(mutex_);
        return stopping_ || !queue_.empty();
      });
    }
  }

  const Urgency urgency_;
  const Clock& clock_;
  Completions& completions_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Work> queue_;
  std::atomic<std::int64_t> computed_ = 0;  // nanoseconds
  bool stopping_ = false;
  std::thread thread_;  // last: it uses everything above
};

}  // namespace

std::unique_ptr<Stream> make_threaded_stream(const std::string& name, Urgency urgency, const Clock& clock,
                                             Completions& completions) {
  return std::make_unique<ThreadedStream>(name, urgency, clock, completions);
}

}  // namespace stagecraft
