// What a stage gives its device to do, and what it remembers of it meanwhile. Values; one owner, but for Outcome.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/arena.hpp"
#include "model/exact_sum.hpp"
#include "model/reduction.hpp"
#include "planning/ids.hpp"
#include "planning/migration_machine.hpp"
#include "planning/operator.hpp"
#include "planning/units.hpp"

namespace stagecraft {

/// Work of a stage that is no operator of the schedule.
enum class Service : std::uint8_t { initialise, restore, step, gather, reduce, tie, digest };
inline std::string_view name_of(Service service) {
  static constexpr std::string_view names[] = {"initialise", "restore", "step", "gather", "reduce", "tie", "digest"};
  return names[static_cast<std::size_t>(service)];
}

/// What a body leaves for the owner. Written on the device, read after its completion.
struct Outcome {
  Tensor tensor;
  ExactSum square_sum;
  std::map<GroupId, Tensor> parts;
  std::optional<MoveVote> vote;
};

/// The one thing that runs on the device.
struct RunningOperator {
  std::uint64_t ticket = 0;
  Key key;                     ///< in force when it began
  std::optional<Operator> op;  ///< none: a service
  Service service = Service::initialise;
  GroupId group;
  Instant since{};
  std::shared_ptr<Outcome> outcome = std::make_shared<Outcome>();
};

inline std::string to_text(const RunningOperator& x) { return x.op ? to_text(*x.op) : std::string(name_of(x.service)); }

/// A reduce, tie or digest that waits for a free moment.
struct ServiceRequest {
  Service service = Service::reduce;
  GroupId group;
  std::vector<Segment> segments;
  Tensor partner;
  Instant due{};
  std::vector<GroupId> groups{};   ///< digest: of these
  std::optional<MoveVote> vote{};  ///< that lacks it
};

/// Asks for the digest that an owner's vote lacks.
inline ServiceRequest digest_request(MoveVote vote, std::vector<GroupId> groups, Instant due) {
  ServiceRequest request;
  request.service = Service::digest;
  request.due = due;
  request.groups = std::move(groups);
  request.vote = vote;
  return request;
}

}  // namespace stagecraft
