#include "model/checkpoint/reshard.hpp"

#include <gtest/gtest.h>

#include "model/checkpoint/tensor_files.hpp"
#include "tests/model/checkpoint_fixture.hpp"
#include "transport/faulty_disk.hpp"
#include "transport/memory_disk.hpp"

namespace stagecraft {
namespace {

using test::error_of;
using test::has;
using test::names_in;
using test::same_state;
using test::SavedJob;
using test::value_of;

const std::string source = "checkpoints/tiny/step-00000050";

class Reshard : public testing::Test {
 protected:
  Reshard() { EXPECT_EQ(job.save(disk, "checkpoints/tiny"), std::nullopt); }

  Resharded reshard(const std::string& from, const std::string& to, const Split& split) {
    return value_of(reshard_checkpoint(disk, from, to, split));
  }
  std::string refusal(const std::string& from, const std::string& to, const Split& split) {
    return error_of(reshard_checkpoint(disk, from, to, split));
  }
  std::map<std::string, std::string> files_under(const std::string& folder) const {
    std::map<std::string, std::string> files;
    for (const auto& [path, content] : disk.files())
      if (path.starts_with(folder + "/")) files[path.substr(folder.size())] = content;
    return files;
  }

  MemoryDisk disk;
  SavedJob job;
};

TEST_F(Reshard, a_split_checkpoint_verifies_and_loads_with_the_same_bits) {
  const auto before = files_under(source);
  const Resharded resharded = reshard(source, "split", FileCount{3});
  EXPECT_EQ(resharded.model_files, 3u);
  EXPECT_EQ(resharded.optimizer_files, 3u);
  EXPECT_EQ(names_in(disk, "split"),
            "config.json manifest.json model-00001-of-00003.safetensors model-00002-of-00003.safetensors "
            "model-00003-of-00003.safetensors model.safetensors.index.json optimizer-00001-of-00003.safetensors "
            "optimizer-00002-of-00003.safetensors optimizer-00003-of-00003.safetensors "
            "optimizer.safetensors.index.json ");
  EXPECT_TRUE(same_state(value_of(job.load(disk, "split")).state, job.state));
  EXPECT_EQ(files_under(source), before) << "the source is untouched";
}

TEST_F(Reshard, files_put_together_again_are_the_same_bytes_as_before) {
  for (const std::uint32_t files : {2U, 5U, 21U}) {
    const std::string split = "split-" + std::to_string(files);
    EXPECT_EQ(reshard(source, split, FileCount{files}).model_files, files);
    EXPECT_EQ(reshard(split, split + "-one", FileCount{1}).model_files, 1u);
    EXPECT_EQ(files_under(split + "-one"), files_under(source));
  }
}

TEST_F(Reshard, a_size_limit_bounds_every_file_but_for_single_tensors) {
  const std::uint64_t largest = 19 * 8 * sizeof(float);
  for (const std::uint64_t limit : {std::uint64_t{1}, std::uint64_t{600}, largest, std::uint64_t{2000}}) {
    const std::string to = "limit-" + std::to_string(limit);
    EXPECT_GT(reshard(source, to, Bytes{limit}).model_files, 1u);
    const TensorFiles tensors = value_of(TensorFiles::open(disk, to, "model"));
    std::map<std::string, std::pair<std::uint64_t, std::size_t>> in_file;
    for (const auto& [name, tensor] : tensors.tensors()) {
      in_file[tensor.file].first += tensor.entry.bytes;
      in_file[tensor.file].second += 1;
    }
    for (const auto& [file, content] : in_file) EXPECT_TRUE(content.first <= limit || content.second == 1) << file;
    EXPECT_TRUE(same_state(value_of(job.load(disk, to)).state, job.state));
  }
  EXPECT_EQ(reshard(source, "all", Bytes{1 << 20}).model_files, 1u);
}

TEST_F(Reshard, files_of_a_count_are_about_even) {
  reshard(source, "even", FileCount{4});
  std::uint64_t total = 0, most = 0;
  for (const DiskEntry& entry : disk.list("even").value()) {
    if (!entry.name.starts_with("model-")) continue;
    total += entry.bytes;
    most = std::max(most, entry.bytes);
  }
  EXPECT_LT(static_cast<double>(most), 0.4 * static_cast<double>(total));
}

TEST_F(Reshard, what_cannot_be_done_is_refused_and_leaves_nothing) {
  const auto before = disk.files();
  EXPECT_TRUE(has(refusal(source, "x", FileCount{22}), "22 files for the 21 tensors of the model: give 1 to 21"));
  EXPECT_TRUE(has(refusal(source, "x", FileCount{0}), "0 files"));
  EXPECT_TRUE(has(refusal("checkpoints/tiny", "x", FileCount{2}), "manifest.json"));
  EXPECT_TRUE(has(refusal(source, "checkpoints/tiny", FileCount{2}), "something is there already"));
  EXPECT_EQ(disk.files(), before);
  for (std::uint64_t k = 1;; ++k) {
    FaultyDisk faulty(disk, DiskFault{DiskFault::Kind::no_space, k});
    const auto result = reshard_checkpoint(faulty, source, "to", FileCount{2});
    if (std::holds_alternative<Resharded>(result)) break;
    const bool is_there = static_cast<bool>(disk.list("to"));  // the last sync may fail when all is there
    EXPECT_TRUE(disk.files() == before || (is_there && error_of(job.load(disk, "to")) == "no error")) << k;
    ASSERT_FALSE(disk.remove("to"));
  }
  EXPECT_TRUE(same_state(value_of(job.load(disk, "to")).state, job.state));
}

TEST_F(Reshard, a_split_checkpoint_with_a_lost_or_swapped_file_is_not_accepted) {
  reshard(source, "split", FileCount{3});
  const auto files = files_under("split");
  for (const auto& [name, content] : files) {
    ASSERT_FALSE(disk.remove("split" + name));
    EXPECT_NE(error_of(verify_checkpoint(disk, "split")), "no error") << name;
    ASSERT_FALSE(disk.write_whole("split" + name, files.at("/model-00001-of-00003.safetensors")));
    EXPECT_EQ(error_of(verify_checkpoint(disk, "split")) == "no error", name == "/model-00001-of-00003.safetensors");
    ASSERT_FALSE(disk.write_whole("split" + name, content));
  }
  EXPECT_EQ(error_of(verify_checkpoint(disk, "split")), "no error");
}

}  // namespace
}  // namespace stagecraft
