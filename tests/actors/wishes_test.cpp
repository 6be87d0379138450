// Wishes from outside: each is answered once, with what was done or why it was not.
#include <gtest/gtest.h>

#include <map>

#include "actors/running_job.hpp"
#include "actors/save_wishes.hpp"
#include "killer.hpp"

namespace stagecraft::test {
namespace {

using namespace std::chrono_literals;
using Fate = WishAnswer::Fate;

Move layers_to(std::uint32_t begin, std::uint32_t end, std::uint32_t stage) {
  Move move;
  move.layers = {begin, end};
  move.to = {stage};
  return move;
}

struct Asked {
  RunResult result;
  std::map<std::uint32_t, std::vector<WishAnswer>> answers;  // by wish
  std::optional<Ending> end;
};

// `wish` is called once after each iteration.
Asked run_asked(const Topology& topology, const std::function<void(RunningJob&, std::uint32_t iteration)>& wish,
                VirtualRun run = {}, std::vector<Death> deaths = {}) {
  Asked asked;
  std::uint32_t seen = 0;
  run.options.attend = [&](RunningJob& job) {
    for (const WishAnswer& a : job.take_answers()) asked.answers[a.wish.value].push_back(a);
    if (job.end()) asked.end = job.end()->ending;
    if (!job.newest() || job.newest()->iteration.value == seen) return;
    seen = job.newest()->iteration.value;
    wish(job, seen);
  };
  Killer killer{std::move(deaths), {}, 0, {}};
  asked.result = killer.run(topology, run);
  return asked;
}

Topology moving(std::vector<std::string> more = {}) {
  std::vector<std::string> all = {"pipeline.stages=3",        "pipeline.layout=[2, 2, 1]", "job.iterations=12",
                                  "training.micro_batches=4", "recovery.twins=true",       "recovery.attempts=4",
                                  "training.logical_shards=2"};
  all.insert(all.end(), more.begin(), more.end());
  return load(tiny_file(), all);
}

TEST(Wishes, a_move_is_answered_when_it_is_made_and_costs_no_bit) {
  const Topology topology = moving();
  const std::string plain = bits(run_virtual(topology));
  Layout seen;
  const Asked asked = run_asked(topology, [&](RunningJob& job, std::uint32_t iteration) {
    if (iteration == 2) job.move(layers_to(1, 2, 1));
    if (iteration == 10) seen = job.layout();
  });
  ASSERT_TRUE(sound(asked.result)) << asked.result.reason;
  ASSERT_EQ(asked.answers.size(), 1U);
  ASSERT_EQ(asked.answers.at(1).size(), 1U);
  const WishAnswer& answer = asked.answers.at(1).front();
  EXPECT_EQ(answer.fate, Fate::done) << answer.text;
  EXPECT_EQ(answer.layout, (Layout{1, 3, 1}));
  EXPECT_NE(answer.text.find(fmt::format("from iteration {} on", answer.iteration.value)), std::string::npos)
      << answer.text;
  EXPECT_EQ(seen, answer.layout);
  EXPECT_EQ(bits(asked.result), plain);
  EXPECT_EQ(asked.end, Ending::done) << "whoever attends hears of the end";
}

TEST(Wishes, every_wish_has_just_one_answer_whatever_it_is_and_whoever_dies) {
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    VirtualRun run;
    run.seed = seed;
    std::uint32_t wishes = 0;
    const auto wish = [&](RunningJob& job, std::uint32_t iteration) {
      if (iteration > 6) return;
      const std::uint64_t kind = keyed(5, seed, iteration) % 4;
      if (kind == 0) wishes = job.move(layers_to(1, 2, 1)).value;
      if (kind == 1) wishes = job.move(layers_to(0, 5, 2)).value;  // never
      if (kind == 2) wishes = job.keep_checkpoint().value;         // there is no folder
      Move whole;
      whole.layout = keyed(6, seed, iteration) % 2 ? Layout{1, 2, 2} : Layout{2, 2, 1};
      wishes = job.move(whole).value;
    };
    std::vector<Death> deaths;  // in different moments of a move; none in every fourth run
    if (seed % 4 != 0) deaths.push_back({seed % 2 ? stage(1) : twin(2), 1500 + 300 * seed});
    const Asked asked = run_asked(moving({"job.iterations=60"}), wish, run, deaths);
    ASSERT_TRUE(sound(asked.result)) << asked.result.reason;
    ASSERT_EQ(asked.result.losses, deaths.size());
    ASSERT_EQ(asked.answers.size(), wishes) << "seed " << seed;
    for (const auto& [number, answers] : asked.answers) {
      EXPECT_EQ(answers.size(), 1U) << "seed " << seed << ", wish " << number;
      EXPECT_FALSE(answers.front().text.empty());
    }
  }
}

// While the job pauses nothing happens that could call attend: it is asked to go on when it says that it pauses.
TEST(Wishes, a_pause_costs_no_bit_whoever_dies_in_it) {
  const Topology topology = moving();
  const std::string plain = bits(run_virtual(topology));
  for (const bool dies : {false, true}) {
    std::uint32_t pauses = 0;
    VirtualRun run;
    std::optional<WishId> resuming;
    Asked asked;
    std::vector<NodeHandles> nodes;
    run.options.started = [&](const std::vector<NodeHandles>& all) { nodes = all; };
    run.options.attend = [&](RunningJob& job) {
      for (const WishAnswer& a : job.take_answers()) asked.answers[a.wish.value].push_back(a);
      if (job.end()) nodes.clear();
      if (job.paused() && !resuming) {
        if (dies) caf::anon_send_exit(nodes.front().cast->handle_of(stage(1)), caf::exit_reason::kill);
        resuming = job.resume("the test");
      }
      if (!job.newest() || job.newest()->iteration.value != 3 * (pauses + 1) || pauses == 3) return;
      ++pauses;
      job.pause("the test");
      resuming.reset();
    };
    asked.result = run_virtual(topology, run);
    ASSERT_TRUE(sound(asked.result)) << asked.result.reason;
    EXPECT_EQ(bits(asked.result), plain);
    EXPECT_EQ(asked.result.losses, dies ? 3U : 0U);
    ASSERT_EQ(asked.answers.size(), 6U);
    for (const auto& [wish, answers] : asked.answers) {
      ASSERT_EQ(answers.size(), 1U);
      EXPECT_EQ(answers.front().fate, Fate::done) << answers.front().text;
    }
  }
}

TEST(Wishes, questions_are_answered_while_the_job_runs) {
  const Asked asked = run_asked(moving(), [&](RunningJob& job, std::uint32_t iteration) {
    if (iteration == 2) job.ask_plan();
    if (iteration == 3) job.ask_waits();
    if (iteration == 4) job.move(layers_to(1, 2, 1));
    if (iteration == 9) job.ask_events({.wish = {}, .most = 5, .decisions = true});
    if (iteration == 9) job.ask_events({.wish = {}, .most = 7, .of = {{{2}, {0}}}});
    if (iteration == 9) job.ask_plan();
  });
  ASSERT_TRUE(sound(asked.result)) << asked.result.reason;
  ASSERT_EQ(asked.answers.size(), 6U);
  const auto& rows = [&](std::uint32_t wish) -> const std::vector<AnswerRow>& {
    return asked.answers.at(wish).front().rows;
  };
  ASSERT_EQ(rows(1).size(), 3U) << "of each stage";
  EXPECT_NE(rows(1)[2].what.find(": 2F0"), std::string::npos) << rows(1)[2].what;
  ASSERT_EQ(rows(2).size(), 3U);
  for (const AnswerRow& row : rows(2)) EXPECT_FALSE(row.what.empty());
  ASSERT_FALSE(rows(4).empty());
  EXPECT_NE(rows(4).back().what.find("migrated: move 1 is over"), std::string::npos) << rows(4).back().what;
  ASSERT_EQ(rows(5).size(), 7U);
  for (const AnswerRow& row : rows(5)) EXPECT_EQ(row.who, "stage 2 of replica 0");
  EXPECT_EQ(rows(6).size(), 3U);
}

TEST(Wishes, a_move_that_the_end_prevents_is_given_up) {
  const Asked asked = run_asked(moving(), [&](RunningJob& job, std::uint32_t iteration) {
    if (iteration != 2) return;
    job.move(layers_to(1, 2, 1));
    job.stop();
  });
  EXPECT_EQ(asked.end, Ending::stopped);
  for (const auto& [wish, answers] : asked.answers) {
    EXPECT_EQ(answers.front().fate, Fate::given_up) << answers.front().text;
    EXPECT_NE(answers.front().text.find("the job ends"), std::string::npos) << answers.front().text;
  }
}

// Enough for two layers, not for five.
TEST(Wishes, what_does_not_fit_is_refused_with_its_numbers) {
  const Topology topology = moving({"model.hidden=512", "nodes.0.devices.0.memory=2MiB"});
  const Asked asked = run_asked(topology, [&](RunningJob& job, std::uint32_t n) {
    Move all;
    all.layout = {0, 5, 0};
    if (n == 1) job.move(all);
  });
  ASSERT_EQ(asked.answers.size(), 1U);
  EXPECT_EQ(asked.answers.at(1).front().fate, Fate::refused);
  EXPECT_NE(asked.answers.at(1).front().text.find("and its device has 2 MiB"), std::string::npos)
      << asked.answers.at(1).front().text;
}

TEST(Wishes, a_checkpoint_is_answered_when_it_stands) {
  VirtualRun run;
  run.disk = text_disk();
  run.options.checkpoint_folder = "/checkpoints/tiny";
  bool stood = false;
  const Asked asked = run_asked(
      moving(),
      [&](RunningJob& job, std::uint32_t iteration) {
        if (iteration == 3) job.keep_checkpoint();
        if (iteration == 3) job.keep_checkpoint();
        if (iteration == 11) stood = run.disk->list("/checkpoints/tiny").value().size() == 1;
      },
      run);
  ASSERT_TRUE(sound(asked.result)) << asked.result.reason;
  ASSERT_EQ(asked.answers.size(), 2U);
  for (const auto& [wish, answers] : asked.answers) {
    ASSERT_EQ(answers.size(), 1U);
    EXPECT_EQ(answers.front().fate, Fate::done) << answers.front().text;
    EXPECT_EQ(answers.front().iteration, asked.answers.at(1).front().iteration) << "one for both";
    EXPECT_GE(answers.front().iteration, Iteration{3});
  }
  EXPECT_TRUE(stood);
  EXPECT_EQ(asked.result.saved_iteration, asked.answers.at(1).front().iteration.value);
}

TEST(Wishes, for_a_checkpoint_last_until_one_stands) {
  SaveWishes wishes;
  std::map<Key, Instant> saving;
  EXPECT_FALSE(wishes.lacking(saving));
  wishes.add({1});
  EXPECT_TRUE(wishes.lacking(saving));
  wishes.begun({5});
  saving[{{1}, {5}}] = 0s;
  EXPECT_FALSE(wishes.lacking(saving));
  EXPECT_TRUE(wishes.over({{{1}, {4}}, 3, ""}).empty()) << "that one was for somebody else";
  saving.clear();
  EXPECT_TRUE(wishes.lacking(saving)) << "it was dropped, and is wanted again";
  wishes.begun({7});
  wishes.add({2});
  const auto answers = wishes.over({{{2}, {7}}, 6, "the disk is full"});
  ASSERT_EQ(answers.size(), 1U);
  EXPECT_EQ(answers[0].wish, WishId{1});
  EXPECT_EQ(answers[0].fate, Fate::given_up);
  EXPECT_EQ(answers[0].text, "the checkpoint after iteration 6 does not stand: the disk is full");
  EXPECT_TRUE(wishes.lacking(saving));
}

}  // namespace
}  // namespace stagecraft::test
