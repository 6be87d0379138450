// What the table of verbs (verbs.hpp) is made of. As there.
#pragma once

#include "tools/verbs.hpp"

namespace stagecraft::tools {

// of all that take no words
std::variant<Json, Senseless> read_nothing(const Words& words);
// of those whose words are somebody else's business
std::variant<Json, Senseless> read_anything(const Words& words);

// of the one that keeps a script
std::variant<Json, Senseless> read_save(const Words& words);

// verbs_look.cpp
std::variant<Json, Senseless> read_status(const Words& words);
Served serve_status(const Json& arguments, RunningJob& job, pid_t process);
std::string show_status(const Answer& answer);
std::variant<Json, Senseless> read_list(const Words& words);
Served serve_list(const Json& arguments, RunningJob& job, pid_t process);
std::string show_list(const Answer& answer);
std::variant<Json, Senseless> read_get(const Words& words);
Served serve_get(const Json& arguments, RunningJob& job, pid_t process);
std::string show_get(const Answer& answer);
std::variant<Json, Senseless> read_watch(const Words& words);
/// Of a status: job, iteration, loss, time.
std::string first_line(const Json& status);
/// Of a status: how long ago the job has got on.
std::string progress_text(const Json& status);

// verbs_wait.cpp
std::variant<Json, Senseless> read_wait(const Words& words);
Served serve_wait(const Json& arguments, RunningJob& job, pid_t process);
/// The job is as far as `wanted`; where no iteration is, never.
bool is_done(const std::optional<Iteration>& wanted, const RunningJob& job);
/// An answer that says how far the job is.
Answer where_it_stands(Outcome outcome, const RunningJob& job);

// verbs_change.cpp
std::variant<Json, Senseless> read_migrate(const Words& words);
Served serve_migrate(const Json& arguments, RunningJob& job, pid_t process);
Served serve_checkpoint(const Json& arguments, RunningJob& job, pid_t process);
Answer settle_checkpoint(const WishAnswer& answer, const RunningJob& job);
Served serve_stop(const Json& arguments, RunningJob& job, pid_t process);

// verbs_ask.cpp
Served serve_pause(const Json& arguments, RunningJob& job, pid_t process);
Served serve_resume(const Json& arguments, RunningJob& job, pid_t process);
Served serve_dump(const Json& arguments, RunningJob& job, pid_t process);
Answer settle_dump(const WishAnswer& answer, const RunningJob& job);
std::string show_dump(const Answer& answer);
Served serve_top(const Json& arguments, RunningJob& job, pid_t process);
Answer settle_top(const WishAnswer& answer, const RunningJob& job);
std::string show_top(const Answer& answer);
Served serve_plan(const Json& arguments, RunningJob& job, pid_t process);
Answer settle_plan(const WishAnswer& answer, const RunningJob& job);
std::string show_plan(const Answer& answer);
std::variant<Json, Senseless> read_set(const Words& words);
Served serve_set(const Json& arguments, RunningJob& job, pid_t process);
Answer settle_set(const WishAnswer& answer, const RunningJob& job);
std::string show_set(const Answer& answer);
std::variant<Json, Senseless> read_why(const Words& words);
Served serve_why(const Json& arguments, RunningJob& job, pid_t process);
std::variant<Json, Senseless> read_logs(const Words& words);
std::variant<Json, Senseless> read_tap(const Words& words);
Served serve_logs(const Json& arguments, RunningJob& job, pid_t process);
Answer settle_events(const WishAnswer& answer, const RunningJob& job);
std::string show_events(const Answer& answer);

// verbs_break.cpp
std::variant<Json, Senseless> read_inject(const Words& words);
Served serve_inject(const Json& arguments, RunningJob& job, pid_t process);
std::variant<Json, Senseless> read_heal(const Words& words);
Served serve_heal(const Json& arguments, RunningJob& job, pid_t process);

/// Who asks: `process` as in Verb::serve.
std::string asker_text(pid_t process);
/// A whole number without anything around it.
std::optional<std::uint32_t> parse_number(std::string_view text);
/// Arguments are an object that has none but these.
std::optional<Senseless> check_arguments(const Json& arguments, std::span<const std::string_view> known);
/// A number among the arguments.
std::optional<std::uint32_t> number_in(const Json& arguments, const char* key);

}  // namespace stagecraft::tools
