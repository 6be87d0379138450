// Who waits for whom: the table by which a job that stands still explains itself. Pure; any thread.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "actors/messages.hpp"

namespace stagecraft {

struct WaitChain {
  std::string text;  ///< who comes first, and how many wait for that one
  /// Of every place, the first cause first, and whoever waits for it right behind it.
  std::vector<AnswerRow> rows;
};

/// `answers`: to Explain; a place without one does not answer, which is a cause too.
WaitChain wait_chain(const std::vector<Place>& places, const std::map<Place, Explanation>& answers);

}  // namespace stagecraft
