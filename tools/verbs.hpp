// The verbs by which people talk to a running job. One table for the command line, the shell and the job that answers:
// how a verb's words become a request, what the job does about it, and how its answer reads.
//
// A request and its answers are JSON objects, one a line (docs/user-guide.md, Talking to a running job). The tables are
// constant; `serve` and `settle` are called on the thread that drives the job, all others on the main thread.
#pragma once

#include <sys/types.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "actors/running_job.hpp"
#include "tools/commands.hpp"

namespace stagecraft::tools {

using Json = nlohmann::ordered_json;
using Words = std::vector<std::string>;

enum class Outcome : std::uint8_t {
  done,
  refused,      ///< it can't be had: the text says why, with numbers
  given_up,     ///< it was begun and not done, or the job ended before
  late,         ///< it took too long: nobody knows yet
  bad_request,  ///< it makes no sense
  unmet,        ///< it is not as was expected
};
std::string_view to_text(Outcome outcome);
std::optional<Outcome> parse_outcome(std::string_view text);
ExitCode exit_code(Outcome outcome);

struct Answer {
  Outcome outcome = Outcome::done;
  std::string text{};          ///< one sentence or two, for people
  Json data = Json::object();  ///< for scripts
};

/// A request that is answered later: when the wish is, when the iteration is done, or when the job has ended.
struct Waiting {
  std::optional<WishId> wish{};
  std::optional<Iteration> iteration{};
  std::optional<Duration> within{};  ///< then it is too late; none: as the deadlines of the job say
};
using Served = std::variant<Answer, Waiting>;

/// Words that make no sense, or arguments.
struct Senseless {
  std::string why;
};

struct Verb {
  enum class Kind : std::uint8_t {
    asks,     ///< the job
    watches,  ///< asks for the status again and again
    taps,     ///< asks for new events again and again
    waits,    ///< asks again and again, and is answered when it is so
    expects,  ///< asks for the status, and compares
    shell,    ///< exists in the shell alone, which knows what it means
  };

  std::string_view name;     ///< one word or two
  std::string_view words;    ///< what may follow
  std::string_view what;     ///< in a line
  std::string_view example;  ///< a whole line
  std::string_view follows;  ///< words that may stand in it; one that ends in a slash: all names that begin so
  Kind kind = Kind::asks;
  /// What people typed after the name -> the arguments of the request.
  std::variant<Json, Senseless> (*read)(const Words& words) = nullptr;
  /// `process`: who asks; 0: a script that drives the job.
  Served (*serve)(const Json& arguments, RunningJob& job, pid_t process) = nullptr;
  /// The answer to a wish; none: what it says is all there is to say.
  Answer (*settle)(const WishAnswer& answer, const RunningJob& job) = nullptr;
  /// The answer as people read it; none: its text.
  std::string (*show)(const Answer& answer) = nullptr;
};

/// What a wish of that verb came to.
Answer settled(const Verb& verb, const WishAnswer& answer, const RunningJob& job);

std::span<const Verb> verbs();
/// Of a request; null: there is none of this name.
const Verb* find_verb(std::string_view name);
/// "; did you mean 'x'?" or nothing.
std::string did_you_mean_verb(std::string_view name);

/// "stage/2", "node/n0": what `get` calls a row of `list`. `one`: what such a row is.
std::string name_of_row(std::string_view one, const Json& row);

/// A line that people typed: its verb and the words behind that, or what is wrong with it.
struct Typed {
  const Verb* verb = nullptr;
  Words words;
};
std::variant<Typed, Senseless> parse_line(const Words& words);
/// "migrate layers A-B to stage/N | layout [..]"
std::string usage_of(const Verb& verb);

}  // namespace stagecraft::tools
