// What the table of verbs (verbs.hpp) is made of. As there.
#pragma once

#include "tools/verbs.hpp"

namespace stagecraft::tools {

// of all that take no words
std::variant<Json, Senseless> read_nothing(const Words& words);
// of those whose words are somebody else's business
std::variant<Json, Senseless> read_anything(const Words& words);

// verbs_look.cpp
Served serve_status(const Json& arguments, RunningJob& job, pid_t process);
std::string show_status(const Answer& answer);
std::variant<Json, Senseless> read_list(const Words& words);
Served serve_list(const Json& arguments, RunningJob& job, pid_t process);
std::string show_list(const Answer& answer);
std::variant<Json, Senseless> read_get(const Words& words);
Served serve_get(const Json& arguments, RunningJob& job, pid_t process);
std::string show_get(const Answer& answer);
std::variant<Json, Senseless> read_watch(const Words& words);

// verbs_change.cpp
std::variant<Json, Senseless> read_migrate(const Words& words);
Served serve_migrate(const Json& arguments, RunningJob& job, pid_t process);
Served serve_checkpoint(const Json& arguments, RunningJob& job, pid_t process);
Answer settle_checkpoint(const WishAnswer& answer, const RunningJob& job);
Served serve_stop(const Json& arguments, RunningJob& job, pid_t process);

/// A whole number without anything around it.
std::optional<std::uint32_t> parse_number(std::string_view text);
/// Arguments are an object that has none but these.
std::optional<Senseless> check_arguments(const Json& arguments, std::span<const std::string_view> known);
/// A number among the arguments.
std::optional<std::uint32_t> number_in(const Json& arguments, const char* key);

}  // namespace stagecraft::tools
