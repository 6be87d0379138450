// How the model of a move goes on from one state: the coordinator's part is MigrationMachine itself and the copies
// follow by Follower, as in the actors; stages and twins are reduced to what they hold.
#pragma once

#include "planning/random.hpp"
#include "tests/planning/migration_model_state.hpp"

namespace stagecraft::migration_model {

class Model {
 public:
  Model(const Case& c, Mistake mistake) : case_(c), mistake_(mistake) {
    shape_.stages = places;
    transfers_ = transfers_between(shape_, c.from, c.to);
  }

  State first() const {
    State s;
    for (std::uint32_t p = 0; p < places; ++p)
      for (std::uint32_t l = 0; l < layers; ++l)
        if (owner(0, l) == p) s.stages[p].held[l] = s.twins[p].held[l] = 0;
    open(s, false);
    return s;
  }

  // Every state that one event leads to.
  std::vector<State> after(const State& s) const {
    std::vector<State> all;
    const auto with = [&](auto change) {
      State next = s;
      change(next);
      settle(next);
      maybe_commit(next);
      drop_dead_mail(next);
      all.push_back(std::move(next));
    };
    for (std::size_t i = 0; i < s.mail.size(); ++i) {
      if (i > 0 && s.mail[i] == s.mail[i - 1]) continue;
      with([&](State& n) {
        const Mail m = n.mail[i];
        n.mail.erase(n.mail.begin() + static_cast<std::ptrdiff_t>(i));
        deliver(n, m);
      });
    }
    if (!s.asked && s.key.iteration.value == 1)
      with([&](State& n) {
        n.asked = true;
        effects(n, step(n, move_event::Begin{{MoveId{1}, transfers_, 1}, n.key}));
      });
    for (std::uint32_t p = 0; p < places; ++p)
      if (takes_part(p) && may_be_ready(s, p)) with([&](State& n) { become_ready(n, p); });
    if (s.machine.under_way() != MoveId{})
      with([&](State& n) {
        effects(n, step(n, move_event::TimeUp{}));
        maybe_commit(n);
      });
    if (case_.deaths != Deaths::none && !s.died && !s.over)
      for (std::uint32_t p = 0; p < places; ++p) {
        if (case_.deaths == Deaths::of_nodes) {
          with([&](State& n) { die(n, true, p, true, twin_of_node(p)); });
        } else {
          with([&](State& n) { die(n, true, p, false, 0); });
          with([&](State& n) { die(n, false, 0, true, p); });
        }
      }
    return all;
  }

  // What is broken in a state; empty: nothing.
  std::string broken(const State& s) const {
    for (std::uint32_t p = 0; p < places; ++p) {
      const ModelStage& stage = s.stages[p];
      const ModelTwin& twin = s.twins[p];
      if (stage.running && !holds_its_share(stage.held, stage.layout, stage.key, p))
        return fmt("stage %u runs iteration %u without what it should hold", p, stage.key.iteration.value);
      if (twin.state >= 0 && !holds_its_share(twin.held, twin.layout, twin.key, p))
        return fmt("the twin of stage %u is in iteration %u without what it should hold", p, twin.key.iteration.value);
      for (const ModelStage& other : s.stages)
        if (stage.running && other.running && other.key.epoch == stage.key.epoch && other.layout != stage.layout)
          return fmt("there are two layouts in epoch %u", stage.key.epoch.value);
    }
    return {};
  }
  // A state after which nothing happens must be the end of the job, everyone in one layout.
  std::string broken_end(const State& s) const {
    if (!s.over) {
      std::string all = "nothing can happen, and the job is not over: " + s.machine.text();
      for (std::uint32_t p = 0; p < places; ++p)
        all += fmt("; stage %u: iteration %u state %d running %d ready %d, twin: iteration %u state %d told %d", p,
                   s.stages[p].key.iteration.value, s.stages[p].state, s.stages[p].running, s.stages[p].ready,
                   s.twins[p].key.iteration.value, s.twins[p].state, s.twins[p].told);
      return all + fmt("; ready %u, twins %u, mail %zu", s.ready, s.twins_ready, s.mail.size());
    }
    for (std::uint32_t p = 0; p < places; ++p)
      if (s.stages[p].layout != s.layout || s.stages[p].state != static_cast<int>(last_iteration))
        return fmt("stage %u ends in layout %u after iteration %d", p, s.stages[p].layout, s.stages[p].state);
    return {};
  }

