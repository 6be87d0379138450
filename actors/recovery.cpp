#include "actors/recovery.hpp"

#include <fmt/format.h>

#include "actors/faults/planted.hpp"

namespace stagecraft {

std::string to_text(const Member& member) {
  return fmt::format("{} {} of replica {}", member.role == Member::Role::twin ? "the twin of stage" : "stage",
                     member.place.stage.value, member.place.replica.value);
}

Recovery::Recovery(const std::vector<Place>& places, bool twins, std::uint32_t attempts)
    : places_(places), twins_(twins), attempts_(attempts) {
  if (twins) followers_.insert(places.begin(), places.end());
}

void Recovery::lost(const Member& who, const std::string& why) {
  missing_.insert(who);
  losses_.push_back(fmt::format("{} ({})", to_text(who), why));
  if (who.role == Member::Role::stage) {
    stateless_.insert(who.place);
  } else {
    followers_.erase(who.place);
  }
  const bool follows = followers_.contains(who.place) || (twins_ && planted(PlantedBug::recovery_trusts_every_twin));
  if (stateless_.contains(who.place) && !follows) needs_checkpoint_ = true;
}

void Recovery::inherit(const std::vector<Place>& followers, const std::vector<Place>& stateless, bool all) {
  followers_ = {followers.begin(), followers.end()};
  stateless_ = {stateless.begin(), stateless.end()};
  needs_checkpoint_ = all;
}

void Recovery::replaced(const Member& who) { missing_.erase(who); }

void Recovery::restored() {
  needs_checkpoint_ = false;
  stateless_.clear();
  if (twins_) followers_.insert(places_.begin(), places_.end());
}

void Recovery::committed() {
  again_ = 0;
  losses_.clear();
}

std::string Recovery::history() const { return fmt::format("{}", fmt::join(losses_, ", ")); }

}  // namespace stagecraft
