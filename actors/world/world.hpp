// Everything through which the outside enters: clock, scheduler, entropy, disk, executor (streams), transport
// (channels), completions, and drive(). Two kinds: the real one, and the virtual one that replays from a seed.
//
// Actors see the outside through this door only, so the same actors run in both.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "actors/caf.hpp"
#include "actors/faults/fault_board.hpp"
#include "actors/wire/archive.hpp"
#include "config/topology.hpp"
#include "gpu/stream.hpp"
#include "planning/random.hpp"
#include "transport/channel.hpp"
#include "transport/disk.hpp"

namespace stagecraft {

class World : public Clock {
 public:
  virtual caf::actor_system& system() = 0;
  virtual bool is_virtual() const = 0;

  /// A named generator. In the virtual world it hangs on the world's seed; in the real one nothing may depend on it.
  virtual Entropy entropy(std::string_view name) const = 0;

  /// A stream on a device of this kind. The world owns it, and the completions, until `close_streams`.
  virtual Stream& open_stream(DeviceKind kind, const std::string& name, std::unique_ptr<Completions> completions) = 0;
  /// The same for work that may wait and block: files.
  virtual Stream& open_background_stream(const std::string& name, std::unique_ptr<Completions> completions) = 0;
  /// Ends all streams; waits for bodies in flight. From the thread that owns the world, when all actors have ended.
  virtual void close_streams() = 0;

  /// CPU time that the bodies of all streams took so far; zero where costs are charged instead. Any thread.
  virtual Duration computed() const = 0;
  /// From the thread of a stream that has just reported: runs actors on it until none has mail, or it is wanted back.
  virtual void help_actors(const std::function<bool()>& wanted_back) = 0;

  /// One direction between two ends. `crosses_nodes`: the ends are on different nodes.
  virtual std::unique_ptr<Channel> open_channel(const LinkCost& cost, bool crosses_nodes, Arrivals& arrivals,
                                                LinkWeather* weather) = 0;

  /// Reads may block: from the main thread only.
  virtual Disk& disk() = 0;
  /// Appends to a file without blocking the caller, in order. One actor per world. False when the backlog is full and
  /// the text was dropped.
  virtual bool log(const std::string& path, std::string text) = 0;
  /// Waits until everything that was logged is on disk, or has failed: the first error, if any. Main thread only.
  virtual DiskStatus flush_logs() = 0;

  /// Calls `then` when all that happens at this instant has happened (virtual only).
  virtual void when_quiet(std::function<void()> then) = 0;

  /// How late a message between actors is to be made (tests of reordering; virtual only).
  virtual Duration lateness() = 0;
  /// For branches that are right and seldom taken: true now and then, at sites that the seed has switched on (virtual
  /// worlds that look for faults only).
  virtual bool rarely(std::string_view site) = 0;
  /// Do messages between nodes go through their wire form?
  virtual bool serialises() const = 0;

  /// Calendar time, in seconds since 1970; for comparing with other machines and with certificates.
  virtual std::int64_t calendar_s() const = 0;
  /// From now on the clock goes on from `now` (real only): all processes of a job go by that of its first node.
  virtual void set_clock(Instant now) = 0;

  /// Runs the world on this thread until `done` returns true; it is asked after every news(), and at least every 50 ms.
  /// Returns false when nothing can happen any more (virtual only).
  virtual bool drive(const std::function<bool()>& done) = 0;
  /// Something that `done` looks at has changed. Any thread.
  virtual void news() = 0;

  /// The faults that are injected; none: a world that works. Set before anyone is spawned.
  FaultBoard* faults() const { return faults_.get(); }
  void inject(std::shared_ptr<FaultBoard> faults) { faults_ = std::move(faults); }
  /// Tells the injector, where there is one.
  void tell(const Happened& what) const {
    if (faults_) faults_->tell(what);
  }

 private:
  std::shared_ptr<FaultBoard> faults_;
};

/// Sends where faults may strike: nothing passes a partition until it heals, control messages (those with a wire form)
/// may be lost, doubled and late.
template <class Self, class To, class Message>
void post_through(FaultBoard& faults, Self* self, const To& to, Message message) {
  const std::uint64_t receiver = caf::actor_cast<caf::actor_control_block*>(to)->id();
  if (faults.holds(self->id(), receiver, [to, message] { tell_from_outside(to, Message(message)); })) return;
  if constexpr (has_wire_form<Message>) {
    for (const Duration late : faults.copies(self->id(), receiver)) {
      if (late.count() > 0) {
        tell_after(self, late, to, Message(message));
      } else {
        tell(self, to, Message(message));
      }
    }
  } else {
    tell(self, to, std::move(message));
  }
}

/// Sends between actors: late and through the wire form where the world says so.
template <class Self, class To, class Message>
void post(Self* self, World& world, const To& to, Message message) {
  if constexpr (has_wire_form<Message>) {
    if (world.serialises()) message = from_bytes<Message>(to_bytes(message));
  }
  if (world.faults()) return post_through(*world.faults(), self, to, std::move(message));
  if (const Duration late = world.lateness(); late.count() > 0) {
    tell_after(self, late, to, std::move(message));
  } else {
    tell(self, to, std::move(message));
  }
}

/// What a process needs to talk to others of its job.
struct NetworkOptions {
  std::string authority, certificate, key;  ///< PEM files; empty: no TLS, which is for loopback alone
  Duration silence{};                       ///< after which another process counts as lost
};
/// `network`: none: the process talks to no other.
std::unique_ptr<World> make_real_world(std::size_t worker_threads, const NetworkOptions* network = nullptr);

struct VirtualOptions {
  std::uint64_t seed = 1;
  Duration lateness{};     ///< every message between actors comes up to this much late, and may overtake
  bool serialise = false;  ///< control messages go through their wire form
  /// Called before each message that an actor handles, with how many there have been. For whoever wants to strike at
  /// any moment.
  std::function<void(std::uint64_t)> before_step{};
  bool rare_branches = false;        ///< World::rarely may say yes
  std::shared_ptr<Disk> log_disk{};  ///< where logs go; none: to the disk
};
/// `disk` is the one of the simulated node; it outlives the world, as a disk outlives a crash.
std::unique_ptr<World> make_virtual_world(const VirtualOptions& options, std::shared_ptr<Disk> disk);

}  // namespace stagecraft
