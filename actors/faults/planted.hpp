// Bugs that tests plant, to see that seeds find them. In the product there are none: `planted` is false at compile
// time. With STAGECRAFT_PLANTED_BUGS (the sanitizer builds) a test switches one on at a time, on its own thread: the
// virtual world has no other.
#pragma once

#include <cstdint>
#include <optional>

namespace stagecraft {

enum class PlantedBug : std::uint8_t {
  stage_keeps_inputs,          ///< what had arrived stays when an iteration is begun again
  stage_takes_any_epoch,       ///< tensors of an aborted attempt are used
  stage_trusts_first_state,    ///< a rebuilt stage goes on with its first parameters
  stage_forgets_to_gather,     ///< replicas do not exchange parameters when an iteration is begun again
  link_keeps_slots,            ///< a new attempt goes on with the slots of the one before
  link_counts_credits_twice,   ///< a credit that comes twice counts twice
  reducer_keeps_groups,        ///< what was reduced of an aborted attempt stays
  loader_answers_once,         ///< no tokens for a second attempt
  coordinator_keeps_epoch,     ///< begins again without a new epoch
  coordinator_counts_twice,    ///< a message that comes twice counts as two stages
  coordinator_skips_twins,     ///< commits before the twins hold the gradient
  coordinator_keeps_steps,     ///< goes back to a checkpoint, but not its number of steps
  recovery_trusts_every_twin,  ///< takes it that a twin that was replaced has a state
  twin_misses_moments,         ///< an empty twin takes the parameters alone
  node_forgets_links,          ///< link ends are not told of a new stage
  checkpointer_waits_forever,  ///< loans of an aborted iteration block the next checkpoint
};
inline constexpr std::size_t planted_bugs = std::size_t(PlantedBug::checkpointer_waits_forever) + 1;

#ifdef STAGECRAFT_PLANTED_BUGS
inline thread_local std::optional<PlantedBug> planted_bug;
inline bool planted(PlantedBug bug) { return planted_bug == bug; }
#else
constexpr bool planted(PlantedBug) { return false; }
#endif

}  // namespace stagecraft