 private:
  template <class... Args>
  static std::string fmt(const char* format, Args... args) {
    std::array<char, 200> text{};
    std::snprintf(text.data(), text.size(), format, args...);
    return text.data();
  }
  // Exactly the layers of its layout, each as its iteration begins with it: never two owners, never none.
  bool holds_its_share(const std::array<int, layers>& held, std::uint32_t layout, Key key, std::uint32_t p) const {
    for (std::uint32_t l = 0; l < layers; ++l)
      if (held[l] != (owner(layout, l) == p ? std::max(0, static_cast<int>(key.iteration.value) - 1) : nothing))
        return false;
    return true;
  }
  std::uint32_t owner(std::uint32_t layout, std::uint32_t layer) const {
    const Layout& of = layout == 0 ? case_.from : case_.to;
    std::uint32_t end = 0;
    for (std::uint32_t p = 0; p < places; ++p)
      if (layer < (end += of[p])) return p;
    return places;
  }
  // Whoever neither gives nor gets layers does everything at once: the others' delays give every order that matters.
  bool takes_part(std::uint32_t p) const {
    return std::any_of(transfers_.begin(), transfers_.end(),
                       [p](const Transfer& t) { return t.from.value == p || t.to.value == p; });
  }
  std::uint32_t index_of(const MoveLane& lane) const {
    for (std::uint32_t i = 0; i < transfers_.size(); ++i)
      if (transfers_[i] == Transfer{lane.from, lane.to, lane.layers}) return i;
    ADD_FAILURE() << "an unknown lane";
    return 0;
  }
  MoveLane lane(std::uint32_t i) const { return {transfers_[i].from, transfers_[i].to, transfers_[i].layers, {0}}; }
  std::uint32_t source(std::uint32_t i) const { return transfers_[i].from.value; }
  std::uint32_t destination(std::uint32_t i) const { return transfers_[i].to.value; }
  static void send(State& s, Mail m) { s.mail.insert(std::upper_bound(s.mail.begin(), s.mail.end(), m), m); }

