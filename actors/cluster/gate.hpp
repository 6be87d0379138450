// The gate: the one actor of a node through which its actors and those of other nodes talk.
//
// Who knocks: the stand-ins of this node's cast (what is to leave), the gates of other nodes (what arrives), whoever
// spawns the cast (who lives here), the thread that starts and ends the job. What it does: lets nodes in and finds them
// (start_up_machine.hpp), agrees with the others on who is left and who leads (membership.hpp), carries small messages
// as envelopes and those with tensors over the lanes to that node, hands what arrives to whoever has the name, says
// when a node is gone (the leader's gate also gives up one of two that no longer reach each other). What it owns: the
// routes to the others. What it never does: look into a message, wait, decide that the job is over. Order: between two
// nodes small messages keep theirs, those of one lane keep theirs, and one with tensors never overtakes a small one
// that was sent before it. A small one may overtake: data messages carry their key.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "actors/caf.hpp"
#include "actors/cluster/homes.hpp"
#include "actors/cluster/membership.hpp"
#include "actors/cluster/start_up_machine.hpp"
#include "actors/doors.hpp"

namespace stagecraft {

/// Where messages for one actor of this node go in: decodes them and sends them.
class Doorway {
 public:
  virtual ~Doorway() = default;
  /// `type`: the number of the message in the actor's door. Throws WireError.
  virtual void deliver(std::uint8_t type, const char* bytes, std::size_t size, std::vector<Tensor> payloads) = 0;
};

/// Which way a message with tensors goes.
enum class BulkLane : std::uint8_t {
  urgent,  ///< what the next operator of a stage waits for
  state,   ///< gradients and copies of states
};

/// A message in its wire form.
struct Outgoing {  ///< stand-in -> gate
  ActorName to;
  std::uint8_t type = 0;
  std::vector<char> bytes;
  std::vector<Tensor> payloads;
  BulkLane lane = BulkLane::state;
};
struct Hosted {  ///< whoever spawns -> gate: this one lives here
  ActorName who;
  std::shared_ptr<Doorway> door;
};
/// gate -> gate: a message without tensors. The bytes are one string, which CAF copies at once.
struct Envelope {
  enum class Kind : std::uint8_t {
    message,
    hello,
    refused,
    sheet,
    greeting,
    meshed,
    begin,
    rehomed,
    minutes,
    vote,
    view,
    accept,
    finish,
    unreachable,
    beat
  } kind = Kind::message;
  std::uint32_t from = 0;    ///< index of the node
  std::uint64_t number = 0;  ///< of a message: counts those between two nodes; unreachable: the node that is
  std::string bytes;
};
STAGECRAFT_WIRE(Envelope, x.kind, x.from, x.number, x.bytes)
/// lane -> gate: one with tensors.
struct BulkArrived {
  std::uint32_t from = 0;
  std::vector<char> header;
  std::vector<Tensor> payloads;
};

/// What gates send each other.
using PeerDoor = Door<Envelope>;

/// The first node -> all others: spawn your part and run.
struct BeginJob {
  Instant now{};  ///< by the first node's clock, which all go by
  StartPoint start;
  bool checkpoints = false;  ///< the job keeps them
  bool resumes = false;      ///< the state to begin with comes with the first Open
  std::string folder;        ///< of the run, for logs and the record; empty: none is kept
};
STAGECRAFT_WIRE(StartPoint, x.iteration, x.steps, x.tokens)
STAGECRAFT_WIRE(BeginJob, x.now, x.start, x.checkpoints, x.resumes, x.folder)
/// The first node -> all others: it is over.
struct FinishJob {
  Ending ending = Ending::done;
  std::string reason;
};
STAGECRAFT_WIRE(FinishJob, x.ending, x.reason)

struct Connected {  ///< the starting thread -> gate: that node's gate is reached
  std::uint32_t node = 0;
  PeerDoor door;
};
struct LanesAreUp {  ///< lanes -> gate
  std::uint32_t node = 0;
};
struct NodeLost {  ///< lanes -> gate
  std::uint32_t node = 0;
  std::string why;
};
struct WaitOver {  ///< timer -> gate: the members of the job should have agreed by now
  std::uint64_t wait = 0;
};
STAGECRAFT_WIRE(View, x.number, x.leader, x.members)
STAGECRAFT_WIRE(WaitOver, x.wait)
struct Beat {};    ///< a gate -> itself: time to say something to the others, and to see who does not
struct Settle {};  ///< the leader's gate -> itself: who of those that do not reach each other has to go

/// Takes what has tensors to another node's gate, in order per lane. Called by the gate alone; never blocks.
class BulkRoute {
 public:
  virtual ~BulkRoute() = default;
  virtual void send(BulkLane lane, std::vector<char> header, std::vector<Tensor> payloads) = 0;
  virtual LaneAddresses addresses() const { return {}; }
  virtual void connect(const LaneAddresses& to) { (void)to; }
};

struct GatePeer {
  PeerDoor door;
  std::shared_ptr<BulkRoute> route;
};
struct Served {  ///< whoever spawns -> gate: whom to tell of lost nodes and new homes
  NodeActor node;
};
struct GateWiring {  ///< in one process: the others are there
  std::map<std::uint32_t, GatePeer> peers;
};

using GateActor = Door<GateWiring, Served, Hosted, Outgoing, Envelope, BulkArrived, Connected, LanesAreUp, NodeLost,
                       Beat, Settle, Hello, BeginJob, Minutes, Account, WaitOver, Rehomed, FinishJob>;

/// What a gate tells the thread that starts and ends a job. Any thread; `news` is called after each change.
class GateNews {
 public:
  struct Board {
    std::vector<start_up::Reach> to_reach;  ///< taken away by whoever reads
    std::vector<std::string> refusals;      ///< so are these: nodes that were not let in, and why
    bool ready = false;                     ///< every node reaches every other one
    std::string waits_for;                  ///< until then
    std::optional<std::string> refused;     ///< by the first node
    std::optional<BeginJob> begin;
    std::optional<FinishJob> finish;
    std::uint32_t leader = 0;                         ///< node that leads the job
    std::optional<Succession> succession;             ///< taken away: this node is to lead from now on
    std::optional<std::string> over;                  ///< the job ends here, and why: this node belongs to no majority
    std::map<std::uint32_t, std::string> lost;        ///< nodes, and why
    std::vector<std::shared_ptr<BulkRoute>> retired;  ///< taken away: their end may take a moment
  };
  explicit GateNews(std::function<void()> news) : news_(std::move(news)) {}
  Board read();
  template <class Change>
  void change(Change change) {
    {
      const std::lock_guard guard(mutex_);
      change(board_);
    }
    news_();
  }

 private:
  std::function<void()> news_;
  std::mutex mutex_;
  Board board_;
};

struct GateOptions {
  const Topology* topology = nullptr;  ///< outlives the gate
  std::uint32_t index = 0;             ///< of this node in the file
  std::optional<StartUpMachine> start_up;
  std::shared_ptr<GateNews> news;
  /// Makes this end's lanes to a node. Throws std::runtime_error.
  std::function<std::shared_ptr<BulkRoute>(GateActor, std::uint32_t node, const std::string& secret)> make_route;
};

GateActor spawn_gate(caf::actor_system& system, GateOptions options);

}  // namespace stagecraft

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(stagecraft::Outgoing)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(stagecraft::Hosted)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(stagecraft::BulkArrived)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(stagecraft::GateWiring)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(stagecraft::Served)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(stagecraft::Connected)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(stagecraft::LanesAreUp)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(stagecraft::NodeLost)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(stagecraft::Beat)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(stagecraft::Settle)
