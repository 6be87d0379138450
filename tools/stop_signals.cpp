#include "tools/stop_signals.hpp"

#include <unistd.h>

#include <csignal>

#include "tools/commands.hpp"

namespace stagecraft::tools {

namespace {

volatile std::sig_atomic_t stop_signals = 0;  // a signal handler has nothing else to write to

extern "C" void on_stop_signal(int) {
  stop_signals = stop_signals + 1;
  if (stop_signals > 1) _exit(left_at_once);
}

}  // namespace

void catch_stop_signals() {
  struct sigaction action = {}, before = {};
  action.sa_handler = on_stop_signal;
  for (const int signal : {SIGINT, SIGTERM, SIGUSR1, SIGHUP})
    if (sigaction(signal, nullptr, &before) == 0 && before.sa_handler != SIG_IGN) sigaction(signal, &action, nullptr);
}

bool stop_is_asked() { return stop_signals > 0; }

}  // namespace stagecraft::tools
