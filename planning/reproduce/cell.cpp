#include "planning/reproduce/cell.hpp"

namespace stagecraft::reproduce {

std::string_view name_of(System system) {
  switch (system) {
    case System::one_f_one_b:
      return "1f1b";
    case System::zero_bubble:
      return "zero-bubble";
    case System::delegated:
      return "delegated";
    case System::pipemorph:
      return "pipemorph";
    case System::readiness:
      return "readiness";
    case System::follow:
      return "follow";
    case System::ours:
      return "ours";
    case System::hindsight:
      return "hindsight";
  }
  return {};
}

std::string_view name_of(Injection injection) {
  switch (injection) {
    case Injection::none:
      return "none";
    case Injection::occupancy:
      return "occupancy";
    case Injection::latency:
      return "latency";
  }
  return {};
}

std::string_view name_of(Memory memory) { return memory == Memory::equal ? "equal" : "free"; }

std::string_view name_of(Unit unit) {
  switch (unit) {
    case Unit::milliseconds:
      return "ms";
    case Unit::percent:
      return "%";
    case Unit::iterations_per_minute:
      return "it/min";
  }
  return {};
}

}  // namespace stagecraft::reproduce
