// Where people talk to a running job: takes the requests that come through its control socket, has them served, and
// answers them, some of them later. On the thread that drives the job; the socket has a thread of its own.
//
// A request: {"id": 1, "verb": "migrate", "arguments": {"layers": "3-4", "stage": 1}}. While it waits, a line
// {"id": 1, "waiting": "..."} each second, then {"id": 1, "outcome": "done", "text": "...", "data": {...}}.
#pragma once

#include <list>
#include <memory>
#include <string>

#include "tools/verbs.hpp"
#include "transport/line_server.hpp"

namespace stagecraft::tools {

class ControlDesk {
 public:
  /// Nothing is opened yet. `say`: told where people can talk to the job, or why they can't.
  ControlDesk(std::string path, std::function<void(const std::string&)> say);

  /// Often, while the job runs, and once more when it has ended: opens the socket, serves, answers, closes.
  void attend(RunningJob& job);

 private:
  struct Request {
    std::uint64_t client = 0;
    Json id;
    const Verb* verb = nullptr;
    Waiting what;  // neither wish nor iteration: the end of the job
    Instant since{}, until{}, next_word{};
  };

  void open(RunningJob& job);
  void take(const LineServer::Line& line, RunningJob& job);
  void serve(const LineServer::Line& line, const Json& request, RunningJob& job);
  void settle(const WishAnswer& answer, const RunningJob& job);
  void look_at_waiting(const RunningJob& job);
  static Answer late_answer(const Request& request, const RunningJob& job);
  void close(const RunningJob& job);
  void answer(std::uint64_t client, const Json& id, const Answer& answer);

  std::string path_;
  std::function<void(const std::string&)> say_;
  bool tried_ = false;
  std::unique_ptr<LineServer> server_;  // none: nobody can talk to the job
  std::list<Request> waiting_;
};

}  // namespace stagecraft::tools
