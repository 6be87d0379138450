// A stage's part of a plan as a message, and back. Pure; any thread.
#pragma once

#include "actors/messages.hpp"

namespace stagecraft {

NewPlan to_message(Key key, const StagePlan& plan);
/// The stage's present plan with what the message says instead; a message that makes no sense is a Bug.
StagePlan with(StagePlan present, const NewPlan& message);

}  // namespace stagecraft
