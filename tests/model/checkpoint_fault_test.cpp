// Full disks, crashes, power cuts, torn and flipped files: what is chosen afterwards, and what is told of the rest.
#include <sys/wait.h>
#include <unistd.h>
#include <csignal>

#include <gtest/gtest.h>

#include "model/checkpoint/checkpoint.hpp"
#include "tests/model/checkpoint_fixture.hpp"
#include "tests/transport/disk_fixture.hpp"
#include "transport/faulty_disk.hpp"
#include "transport/memory_disk.hpp"
#include "transport/real_disk.hpp"

namespace stagecraft {
namespace {

using test::error_of;
using test::has;
using test::names_in;
using test::same_state;
using test::SavedJob;
using test::TemporaryFolder;
using test::value_of;
using Kind = DiskFault::Kind;

const std::string folder = "checkpoints/tiny";
const std::string step_40 = folder + "/step-00000040", step_50 = folder + "/step-00000050";

// How the disk looks when the next process opens it.
enum class After : std::uint8_t { as_is, all_lost, some_lost };

// Two checkpoints, and the third being saved when the fault comes.
class Saving {
 public:
  Saving() : before_(30), last_(40), next_(50), later_(60) {
    MemoryDisk disk;
    prepare(disk);
    prepared_ = disk.files();
  }

  std::uint64_t operations() const {
    MemoryDisk disk;
    copy_to(disk);
    FaultyDisk counting(disk);
    EXPECT_EQ(next_.save(counting, folder, 2), std::nullopt);
    return counting.operations();
  }

  // Whatever the fault: the last checkpoint or the new one is chosen, whole, and the next save goes well.
  void expect_sound_after(const DiskFault& fault, After after, std::uint64_t seed = 0) const {
    MemoryDisk disk;
    copy_to(disk);
    bool saved = false;
    {
      FaultyDisk faulty(disk, fault);
      saved = !next_.save(faulty, folder, 2);
    }
    if (after == After::all_lost) disk.power_cut();
    if (after == After::some_lost) disk.power_cut(seed);
    expect_sound(disk, folder, saved);
  }

  void expect_sound(Disk& disk, const std::string& where, bool saved) const {
    const CheckpointChoice choice = newest_verified(disk, where);
    ASSERT_TRUE(choice.path) << names_in(disk, where);
    const bool is_next = choice.path == where + "/step-00000050";
    EXPECT_TRUE(is_next || choice.path == where + "/step-00000040") << *choice.path;
    EXPECT_TRUE(is_next || !saved) << "a save that went well is durable";
    const SavedJob& expected = is_next ? next_ : last_;
    EXPECT_TRUE(same_state(value_of(expected.load(disk, *choice.path)).state, expected.state));
    // Newer ones that were passed over are named, each with a reason.
    std::size_t newer = 0;
    for (const CheckpointEntry& entry : list_checkpoints(disk, where)) newer += entry.path > *choice.path + ".";
    for (const PassedOver& passed : choice.passed_over) EXPECT_FALSE(passed.why.empty()) << passed.path;
    EXPECT_TRUE(is_next || choice.passed_over.size() == newer) << names_in(disk, where);
    EXPECT_EQ(later_.save(disk, where, 2), std::nullopt);
    EXPECT_EQ(newest_verified(disk, where).path, where + "/step-00000060");
    EXPECT_FALSE(has(names_in(disk, where), ".")) << names_in(disk, where);
  }

  void prepare(Disk& disk, const std::string& where = folder) const {
    ASSERT_EQ(before_.save(disk, where, 2), std::nullopt);
    ASSERT_EQ(last_.save(disk, where, 2), std::nullopt);
  }
  // The same on a fresh disk, faster.
  void copy_to(MemoryDisk& disk) const {
    for (const auto& [path, content] : prepared_) {
      ASSERT_FALSE(disk.make_directories(path.substr(0, path.rfind('/'))));
      ASSERT_FALSE(disk.write_whole(path, content));
    }
  }
  const SavedJob& next() const { return next_; }

