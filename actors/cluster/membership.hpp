// Who belongs to a job of several nodes, and who leads it, from the point of view of one of them: what follows when a
// node is lost. Event in, effects out. A pure value; one owner; not thread-safe.
//
// A view is a number, a leader and the members. Numbers only grow. Whoever leads proposes the view without a node that
// it has lost; it is settled when every member that is left has accepted it, and only then does the leader act on it.
// Where the leader is lost, every other member votes for the first one that it still reaches; that one proposes a view
// of its own once more than half of the members vote for it. A leader that reaches fewer than half of the members ends,
// and so do members that no leader can be found for. So two parts of a job that do not reach each other never both go
// on: at most one of them has more than half of the last settled view, or half of it and its leader.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

namespace stagecraft {

struct View {
  std::uint64_t number = 0;
  std::uint32_t leader = 0;
  std::vector<std::uint32_t> members;  ///< in order
  bool operator==(const View&) const = default;
};

namespace membership {
// Events.
struct NodeLost {
  std::uint32_t node = 0;
};
struct Voted {  ///< for this node
  std::uint32_t from = 0;
  View view;  ///< that the voter is in
};
struct Proposed {
  View view;
};
struct Accepted {
  std::uint32_t from = 0;
  std::uint64_t number = 0;
};
struct TimeUp {  ///< of the wait that began with this number
  std::uint64_t wait = 0;
};
using Event = std::variant<NodeLost, Voted, Proposed, Accepted, TimeUp>;

// Effects.
struct Vote {
  std::uint32_t to = 0;
  View view;
};
struct Propose {  ///< to every other member of it: a view of this node's, or one that it has heard of
  View view;
};
struct Accept {  ///< with all that this node knows of the job
  std::uint32_t to = 0;
  std::uint64_t number = 0;
};
/// This node leads; `gone` belong to the job no more. `anew`: another one led before.
struct Settled {
  std::vector<std::uint32_t> gone;
  bool anew = false;
};
struct Follow {  ///< another node leads from now on
  std::uint32_t leader = 0;
};
struct Part {  ///< no member any more: close what leads to it
  std::uint32_t node = 0;
};
struct Wait {  ///< answer with TimeUp after a while
  std::uint64_t wait = 0;
};
struct End {  ///< this node's part of the job is over
  std::string why;
};
using Effect = std::variant<Vote, Propose, Accept, Settled, Follow, Part, Wait, End>;
}  // namespace membership

class Membership {
 public:
  /// At first all `nodes` are members, and node 0 leads. `self`: index of this one.
  Membership(std::uint32_t self, std::uint32_t nodes);

  std::vector<membership::Effect> step(const membership::Event& event);
  const View& view() const { return view_; }
  bool leads() const { return view_.leader == self_; }

 private:
  using Effects = std::vector<membership::Effect>;
  void on(const membership::NodeLost& x, Effects& effects);
  void on(const membership::Voted& x, Effects& effects);
  void on(const membership::Proposed& x, Effects& effects);
  void on(const membership::Accepted& x, Effects& effects);
  void on(const membership::TimeUp& x, Effects& effects);
  void elect(Effects& effects);
  void propose(Effects& effects);
  void settle(Effects& effects);
  bool adopt(const View& view, Effects& effects);
  void wait(Effects& effects);
  void end(std::string why, Effects& effects);
  std::vector<std::uint32_t> left() const;
  std::string count() const;

  std::uint32_t self_;
  View view_;  // the newest that this node has accepted; of its own: settled
  std::set<std::uint32_t> lost_, votes_;
  std::optional<std::uint32_t> voted_for_;
  std::optional<View> proposal_;  // of its own, not settled
  std::uint64_t highest_ = 0;     // number of a view of its own
  std::set<std::uint32_t> accepted_;
  std::optional<std::uint64_t> waiting_;
  std::uint64_t waits_ = 0;
  bool over_ = false;
};

}  // namespace stagecraft
