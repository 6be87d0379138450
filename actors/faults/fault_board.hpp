// Which faults are in force, and what they do to messages, links, devices and disks. The seams of the world ask it; the
// injector switches it. Without a scenario there is none, and nobody asks.
//
// Thread promise: any thread. Chance only from the seed; in the real world the order of draws depends on threads.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "actors/faults/injector_machine.hpp"
#include "config/scenario.hpp"
#include "gpu/stream.hpp"
#include "planning/random.hpp"
#include "transport/channel.hpp"
#include "transport/faulty_disk.hpp"

namespace stagecraft {

/// A fault struck, or healed.
struct FaultMoment {
  std::size_t fault = 0;
  bool on = true;
  Instant at{};
  Iteration iteration;  ///< the newest that had opened
};

/// What becomes of an operator's completion.
struct DeviceVerdict {
  Duration extra{};   ///< it takes so much longer
  bool held = false;  ///< `again` will be called when the device goes on
  bool out_of_memory = false;
  bool not_a_number = false;
};

class FaultBoard {
 public:
  using Again = std::function<void()>;

  FaultBoard(const Scenario& scenario, const Topology& topology, std::uint64_t seed);
  ~FaultBoard();
  FaultBoard(const FaultBoard&) = delete;
  FaultBoard& operator=(const FaultBoard&) = delete;

  /// Those that were added stand last. Only whoever adds may look while the run goes on.
  const Scenario& scenario() const { return scenario_; }
  std::uint64_t seed() const { return seed_; }

  // -- what the run tells
  /// Where happenings go; from then on. Once.
  void listen(std::function<void(Happened)> ear);
  /// Costs one look when nobody wants this event.
  void tell(const Happened& what) {
    if ((wanted_.load(std::memory_order_acquire) >> static_cast<unsigned>(what.event) & 1) != 0) ear_(what);
  }

  // -- switches
  /// One fault more, which strikes when it is told to: its index.
  std::size_t add(const FaultSpec& fault);
  /// What was held goes on when its last holder has healed.
  void strike(std::size_t fault);
  void heal(std::size_t fault);
  /// The end of the run: what is held is dropped, what would be held is lost, and nothing goes on any more, so that no
  /// handle of an actor outlives its system. Waits for what is going on just now.
  void close();
  /// Everything that was switched, for whoever judges the run.
  void note(FaultMoment moment);
  std::vector<FaultMoment> moments() const;
  std::vector<FaultSpec> faults() const;
  /// The disk that disk faults strike; outlives the board.
  void use(FaultyDisk& disk) { disk_ = &disk; }

  // -- control messages
  /// An actor works for a stage, where that lives, or for all of them, on the first node.
  void place(std::uint64_t actor, std::optional<Place> place);
  /// How late each copy of a message is to be; empty: it is lost.
  std::vector<Duration> copies(std::uint64_t from, std::uint64_t to);
  /// True when nothing passes between the two; `again` is kept until something does.
  bool holds(std::uint64_t from, std::uint64_t to, Again again);

  /// Some control message may come late or never: what it would have brought back is no leak.
  bool loses_messages() const;

  // -- links
  /// What one direction of a link is like. Owned by the board; one per call.
  LinkWeather& weather(StageId from, StageId to, Direction direction, ReplicaId replica);

  // -- devices
  /// Asked once for each completion of an operator (`has_output`: it gives a tensor that goes on).
  DeviceVerdict judge(Place place, const Completion& completion, bool has_output, Again again);
  /// The stage has another device, on this node: what has befallen the one before does not concern it. Who works for it
  /// goes with it.
  void moved(Place place, std::uint32_t node);
  /// How far the clock is off that a place stamps its events with.
  Duration skew(Place place) const;

 private:
  class Weather;
  using Lock = std::lock_guard<std::mutex>;

  const FaultSpec& spec(std::size_t fault) const { return scenario_.faults[fault]; }
  bool concerns(const FaultSpec& fault, const std::optional<Place>& place) const;
  bool strikes_device(std::uint32_t fault, Place place) const;
  bool cuts(const FaultSpec& fault, std::uint32_t one, std::uint32_t other) const;
  std::uint32_t node_of(const std::optional<Place>& place) const;
  DiskFault disk_fault(const FaultSpec& fault) const;
  void hold(std::size_t fault, Again again);

  Scenario scenario_;  // after the constructor only its faults change, under the mutex
  const Topology topology_;
  const std::uint64_t seed_;
  std::function<void(Happened)> ear_;
  std::atomic<std::uint32_t> wanted_ = 0;
  FaultyDisk* disk_ = nullptr;

  std::mutex going_on_;  // held while what was held goes on; before `mutex_`
  bool closed_ = false;
  mutable std::mutex mutex_;
  std::vector<std::uint32_t> active_;                                // in the order of striking
  std::vector<std::uint32_t> once_;                                  // struck, and not yet taken by an operator
  std::unordered_map<std::uint64_t, std::optional<Place>> parties_;  // for which stage each actor works
  std::map<Place, std::uint32_t> moved_;                             // stages: to which node
  std::map<std::size_t, std::vector<Again>> held_;                   // by the fault that holds
  std::vector<std::unique_ptr<Weather>> weathers_;
  std::vector<Entropy> draws_;  // of each fault
  std::vector<FaultMoment> moments_;
  std::vector<std::pair<std::uint32_t, Place>> left_behind_;  // faults of devices, and who got away from them
};

}  // namespace stagecraft
