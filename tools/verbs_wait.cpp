// The verb that waits for a running job: until an iteration is done, for a while, or for its end.
//
// The client asks again and again (await.hpp), each time for a minute at most, so that whoever goes away is forgotten
// soon. The job holds the request meanwhile: it alone knows its last iteration and why it ended.
#include <fmt/format.h>

#include <array>

#include "config/diagnostics.hpp"
#include "tools/job_view.hpp"
#include "tools/verb_parts.hpp"

namespace stagecraft::tools {

namespace {

constexpr const char* wait_forms =
    "expected `iteration N`, `end` or a time such as `10s`; behind the first two may stand `within 60s`";
constexpr Duration longest_time = std::chrono::hours(1000);
constexpr std::uint32_t longest_turn_ms = 60'000;

// A time that somebody may wait for.
std::optional<Duration> parse_wait(std::string_view text) {
  const auto time = parse_duration(text);
  if (!time || *time <= Duration{} || *time > longest_time) return std::nullopt;
  return time;
}

Senseless no_wait(const Words& words) {
  return {fmt::format("{}, got {}", wait_forms,
                      words.empty() ? "nothing" : stagecraft::quoted(fmt::format("{}", fmt::join(words, " "))))};
}

std::uint32_t iterations_done(const RunningJob& job) {
  return job.newest() ? job.newest()->iteration.value : job.start().value;
}

}  // namespace

std::variant<Json, Senseless> read_wait(const Words& words) {
  if (words.empty()) return no_wait(words);
  Json arguments;
  Words rest(words.begin() + 1, words.end());
  if (words[0] == "iteration") {
    const auto iteration = rest.empty() ? std::nullopt : parse_number(rest.front());
    if (!iteration || *iteration == 0) return no_wait(words);
    arguments["iteration"] = *iteration;
    rest.erase(rest.begin());
  } else if (words[0] == "end") {
    arguments["end"] = true;
  } else {
    const auto time = parse_wait(words[0]);
    if (!time || !rest.empty()) return no_wait(words);
    return Json{{"time_ns", time->count()}};
  }
  if (rest.empty()) return arguments;
  const auto within = rest.size() == 2 && rest[0] == "within" ? parse_wait(rest[1]) : std::nullopt;
  if (!within) return no_wait(words);
  arguments["within_ns"] = within->count();
  return arguments;
}

Served serve_wait(const Json& arguments, RunningJob& job, pid_t) {
  constexpr std::array<std::string_view, 3> known{"iteration", "end", "within_ms"};
  if (const auto wrong = check_arguments(arguments, known)) return Answer{Outcome::bad_request, wrong->why};
  const auto within = number_in(arguments, "within_ms"), iteration = number_in(arguments, "iteration");
  if (!within || *within == 0 || *within > longest_turn_ms)
    return Answer{Outcome::bad_request,
                  fmt::format("expected 1 to {} as 'within_ms': ask again after that", longest_turn_ms)};
  if (arguments.contains("end") == arguments.contains("iteration") || (arguments.contains("iteration") && !iteration) ||
      (arguments.contains("end") && arguments["end"] != true))
    return Answer{Outcome::bad_request, "expected one of 'iteration' (a number) and 'end' (true)"};
  const std::uint32_t most = job.topology().job.iterations;
  if (iteration && *iteration > most)
    return Answer{Outcome::refused, fmt::format("the job has {} iterations, got {}", most, *iteration)};
  Waiting waiting;
  if (iteration) waiting.iteration = Iteration{*iteration};
  waiting.within = std::chrono::milliseconds(*within);
  if (is_done(waiting.iteration, job)) return where_it_stands(Outcome::done, job);
  return waiting;
}

bool is_done(const std::optional<Iteration>& wanted, const RunningJob& job) {
  return wanted && iterations_done(job) >= wanted->value;
}

Answer where_it_stands(Outcome outcome, const RunningJob& job) {
  const Json status = status_of(job);
  Json data = Json::object();
  for (const char* key : {"iteration", "iterations", "since_progress_s"}) data[key] = status[key];
  return {outcome, fmt::format("{}; {}", first_line(status), progress_text(status)), std::move(data)};
}

}  // namespace stagecraft::tools