 private:
  SavedJob before_, last_, next_, later_;
  std::map<std::string, std::string> prepared_;
};

TEST(CheckpointFaults, a_half_written_checkpoint_is_never_chosen) {
  const Saving saving;
  const std::uint64_t operations = saving.operations();
  EXPECT_GE(operations, 15u) << "a save is many operations, each of which can be the last";
  for (std::uint64_t k = 1; k <= operations; ++k) {
    SCOPED_TRACE("operation " + std::to_string(k));
    for (const Kind kind : {Kind::no_space, Kind::crash}) {
      saving.expect_sound_after({kind, k, 0}, After::as_is);
      saving.expect_sound_after({kind, k}, After::as_is);
      saving.expect_sound_after({kind, k}, After::all_lost);
    }
    saving.expect_sound_after({Kind::crash, k, ~0ULL}, After::as_is);
    for (std::uint64_t seed = 1; seed <= 4; ++seed) saving.expect_sound_after({Kind::crash, k}, After::some_lost, seed);
  }
}

TEST(CheckpointFaults, a_save_torn_at_any_byte_of_any_write_is_passed_over) {
  const Saving saving;
  const std::uint64_t operations = saving.operations();
  for (std::uint64_t k = 1; k <= operations; ++k)
    for (std::uint64_t bytes = 1; bytes < 12'000; bytes = bytes * 5 / 2 + 1)
      saving.expect_sound_after({Kind::crash, k, bytes}, After::as_is);
}

TEST(CheckpointFaults, a_bit_that_flips_on_its_way_to_the_disk_is_noticed_when_it_is_read) {
  const Saving saving;
  std::size_t noticed = 0;
  for (std::uint64_t k = 1; k <= saving.operations(); ++k) {
    MemoryDisk disk;
    saving.copy_to(disk);
    FaultyDisk faulty(disk, DiskFault{Kind::flip_bit, k});
    ASSERT_EQ(saving.next().save(faulty, folder, 3), std::nullopt);
    const CheckpointChoice choice = newest_verified(disk, folder);
    ASSERT_TRUE(choice.path);
    if (choice.path == step_50) continue;  // the operation had no bytes
    EXPECT_EQ(choice.path, step_40);
    ASSERT_EQ(choice.passed_over.size(), 1u);
    EXPECT_EQ(choice.passed_over[0].path, step_50);
    ++noticed;
  }
  EXPECT_EQ(noticed, 4u) << "one for each file";
}

TEST(CheckpointFaults, whatever_stops_a_replacement_one_of_both_is_there) {
  const SavedJob old(50, 1), other(50, 2);
  for (std::uint64_t k = 1;; ++k) {
    for (std::uint64_t seed = 0; seed < 4; ++seed) {
      MemoryDisk disk;
      ASSERT_EQ(old.save(disk, folder), std::nullopt);
      FaultyDisk faulty(disk, DiskFault{Kind::crash, k});
      const bool saved = !other.save(faulty, folder);
      if (!faulty.crashed()) return;
      if (seed > 0) disk.power_cut(seed);
      const CheckpointChoice choice = newest_verified(disk, folder);
      ASSERT_TRUE(choice.path) << k << ": " << names_in(disk, folder);
      const auto state = value_of(old.load(disk, *choice.path)).state;
      EXPECT_TRUE(same_state(state, other.state) || (!saved && same_state(state, old.state))) << k;
      EXPECT_EQ(other.save(disk, folder), std::nullopt);
      EXPECT_EQ(names_in(disk, folder), "step-00000050 ") << k;
      EXPECT_TRUE(same_state(value_of(other.load(disk, step_50)).state, other.state)) << k;
    }
  }
}

// Every 7th byte of the large files, every byte of the small ones; each bit has its turn.
TEST(CheckpointFaults, a_checkpoint_with_a_flipped_bit_is_never_accepted) {
  MemoryDisk disk;
  const SavedJob job(50);
  ASSERT_EQ(job.save(disk, folder), std::nullopt);
  std::size_t flips = 0;
  for (const auto& [path, content] : disk.files()) {
    for (std::size_t i = 0; i < content.size(); i += path.ends_with(".json") ? 1 : 7, ++flips) {
      std::string wrong = content;
      wrong[i] = static_cast<char>(wrong[i] ^ (1 << (i / 7 % 8)));
      ASSERT_FALSE(disk.write_whole(path, wrong));
      EXPECT_NE(error_of(verify_checkpoint(disk, step_50)), "no error") << path << " byte " << i;
    }
    ASSERT_FALSE(disk.write_whole(path, content));
  }
  EXPECT_GT(flips, 3000u);
  EXPECT_EQ(error_of(job.load(disk, step_50)), "no error");
}

// A fresh pair of checkpoints, of which the newer is damaged; what is told of it.
std::string told_after(const std::function<void(Disk&)>& damage) {
  MemoryDisk disk;
  const SavedJob last(40);
  EXPECT_EQ(last.save(disk, folder), std::nullopt);
  EXPECT_EQ(SavedJob(50).save(disk, folder), std::nullopt);
  damage(disk);
  const CheckpointChoice choice = newest_verified(disk, folder);
  EXPECT_EQ(choice.path, step_40);
  EXPECT_EQ(choice.passed_over.size(), 1u);
  EXPECT_TRUE(same_state(value_of(last.load(disk, choice.path.value_or(step_40))).state, last.state));
  if (choice.passed_over.empty()) return "";
  EXPECT_EQ(choice.passed_over[0].path, step_50);
  return choice.passed_over[0].why;
}

TEST(CheckpointFaults, a_damaged_checkpoint_is_passed_over_with_the_reason) {
  const std::string model = step_50 + "/model.safetensors", manifest = step_50 + "/manifest.json";
  EXPECT_TRUE(has(told_after([&](Disk& d) { EXPECT_FALSE(d.remove(manifest)); }), "manifest.json': No such file"));
  EXPECT_TRUE(has(told_after([&](Disk& d) { EXPECT_FALSE(d.write_whole(manifest, "")); }), "only 0 bytes long"));
  EXPECT_TRUE(has(told_after([&](Disk& d) { EXPECT_FALSE(d.remove(model)); }), "model.safetensors': No such file"));
  EXPECT_TRUE(has(told_after([&](Disk& d) { EXPECT_FALSE(d.write_whole(model, "")); }), "holds 0 bytes"));
  EXPECT_TRUE(has(told_after([&](Disk& d) { EXPECT_FALSE(d.append(model, "x")); }), "holds at least"));
  EXPECT_TRUE(has(told_after([&](Disk& d) {
                    std::string text = d.read(model).value();
                    text.back() = static_cast<char>(text.back() ^ 1);
                    EXPECT_FALSE(d.write_whole(model, text));
                  }),
                  "has checksum"));
  EXPECT_TRUE(has(told_after([&](Disk& d) { EXPECT_FALSE(d.remove(step_50 + "/config.json")); }), "config.json"));
  // An index that the manifest does not know would redirect the reader.
  EXPECT_TRUE(has(told_after([&](Disk& d) { EXPECT_FALSE(d.append(model + ".index.json", "{}")); }), "holds both"));
}

TEST(CheckpointFaults, without_any_sound_checkpoint_none_is_chosen) {
  MemoryDisk disk;
  EXPECT_FALSE(newest_verified(disk, folder).path);
  EXPECT_TRUE(newest_verified(disk, folder).passed_over.empty()) << "there is nothing to pass over";
  ASSERT_EQ(SavedJob(50).save(disk, folder), std::nullopt);
  ASSERT_FALSE(disk.make_directories(folder + "/step-00000060.partial"));
  ASSERT_FALSE(disk.make_directories(folder + "/step-00000060"));
  ASSERT_FALSE(disk.remove(step_50 + "/optimizer.safetensors"));
  const CheckpointChoice choice = newest_verified(disk, folder);
  EXPECT_FALSE(choice.path);
  ASSERT_EQ(choice.passed_over.size(), 3u);
  EXPECT_TRUE(has(choice.passed_over[0].why, "manifest.json")) << choice.passed_over[0].why;
  EXPECT_EQ(choice.passed_over[1].path, folder + "/step-00000060.partial");
  EXPECT_EQ(choice.passed_over[1].why, "it was never finished");
  EXPECT_TRUE(has(choice.passed_over[2].why, "optimizer.safetensors")) << choice.passed_over[2].why;
}

TEST(CheckpointFaults, a_folder_that_cannot_be_made_is_an_error_with_its_name) {
  RealDisk disk;
  const auto status = SavedJob(50).save(disk, "/proc/nowhere/tiny");
  ASSERT_TRUE(status);
  EXPECT_TRUE(has(*status, "no checkpoint of iteration 50: cannot make folder '/proc/nowhere/tiny'")) << *status;
  MemoryDisk memory;
  ASSERT_FALSE(memory.append("file", "x"));
  EXPECT_TRUE(has(SavedJob(50).save(memory, "file").value_or(""), "'file'"));
  const CheckpointChoice choice = newest_verified(memory, "file");
  ASSERT_EQ(choice.passed_over.size(), 1u);
  EXPECT_EQ(choice.passed_over[0].path, "file");
}

TEST(CheckpointFaults, a_real_disk_cut_off_at_any_operation_keeps_a_sound_checkpoint) {
  const Saving saving;
  RealDisk disk;
  const std::uint64_t operations = saving.operations();
  for (std::uint64_t k = 1; k <= operations; k += 5) {
    const TemporaryFolder temporary;
    saving.prepare(disk, temporary.path());
    FaultyDisk faulty(disk, DiskFault{Kind::crash, k});
    const bool saved = !saving.next().save(faulty, temporary.path(), 2);
    saving.expect_sound(disk, temporary.path(), saved);
  }
}

TEST(CheckpointFaults, a_killed_process_leaves_a_sound_checkpoint) {
  const TemporaryFolder temporary;
  RealDisk disk;
  ASSERT_EQ(SavedJob(1).save(disk, temporary.path(), 2), std::nullopt);
  std::uint32_t newest = 1;
  for (int round = 0; round < 5; ++round) {
    const pid_t child = fork();
    if (child == 0) {
      for (std::uint32_t i = newest + 1; i < newest + 1000; ++i) SavedJob(i).save(disk, temporary.path(), 2);
      ::_exit(0);
    }
    ::usleep(static_cast<useconds_t>(15'000 + 3'500 * round));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    const CheckpointChoice choice = newest_verified(disk, temporary.path());
    ASSERT_TRUE(choice.path) << names_in(disk, temporary.path());
    const CheckpointInfo info = value_of(read_manifest(disk, *choice.path));
    EXPECT_GE(info.iteration, newest);
    newest = info.iteration;
    const SavedJob expected(newest);
    EXPECT_TRUE(same_state(value_of(expected.load(disk, *choice.path)).state, expected.state));
  }
}

}  // namespace
}  // namespace stagecraft
