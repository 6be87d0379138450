#include "model/checkpoint/checkpoint.hpp"
#include "model/sha256.hpp"

#include <bit>
#include <cmath>

#include <gtest/gtest.h>

#include "model/checkpoint/hugging_face.hpp"
#include "model/checkpoint/manifest.hpp"
#include "model/digest.hpp"
#include "tests/model/checkpoint_fixture.hpp"
#include "transport/memory_disk.hpp"

namespace stagecraft {
namespace {

using test::error_of;
using test::has;
using test::names_in;
using test::same_state;
using test::SavedJob;
using test::tiny_spec;
using test::value_of;

const std::string folder = "checkpoints/tiny";
const std::string step_50 = folder + "/step-00000050";

TEST(Checkpoint, what_was_saved_is_loaded_bit_for_bit) {
  MemoryDisk disk;
  SavedJob job;
  job.info.optimizer.learning_rate = std::nextafter(0.1, 1);
  job.info.identity.model.rope_theta = 1.0 / 3;
  job.info.identity.seed = ~0ULL;
  job.state[GroupId{0}].parameters[3] = std::bit_cast<float>(0x7fc12345U);  // bits of what is no number
  EXPECT_EQ(job.save(disk, folder), std::nullopt);
  const auto loaded = value_of(job.load(disk, step_50));
  EXPECT_TRUE(same_state(loaded.state, job.state));
  EXPECT_EQ(loaded.info.job, "tiny");
  EXPECT_EQ(loaded.info.iteration, 50u);
  EXPECT_EQ(loaded.info.steps, 49u);
  EXPECT_EQ(loaded.info.tokens, 50'000u);
  EXPECT_EQ(loaded.info.layout, job.info.layout);
  EXPECT_EQ(loaded.info.optimizer.learning_rate, std::nextafter(0.1, 1));
  EXPECT_EQ(loaded.info.identity.model.rope_theta, 1.0 / 3);
  EXPECT_EQ(loaded.info.identity.corpus_sha256, std::string(64, 'a'));
  EXPECT_EQ(differences(loaded.info.identity, job.info.identity), "");
  EXPECT_EQ(names_in(disk, folder), "step-00000050 ");
  EXPECT_EQ(names_in(disk, step_50), "config.json manifest.json model.safetensors optimizer.safetensors ");
}

TEST(Checkpoint, config_json_tells_the_model_that_the_manifest_tells) {
  MemoryDisk disk;
  const SavedJob job;
  ASSERT_EQ(job.save(disk, folder), std::nullopt);
  const ModelSpec model = value_of(parse_config(disk.read(step_50 + "/config.json").value()));
  JobIdentity told = job.info.identity;
  told.model = model;
  EXPECT_EQ(differences(told, job.info.identity), "");
}

// B31. What stages hold are whole groups, so that their number shows in no file; replicas own blocks of the moments.
TEST(Checkpoint, a_checkpoint_from_one_layout_loads_in_another_optimizer_included) {
  for (const bool tied : {false, true}) {
    const SavedJob job(50, 1, tiny_spec(tied));
    std::string files;
    for (const std::uint32_t replicas : {1U, 2U, 3U, 5U, 8U}) {
      MemoryDisk disk;
      ASSERT_EQ(job.save(disk, folder, 3, replicas), std::nullopt);
      const auto loaded = value_of(job.load(disk, step_50));
      EXPECT_TRUE(same_state(loaded.state, job.state)) << replicas << " replicas";
      std::string all;
      for (const auto& [name, content] : disk.files()) all += name + content;
      EXPECT_TRUE(files.empty() || all == files) << replicas << " replicas";
      files = all;
    }
    EXPECT_EQ(has(files, "lm_head.weight"), !tied);
  }
}

TEST(Checkpoint, the_next_step_after_loading_has_the_same_bits_whatever_the_replicas) {
  MemoryDisk disk;
  const SavedJob job;
  ASSERT_EQ(job.save(disk, folder, 3, 4), std::nullopt);
  const auto step = [&](std::map<GroupId, GroupValues> state, std::uint32_t replicas) {
    for (auto& [group, values] : state)
      for (std::uint32_t r = 0; r < replicas; ++r)
        each_owned_block(job.arithmetic, group, {r}, replicas, [&, g = group, &v = values](auto first, auto count) {
          const std::vector<float> gradient(count, 0.5F);
          StepFactors factors;
          factors.learning_rate = 0.01F;
          job.arithmetic.step(g, first, std::span(v.parameters).subspan(first, count),
                              std::span(v.first_moments).subspan(first, count),
                              std::span(v.second_moments).subspan(first, count), gradient, factors);
        });
    return state;
  };
  const auto expected = step(job.state, 4);
  const auto loaded = value_of(job.load(disk, step_50));
  for (const std::uint32_t replicas : {1U, 2U, 8U}) EXPECT_TRUE(same_state(step(loaded.state, replicas), expected));
}

TEST(Checkpoint, an_emulated_job_saves_its_digests_and_no_config) {
  MemoryDisk disk;
  const DigestArithmetic arithmetic(3, true, 1, {}, 1);
  CheckpointInfo info;
  info.identity.emulated = true;
  info.identity.model.layers = 3;
  std::map<GroupId, GroupValues> state;
  StateView view;
  for (const ParameterInfo& p : arithmetic.parameters()) {
    for (auto member : {&GroupValues::parameters, &GroupValues::first_moments, &GroupValues::second_moments}) {
      auto& values = state[p.group].*member;
      for (std::size_t i = 0; i < p.elements(); ++i)
        values.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(keyed(3, p.group.value, i))));
    }
    const GroupValues& g = state[p.group];
    view[p.group] = {{{0, g.parameters}}, {{0, g.first_moments}}, {{0, g.second_moments}}};
  }
  ASSERT_EQ(write_checkpoint(disk, folder, info, arithmetic.parameters(), view, 1), std::nullopt);
  const std::string path = folder + "/step-00000000";
  EXPECT_EQ(names_in(disk, path), "manifest.json model.safetensors optimizer.safetensors ");
  EXPECT_TRUE(same_state(value_of(load_checkpoint(disk, path, arithmetic.parameters())).state, state));
}

TEST(Checkpoint, fragments_that_do_not_cover_a_group_exactly_once_are_refused_before_anything_is_written) {
  MemoryDisk disk;
  const SavedJob job;
  const auto refusal = [&](auto change) {
    StateView view = job.view(2);
    change(view);
    return write_checkpoint(disk, folder, job.info, job.arithmetic.parameters(), view, 3).value_or("accepted");
  };
  EXPECT_TRUE(has(refusal([](StateView& v) { v[GroupId{1}].first_moments.pop_back(); }), "first_moment.group 1"));
  EXPECT_TRUE(has(refusal([](StateView& v) { v[GroupId{1}].second_moments[1].first -= 1; }), "second_moment.group 1"));
  EXPECT_TRUE(has(refusal([](StateView& v) { v[GroupId{0}].parameters.push_back(v[GroupId{0}].parameters[0]); }),
                  "overlap at element 0"));
  EXPECT_TRUE(has(refusal([](StateView& v) { v.erase(GroupId{2}); }), "group 2 end at element 0"));
  EXPECT_TRUE(has(refusal([](StateView& v) { v[GroupId{9}]; }), "group 9 holds no parameter"));
  EXPECT_TRUE(disk.files().empty());
}

TEST(Checkpoint, the_newest_ones_stay_and_strangers_are_left_alone) {
  MemoryDisk disk;
  ASSERT_FALSE(disk.make_directories(folder + "/step-00000001.mine"));
  ASSERT_FALSE(disk.make_directories(folder + "/step-7"));
  ASSERT_FALSE(disk.append(folder + "/step-00000002", "a file"));
  for (const std::uint32_t iteration : {10U, 20U, 30U, 40U}) ASSERT_FALSE(SavedJob(iteration).save(disk, folder, 2));
  EXPECT_EQ(names_in(disk, folder), "step-00000001.mine step-00000002 step-00000030 step-00000040 step-7 ");
}

TEST(Checkpoint, damaged_ones_do_not_count_as_kept) {
  MemoryDisk disk;
  for (const std::uint32_t iteration : {10U, 20U, 30U}) ASSERT_FALSE(SavedJob(iteration).save(disk, folder, 3));
  ASSERT_FALSE(disk.write_whole(folder + "/step-00000030/model.safetensors", ""));
  ASSERT_FALSE(SavedJob(40).save(disk, folder, 2));
  EXPECT_EQ(names_in(disk, folder), "step-00000020 step-00000030 step-00000040 ");
  ASSERT_FALSE(SavedJob(50).save(disk, folder, 2));
  EXPECT_EQ(names_in(disk, folder), "step-00000040 step-00000050 ");
}

TEST(Checkpoint, the_one_just_written_stays_even_if_others_are_newer) {
  MemoryDisk disk;
  for (const std::uint32_t iteration : {30U, 40U, 10U}) ASSERT_FALSE(SavedJob(iteration).save(disk, folder, 1));
  EXPECT_EQ(names_in(disk, folder), "step-00000010 step-00000040 ");
}

TEST(Checkpoint, the_same_step_again_stays_and_another_one_replaces_it) {
  MemoryDisk disk;
  const SavedJob job(50, 1), other(50, 2);
  ASSERT_FALSE(job.save(disk, folder));
  const auto files = disk.files();
  EXPECT_FALSE(job.save(disk, folder));
  EXPECT_EQ(disk.files(), files);
  EXPECT_FALSE(other.save(disk, folder));
  EXPECT_TRUE(same_state(value_of(other.load(disk, step_50)).state, other.state));
  EXPECT_EQ(names_in(disk, folder), "step-00000050 ");
  ASSERT_FALSE(disk.write_whole(step_50 + "/config.json", "{}"));
  EXPECT_FALSE(other.save(disk, folder)) << "a damaged one is replaced too";
  EXPECT_TRUE(same_state(value_of(other.load(disk, step_50)).state, other.state));
}

TEST(Checkpoint, the_list_has_the_newest_first_and_tells_unfinished_ones) {
  MemoryDisk disk;
  EXPECT_TRUE(list_checkpoints(disk, folder).empty());
  for (const std::uint32_t iteration : {10U, 100'000'000U, 20U}) ASSERT_FALSE(SavedJob(iteration).save(disk, folder));
  ASSERT_FALSE(disk.make_directories(folder + "/step-00000020.partial"));
  ASSERT_FALSE(disk.make_directories(folder + "/step-4294967296"));
  std::string told;
  for (const CheckpointEntry& entry : list_checkpoints(disk, folder))
    told += entry.path.substr(folder.size() + 1) + (entry.partial ? "? " : " ");
  EXPECT_EQ(told, "step-100000000 step-00000020 step-00000020.partial? step-00000010 ");
}

TEST(Checkpoint, another_model_is_refused_by_the_name_of_a_tensor) {
  MemoryDisk disk;
  const SavedJob job;
  ASSERT_FALSE(job.save(disk, folder));
  ModelSpec deeper = tiny_spec(), wider = tiny_spec(), tied = tiny_spec(true);
  deeper.layers = 3;
  wider.hidden = 24;
  const auto refusal = [&](const ModelSpec& spec) { return error_of(SavedJob(50, 1, spec).load(disk, step_50)); };
  EXPECT_TRUE(has(refusal(deeper), "'model.layers.2.")) << refusal(deeper);
  EXPECT_TRUE(has(refusal(deeper), "is missing")) << refusal(deeper);
  EXPECT_TRUE(has(refusal(wider), "has shape [16, 8], this model needs [24, 8]")) << refusal(wider);
  EXPECT_TRUE(has(refusal(tied), "'lm_head.weight' of 'checkpoints/tiny/step-00000050' is unknown to this model"));
}

TEST(Checkpoint, every_difference_of_two_jobs_is_told_with_both_values) {
  JobIdentity a = SavedJob().info.identity, b = a;
  EXPECT_EQ(differences(a, b), "");
  b.logical_shards = 8;
  b.model.width = 16;
  b.model.rope_theta = std::nextafter(b.model.rope_theta, 0);
  b.corpus_sha256.clear();
  b.kernels = KernelKind::onednn;
  EXPECT_EQ(differences(a, b),
            "model.width is 8 in the checkpoint, 16 in this job; "
            "model.rope_theta is 10000 in the checkpoint, 9999.999999999998 in this job; "
            "logical_shards is 4 in the checkpoint, 8 in this job; "
            "corpus_sha256 is " +
                std::string(64, 'a') +
                " in the checkpoint, none in this job; "
                "kernels is exact in the checkpoint, onednn in this job");
  a.emulated = b.emulated = true;
  EXPECT_EQ(differences(a, b), "logical_shards is 4 in the checkpoint, 8 in this job");
  b.emulated = false;
  EXPECT_EQ(differences(a, b), "the device kind is emulated in the checkpoint, cpu in this job");
}

TEST(Manifest, only_its_own_bytes_are_accepted) {
  Manifest manifest{SavedJob().info, {{"model.safetensors", 12, std::string(64, 'b')}}};
  manifest.info.job = "with \"quotes\", \xc3\xa9 and \n";
  const std::string text = manifest_text(manifest);
  const Manifest read = value_of(parse_manifest(text));
  EXPECT_EQ(read.info.job, manifest.info.job);
  EXPECT_EQ(manifest_text(read), text);
  for (std::size_t n = 0; n < text.size(); ++n) {
    EXPECT_NE(error_of(parse_manifest(text.substr(0, n))), "no error");
    std::string flipped = text;
    flipped[n] = static_cast<char>(flipped[n] ^ (1 << (n % 8)));
    EXPECT_NE(error_of(parse_manifest(flipped)), "no error") << n;
  }
}

// A manifest whose hash is right although its content is not.
std::string signed_manifest(const std::string& members) {
  const std::string body = "{\n" + members;
  return body + ",\n  \"sha256\": \"" + Sha256().update(body).hex() + "\"\n}\n";
}

TEST(Manifest, a_lie_with_the_right_hash_is_refused_with_its_field) {
  const auto refusal = [](const std::string& members) { return error_of(parse_manifest(signed_manifest(members))); };
  EXPECT_EQ(refusal("no JSON"), "it is no JSON object");
  EXPECT_EQ(refusal(R"("a": 1)"), "'format' is missing");
  EXPECT_EQ(refusal(R"("format": 7)"), "'format' is 7, which makes no sense there");
  EXPECT_EQ(refusal(R"("format": "stagecraft checkpoint", "version": 2)"),
            "it is a 'stagecraft checkpoint' of version 2, expected a 'stagecraft checkpoint' of version 1");
  EXPECT_TRUE(has(refusal("\"a\": " + std::string(100'000, '[')), "it nests 100001 levels deep"));
  const std::string good = manifest_text({SavedJob().info, {}});
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string members = good.substr(2, good.find(",\n  \"sha256\": \"") - 2);
    const std::size_t at = members.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return refusal(members.replace(at, from.size(), to));
  };
  EXPECT_TRUE(has(changed("\"iteration\": 50", "\"iteration\": -1"), "'iteration' is -1"));
  EXPECT_TRUE(has(changed("\"iteration\": 50", "\"iteration\": 4294967296"), "'iteration' is 4294967296"));
  EXPECT_TRUE(has(changed("\"exact\"", "\"fast\""), "'kernels' is \"fast\""));
  EXPECT_TRUE(has(changed("\"model\": {", "\"model\": 5, \"other\": {"), "'model' is no object"));
  EXPECT_TRUE(has(changed("\"tied_embeddings\": false", "\"tied_embeddings\": 0"), "'tied_embeddings' is 0"));
  EXPECT_EQ(changed("\"format\"", "\"x\": 1, \"format\""), "'files' is no list");
}

}  // namespace
}  // namespace stagecraft