  // -- the coordinator
  static std::vector<MoveEffect> step(State& s, const MoveEvent& event) {
    auto all = s.machine.step(event);
    s.machine_text = name_key(s.machine.text());
    return all;
  }
  void open(State& s, bool again) const {
    s.ready = s.twins_ready = 0;
    s.over = s.key.iteration.value > last_iteration;
    const std::uint32_t move = s.machine.under_way().value;
    for (std::uint32_t p = 0; p < places; ++p) {
      const Mail at_once{.kind = Mail::Kind::open_stage, .place = p, .key = s.key, .layout = s.layout, .move = move};
      if (!takes_part(p)) {
        on_open(s.stages[p], at_once);
        on_open(s.twins[p], at_once);
        continue;
      }
      send(s, {.kind = Mail::Kind::open_stage, .place = p, .key = s.key, .layout = s.layout, .move = move});
      send(s, {.kind = Mail::Kind::open_twin, .place = p, .key = s.key, .layout = s.layout, .move = move});
    }
    if (!again && !s.over) effects(s, step(s, move_event::Opened{s.key}));
  }
  void effects(State& s, const std::vector<MoveEffect>& all) const {
    for (const MoveEffect& e : all) {
      if (const auto* lead = std::get_if<move_effect::Lead>(&e)) {
        const std::uint32_t i = index_of(lead->lane);
        send(s, {.kind = Mail::Kind::lead, .place = source(i), .key = lead->key, .move = 1, .lane = i});
      }
      if (const auto* ask = std::get_if<move_effect::AskVote>(&e)) {
        const std::uint32_t i = index_of(ask->lane);
        send(s, {.kind = Mail::Kind::ask_owner, .place = source(i), .key = ask->key, .lane = i});
        send(s, {.kind = Mail::Kind::ask_copy, .place = destination(i), .key = ask->key, .lane = i});
      }
    }
  }
  void maybe_commit(State& s) const {
    constexpr std::uint32_t all = (1U << places) - 1;
    if (s.over || s.ready != all || s.twins_ready != all) return;
    if (s.key.iteration.value >= last_iteration)
      effects(s, step(s, move_event::Disturbed{"the job ends with this iteration"}));
    bool flips = false;
    for (const MoveEffect& e : step(s, move_event::Boundary{})) {
      if (std::holds_alternative<move_effect::Wait>(e) && mistake_ != Mistake::flips_without_waiting) return;
      flips = flips || std::holds_alternative<move_effect::Flip>(e) || std::holds_alternative<move_effect::Wait>(e);
    }
    ++s.key.iteration.value;
    if (flips) {
      ++s.key.epoch.value;
      s.layout = 1;
      s.made = true;
    }
    open(s, flips);
  }
  void replace(State& s, std::uint32_t place, bool stage) const {
    if (mistake_ != Mistake::forgets_to_give_up) effects(s, step(s, move_event::Disturbed{"somebody is lost"}));
    if (stage) {
      s.stages[place] = {};
      s.stages[place].state = nothing;
    } else {
      s.twins[place] = {};
      s.twins[place].state = nothing;
    }
  }
  void begin_again(State& s) const {
    ++s.key.epoch.value;
    open(s, true);
  }
  // The node tells the coordinator of everyone that it lost; what is in their place knows nothing yet.
  void die(State& s, bool stage, std::uint32_t p, bool twin, std::uint32_t q) const {
    s.died = true;
    std::erase_if(s.mail, [&](const Mail& m) {
      using enum Mail::Kind;
      const bool to_stage = m.kind == open_stage || m.kind == ask_owner || m.kind == given;
      const bool to_twin =
          m.kind == open_twin || m.kind == lead || m.kind == state || m.kind == moving_gradient || m.kind == ask_copy;
      return (stage && to_stage && m.place == p) || (twin && to_twin && m.place == q);
    });
    if (stage) s.stages[p].running = false, s.stages[p].state = -2;  // gone
    if (twin) s.twins[q].state = -2;
    send(s, {.kind = Mail::Kind::lost,
             .place = stage ? p : q,
             .key = {},
             .move = static_cast<std::uint32_t>(stage + 2 * twin),
             .lane = q});
  }

  // Mail that whoever gets it would only drop.
  static void drop_dead_mail(State& s) {
    const bool no_move = s.asked && s.machine.under_way() == MoveId{};
    std::erase_if(s.mail, [&](const Mail& m) {
      using enum Mail::Kind;
      if (m.kind == open_stage) return m.key <= s.stages[m.place].key;
      if (m.kind == open_twin) return m.key <= s.twins[m.place].key;
      if (m.kind == ask_owner || m.kind == given)
        return m.key < s.stages[m.place].key || (m.kind == ask_owner && no_move);
      if (m.kind == Mail::Kind::vote) return no_move;
      const bool to_twin = m.kind == lead || m.kind == state || m.kind == moving_gradient || m.kind == ask_copy;
      return to_twin && no_move && (!s.made || s.twins[m.place].layout == s.layout);
    });
  }

