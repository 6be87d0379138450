// The stable codes of everything that can be wrong with a file: `SC01xx` for syntax and values, `SC02xx` for what a
// topology means,
// `SC03xx` for what a scenario means. A code never changes its meaning; new ones go to the end of their group. Values
// only; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace stagecraft {

/// The value is the number that the user sees: 101 is SC0101.
enum class ErrorCode : std::uint16_t {
  file_too_large = 101,
  not_text = 102,
  not_yaml = 103,
  too_deep = 104,
  too_many_values = 105,
  alias = 106,
  second_document = 107,
  unterminated_quote = 108,
  tab_in_indentation = 109,
  empty_file = 110,
  tag_or_directive = 111,
  bad_key = 112,
  duplicate_key = 113,
  unknown_key = 114,
  missing_key = 115,
  wrong_type = 116,
  ambiguous_number = 117,
  out_of_range = 118,
  not_finite = 119,
  bad_unit = 120,
  unknown_choice = 121,
  bad_override = 122,
  override_without_place = 123,
  bad_text = 124,
  list_length = 125,

  unknown_version = 201,
  layout_length = 202,
  layout_sum = 203,
  too_few_devices = 204,
  mixed_devices = 205,
  heads_and_width = 206,
  odd_head_size = 207,
  kv_heads_and_heads = 208,
  micro_batch_too_small = 209,
  shards_not_power_of_two = 210,
  shards_below_replicas = 211,
  replicas_above_micro_batches = 212,
  chunks_need_schedule = 213,
  warmup_length = 214,
  warmup_without_list = 215,
  cap_below_chunks = 216,
  timeout_ladder = 217,
  not_neighbours = 218,
  duplicate_node = 219,
  bad_address = 220,
  not_available_yet = 221,
  costs_on_cpu = 222,
  duplicate_address = 223,
  too_many_operators = 224,
  kernels_missing = 225,

  spare_devices = 250,
  unused_key = 251,
  few_micro_batches = 252,
  empty_chunks = 253,
  link_stated_twice = 254,
  default_shards = 255,
  empty_shards = 256,
  uneven_replicas = 257,
  many_micro_batches = 258,
  few_credits = 259,
  warmup_above_work = 260,
  rate_never_reached = 261,
  relaxed_consistency = 262,

  one_of_keys = 301,
  wrong_target = 302,
  key_not_of_fault = 303,
  filter_not_of_event = 304,
  duplicate_fault = 305,
  unknown_fault = 306,
  nothing_to_measure = 307,
  never_fires = 308,
  not_in_real_world = 309,
  no_such_link = 310,
  no_such_place = 311,
  no_such_node = 312,
  nothing_computed = 313,
  no_checkpoints = 314,
  beyond_the_job = 315,
  impossible_move = 316,
};

enum class Severity : std::uint8_t {
  error,    ///< nothing is started
  warning,  ///< legal, but probably not what was meant
  note,     ///< a default that deserves to be known
};

/// What `stagecraft explain` prints and docs/errors.md holds.
struct ErrorPage {
  ErrorCode code;
  Severity severity;
  std::string_view sentence;     ///< what is wrong, in one line
  std::string_view explanation;  ///< why it matters and what to do
  std::string_view example;      ///< a piece of YAML (or a command line) that earns the code, and the cure
};

/// All pages, in increasing order of their codes.
std::vector<ErrorPage> error_pages();
/// The page of one code.
ErrorPage page_of(ErrorCode code);
/// "SC0101".
std::string to_text(ErrorCode code);
/// "error", "warning", "note".
std::string_view to_text(Severity severity);
/// Empty when the text is not the code of a page.
std::optional<ErrorCode> parse_error_code(std::string_view text);
/// The page as `docs/errors.md` holds it, in Markdown, with a heading.
std::string to_markdown(const ErrorPage& page);

}  // namespace stagecraft
