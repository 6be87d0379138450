#include "tools/await.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

namespace stagecraft::tools {

namespace {

constexpr Duration default_within = std::chrono::hours(24);  // as the table of verbs says
constexpr Duration longest_ask = std::chrono::seconds(30);

Duration steady_now() { return std::chrono::steady_clock::now().time_since_epoch(); }

// What is waited for, and how long at most.
struct Awaited {
  bool time_passes = false;  // nothing but that
  Duration within{};
  Json request;
  std::string what;

  explicit Awaited(const Json& arguments) : time_passes(arguments.contains("time_ns")) {
    const char* key = time_passes ? "time_ns" : "within_ns";
    within = Duration(arguments.value(key, std::int64_t{default_within.count()}));
    const auto iteration = arguments.find("iteration");
    const bool counts = iteration != arguments.end();
    request = counts ? Json{{"iteration", *iteration}} : Json{{"end", true}};
    what = counts        ? fmt::format("iteration {}", iteration->dump())
           : time_passes ? format(within)
                         : std::string("the end");
  }

  // The job has answered for good.
  Answer decided(Answer answer) const {
    if (!time_passes || answer.outcome == Outcome::refused || answer.outcome == Outcome::bad_request) return answer;
    answer.outcome = Outcome::given_up;
    answer.text = fmt::format("the job has ended before {} had passed: {}", what, answer.text);
    return answer;
  }
  // It has not, and the time is over.
  Answer over(Answer answer) const {
    if (time_passes) {
      answer.outcome = Outcome::done;
      return answer;
    }
    answer.text = fmt::format("{} did not come within {}: {}", what, format(within), answer.text);
    return answer;
  }
};

}  // namespace

std::variant<Answer, Trouble> await_job(ControlClient& client, const Json& arguments,
                                        const std::function<void(const std::string&)>& waits) {
  const Verb& verb = *find_verb("wait");
  Awaited awaited(arguments);
  const Duration since = steady_now(), until = since + awaited.within;
  const auto say_how_long = [&](const std::string&) {
    waits(fmt::format("waiting for {} since {:.0f} s", awaited.what,
                      std::chrono::duration<double>(steady_now() - since).count()));
  };
  while (true) {
    const Duration left = std::clamp(until - steady_now(), Duration(1), longest_ask);
    awaited.request["within_ms"] = std::chrono::ceil<std::chrono::milliseconds>(left).count();
    auto answer = client.ask(verb, awaited.request, say_how_long);
    if (std::holds_alternative<Trouble>(answer)) return answer;
    auto& told = std::get<Answer>(answer);
    if (told.outcome != Outcome::late) return awaited.decided(std::move(told));
    if (steady_now() >= until) return awaited.over(std::move(told));
  }
}

}  // namespace stagecraft::tools