  // -- stages and twins
  bool may_be_ready(const State& s, std::uint32_t p) const {
    // A micro-batch passes every stage.
    return s.stages[p].running && !s.stages[p].ready && s.stages[p].key.iteration.value <= last_iteration &&
           std::all_of(s.stages.begin(), s.stages.end(),
                       [&](const ModelStage& x) { return x.running && x.key == s.stages[p].key; });
  }
  // Told at once: that it is told late is the same as that it becomes ready late.
  void become_ready(State& s, std::uint32_t p) const {
    s.stages[p].ready = true;
    if (s.stages[p].key == s.key) s.ready |= 1U << p;
    deliver_gradient(s, p, s.stages[p].key);
  }
  void deliver_gradient(State& s, std::uint32_t p, Key key) const {
    if (key < s.twins[p].key) return;
    s.twins[p].gradients.insert(key);
    for (const std::uint32_t i : s.twins[p].passes) pass(s, i, key);
  }
  void deliver(State& s, const Mail& m) const {
    using enum Mail::Kind;
    switch (m.kind) {
      case open_stage:
        return on_open(s.stages[m.place], m);
      case open_twin:
        return on_open(s.twins[m.place], m);
      case lead: {
        ModelTwin& t = s.twins[m.place];
        t.leads.insert(m.lane);
        t.passes.insert(m.lane);
        for (const Key k : t.gradients)
          if (k >= t.key) pass(s, m.lane, k);
        return;
      }
      case state:
        s.twins[m.place].follows[m.lane].follower.given(Iteration{m.key.iteration.value - 1});
        return;
      case moving_gradient:
        s.twins[m.place].follows[m.lane].follower.has_gradient(m.key.iteration);
        return;
      case ask_owner:
        // Held until its key is open; the owner's layers are what they should be, or broken() has said so.
        if (s.stages[m.place].key > m.key) return;
        if (!s.stages[m.place].running || s.stages[m.place].key != m.key) return send(s, m);
        return send_vote(s, MoveVote::Kind::owner, m.lane, m.key,
                         static_cast<std::uint32_t>(s.stages[m.place].held[transfers_[m.lane].layers.begin]));
      case ask_copy:
        s.twins[m.place].follows[m.lane].asked = true;
        s.twins[m.place].follows[m.lane].asked_for = m.key.iteration;
        return;
      case Mail::Kind::vote:
        effects(s, step(s, MoveVote{m.vote, MoveId{m.move}, m.key, lane(m.lane), m.digest}));
        return maybe_commit(s);
      case given: {
        ModelStage& stage = s.stages[m.place];
        if (m.key < stage.key) return;
        stage.arriving.push_back({m.lane, m.key.iteration, m.digest == 1});
        return send_vote(s, MoveVote::Kind::holds, m.lane, m.key, 0);
      }
      case lost:
        if (m.move & 1) replace(s, m.place, true);
        if (m.move & 2) replace(s, m.lane, false);
        return begin_again(s);
    }
  }
  void send_vote(State& s, MoveVote::Kind kind, std::uint32_t i, Key key, std::uint32_t digest) const {
    send(s, {.kind = Mail::Kind::vote, .place = 0, .key = key, .move = 1, .lane = i, .vote = kind, .digest = digest});
  }
  void pass(State& s, std::uint32_t i, Key key) const {
    send(s, {.kind = Mail::Kind::moving_gradient, .place = destination(i), .key = key, .lane = i});
  }
  void on_open(ModelStage& stage, const Mail& m) const {
    if (m.key <= stage.key || stage.state == -2) return;
    stage.key = m.key;
    stage.running = stage.ready = false;
    const int wanted = static_cast<int>(m.key.iteration.value) - 1;
    if (m.layout == stage.layout)
      std::erase_if(stage.arriving, [&](const Arrived& a) { return a.of < m.key.iteration; });
    if (m.layout != stage.layout) {
      for (std::uint32_t l = 0; l < layers; ++l)
        if (owner(m.layout, l) != m.place) stage.held[l] = nothing;
      for (const Arrived& a : stage.arriving)
        if (stage.state != nothing && a.whole && static_cast<int>(a.of.value) == wanted)
          for (std::uint32_t l = transfers_[a.lane].layers.begin; l < transfers_[a.lane].layers.end; ++l)
            stage.held[l] = wanted - 1;
      stage.arriving.clear();
      stage.layout = m.layout;
    }
    if (stage.state == nothing) return;  // waits for its twin
    if (stage.state != wanted)
      for (int& h : stage.held)
        if (h != nothing) ++h;
    stage.state = wanted;
    stage.running = true;
  }
  void on_open(ModelTwin& twin, const Mail& m) const {
    if (m.key <= twin.key || twin.state == -2) return;
    twin.key = m.key;
    twin.told = false;
    const int wanted = static_cast<int>(m.key.iteration.value) - 1;
    twin.decisions[Iteration{static_cast<std::uint32_t>(wanted)}] = wanted > 0;
    if (m.layout != twin.layout) {
      for (std::uint32_t l = 0; l < layers; ++l)
        if (owner(m.layout, l) != m.place) twin.held[l] = nothing;
      for (auto& [i, f] : twin.follows)
        if (f.follower.can_take_over_after(Iteration{static_cast<std::uint32_t>(wanted)}) && twin.state != nothing)
          for (std::uint32_t l = transfers_[i].layers.begin; l < transfers_[i].layers.end; ++l)
            twin.held[l] = wanted - 1;
      twin.follows.clear();
      twin.leads.clear();
      twin.passes.clear();
      twin.layout = m.layout;
    } else if (m.move == 0) {
      twin.follows.clear();
      twin.leads.clear();
      twin.passes.clear();
    }
    if (twin.state == nothing) return;
    if (twin.state != wanted)
      for (int& h : twin.held)
        if (h != nothing) ++h;
    twin.state = wanted;
    std::erase_if(twin.gradients, [&](Key k) { return k < m.key; });
  }
  // What actors do of themselves, at once: nobody can tell the difference from doing it later but by messages, which
  // are late as they like.
  void settle(State& s) const {
    for (std::uint32_t p = 0; p < places; ++p) {
      ModelStage& stage = s.stages[p];
      ModelTwin& twin = s.twins[p];
      const bool same = stage.key == twin.key && stage.layout == twin.layout && stage.key.epoch.value > 0;
      const int wanted = static_cast<int>(stage.key.iteration.value) - 1;
      if (same && stage.state == nothing && twin.state == wanted) {
        stage.held = twin.held;
        stage.state = twin.state;
        stage.running = true;
      }
      if (same && twin.state == nothing && stage.running) {
        twin.held = stage.held;
        twin.state = stage.state;
      }
      settle_twin(s, p);
    }
    for (std::uint32_t p = 0; p < places; ++p)
      if (!takes_part(p) && may_be_ready(s, p)) {
        become_ready(s, p);
        settle_twin(s, p);
      }
  }
  void settle_twin(State& s, std::uint32_t p) const {
    ModelTwin& t = s.twins[p];
    if (t.key.epoch.value == 0 || t.state + 1 != static_cast<int>(t.key.iteration.value)) return;
    if (!t.told && t.gradients.contains(t.key)) {
      t.told = true;
      if (t.key == s.key) s.twins_ready |= 1U << p;
    }
    for (const std::uint32_t i : std::exchange(t.leads, {}))
      send(s, {.kind = Mail::Kind::state, .place = destination(i), .key = t.key, .lane = i});
    for (auto& [i, f] : t.follows) {
      for (const auto& [iteration, steps] : t.decisions) f.follower.decided(iteration, steps);
      while (const auto replay = f.follower.next()) f.follower.replayed(replay->becomes);
      if (!f.follower.has_caught_up(t.key.iteration)) continue;
      if (!f.told) send_vote(s, MoveVote::Kind::follows, i, t.key, 0);
      f.told = true;
      if (f.asked && f.asked_for == t.key.iteration && !f.voted) {
        f.voted = true;
        send_vote(s, MoveVote::Kind::copy, i, t.key, t.key.iteration.value - 1);
      }
      const bool whole = f.follower.can_take_over_after(t.key.iteration);
      if (f.voted && !f.gave && (whole || mistake_ == Mistake::gives_without_gradient)) {
        f.gave = true;
        Mail given{.kind = Mail::Kind::given, .place = destination(i), .key = t.key, .lane = i};
        given.digest = whole;
        send(s, given);
      }
    }
  }

  Case case_;
  Mistake mistake_;
  PipelineShape shape_;
  std::vector<Transfer> transfers_;
};

}  // namespace stagecraft::migration_model
