#include "transport/disk.hpp"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <functional>

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "tests/transport/disk_fixture.hpp"
#include "transport/memory_disk.hpp"
#include "transport/real_disk.hpp"

namespace stagecraft {
namespace {

namespace fs = std::filesystem;
using test::listed;
using test::TemporaryFolder;

struct Kind {
  const char* name;
  std::function<std::unique_ptr<Disk>()> make;
};

// What both disks promise alike.
class AnyDisk : public testing::TestWithParam<Kind> {
 protected:
  AnyDisk() : disk(GetParam().make()) { EXPECT_FALSE(disk->make_directories(folder.path())); }
  TemporaryFolder folder;
  std::unique_ptr<Disk> disk;
};

INSTANTIATE_TEST_SUITE_P(
    Disks, AnyDisk,
    testing::Values(Kind{"real", [] { return std::make_unique<RealDisk>(); }},
                    Kind{"memory", [] { return std::make_unique<MemoryDisk>(); }},
                    Kind{"overlay", [] { return std::make_unique<MemoryDisk>(std::make_shared<RealDisk>()); }}),
    [](const auto& instance) { return std::string(instance.param.name); });

TEST_P(AnyDisk, what_was_written_is_read_back_byte_for_byte) {
  const std::string text("a\0b\r\n\xff%", 7);
  ASSERT_FALSE(disk->write_whole(folder / "x", text));
  ASSERT_FALSE(disk->append(folder / "x", "more"));
  auto read = disk->read(folder / "x");
  ASSERT_TRUE(read) << read.error().text();
  EXPECT_EQ(read.value(), text + "more");
  ASSERT_FALSE(disk->write_whole(folder / "x", ""));
  EXPECT_EQ(disk->read(folder / "x").value(), "");
}

TEST_P(AnyDisk, append_makes_the_file_and_adds_to_its_end) {
  ASSERT_FALSE(disk->append(folder / "log", "one\n"));
  ASSERT_FALSE(disk->append(folder / "log", "two\n"));
  EXPECT_EQ(disk->read(folder / "log").value(), "one\ntwo\n");
}

TEST_P(AnyDisk, glob_gives_files_sorted_by_bytes_and_no_folders) {
  ASSERT_FALSE(disk->make_directories(folder / "sub/deep"));
  for (const char* name : {"b", "a10", "a2", "B", ".hidden", "sub/inside"})
    ASSERT_FALSE(disk->append(folder / name, "x"));
  EXPECT_EQ(disk->glob(folder / "*"), (std::vector{folder / "B", folder / "a10", folder / "a2", folder / "b"}));
  EXPECT_EQ(disk->glob(folder / "a?"), std::vector{folder / "a2"});
  EXPECT_EQ(disk->glob(folder / "[bB]"), (std::vector{folder / "B", folder / "b"}));
  EXPECT_EQ(disk->glob(folder / "*/*"), std::vector{folder / "sub/inside"});
  EXPECT_EQ(disk->glob(folder / "a2"), std::vector{folder / "a2"});
  EXPECT_TRUE(disk->glob(folder / "none*").empty());
}

TEST_P(AnyDisk, a_missing_file_is_an_error_with_path_reason_and_advice) {
  const auto read = disk->read(folder / "none");
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code, ENOENT);
  EXPECT_EQ(read.error().text(), "cannot read '" + (folder / "none") +
                                     "': No such file or directory; check the spelling, and that the folder is there");
}

TEST_P(AnyDisk, a_folder_is_not_read_or_written_as_a_file) {
  ASSERT_FALSE(disk->make_directories(folder / "sub"));
  EXPECT_EQ(disk->read(folder / "sub").error().code, EISDIR);
  EXPECT_EQ(disk->append(folder / "sub", "x")->code, EISDIR);
  EXPECT_EQ(disk->write_whole(folder / "sub", "x")->code, EISDIR);
}

TEST_P(AnyDisk, a_folder_must_be_made_before_a_file_is_written_in_it) {
  EXPECT_EQ(disk->append(folder / "sub/x", "x")->code, ENOENT);
  EXPECT_EQ(disk->write_whole(folder / "sub/x", "x")->code, ENOENT);
  ASSERT_FALSE(disk->make_directories(folder / "sub"));
  EXPECT_FALSE(disk->make_directories(folder / "sub")) << "twice is fine";
  EXPECT_FALSE(disk->append(folder / "sub/x", "x"));
}

TEST_P(AnyDisk, a_file_stays_where_a_folder_is_wanted) {
  ASSERT_FALSE(disk->append(folder / "x", "text"));
  EXPECT_TRUE(disk->make_directories(folder / "x"));
  EXPECT_TRUE(disk->make_directories(folder / "x/y"));
  EXPECT_TRUE(disk->append(folder / "x/y", "text"));
  EXPECT_EQ(disk->read(folder / "x").value(), "text");
}

TEST_P(AnyDisk, a_file_written_piece_by_piece_is_whole_when_it_is_finished) {
  ASSERT_FALSE(disk->append(folder / "x", "what was there"));
  {
    auto writer = disk->create(folder / "x");
    ASSERT_TRUE(writer) << writer.error().text();
    EXPECT_FALSE(writer.value()->write("one "));
    EXPECT_FALSE(writer.value()->write(""));
    EXPECT_FALSE(writer.value()->write("two"));
    EXPECT_FALSE(writer.value()->finish());
  }
  EXPECT_EQ(disk->read(folder / "x").value(), "one two");
  EXPECT_EQ(disk->create(folder / "none/x").error().code, ENOENT);
  EXPECT_EQ(disk->create(folder.path()).error().code, EISDIR);
}

TEST_P(AnyDisk, a_part_of_a_file_is_read_and_its_end_is_told) {
  ASSERT_FALSE(disk->append(folder / "x", "0123456789"));
  std::array<char, 4> part{};
  const auto read = [&](std::uint64_t offset) {
    const auto got = disk->read_at(folder / "x", offset, part);
    return got ? std::string(part.data(), got.value()) : got.error().text();
  };
  EXPECT_EQ(read(0), "0123");
  EXPECT_EQ(read(5), "5678");
  EXPECT_EQ(read(8), "89");
  EXPECT_EQ(read(10), "");
  EXPECT_EQ(read(std::uint64_t{1} << 60U), "");
  EXPECT_EQ(disk->read_at(folder / "none", 0, part).error().code, ENOENT);
  EXPECT_EQ(disk->read_at(folder.path(), 0, part).error().code, EISDIR);
}

TEST_P(AnyDisk, a_folder_is_listed_with_kinds_and_sizes) {
  ASSERT_FALSE(disk->make_directories(folder / "b/deep"));
  for (const char* name : {"c", "a", ".hidden", "b/inside"}) ASSERT_FALSE(disk->append(folder / name, "text"));
  EXPECT_EQ(listed(*disk, folder.path()), ".hidden:4 a:4 b/ c:4 ");
  EXPECT_EQ(listed(*disk, folder / "b/deep"), "");
  EXPECT_EQ(disk->list(folder / "none").error().code, ENOENT);
  EXPECT_EQ(disk->list(folder / "a").error().code, ENOTDIR);
}

TEST_P(AnyDisk, a_rename_moves_a_folder_with_what_it_holds_and_never_onto_something) {
  ASSERT_FALSE(disk->make_directories(folder / "a/sub"));
  ASSERT_FALSE(disk->make_directories(folder / "empty"));
  ASSERT_FALSE(disk->append(folder / "a/sub/x", "text"));
  ASSERT_FALSE(disk->append(folder / "file", "text"));
  EXPECT_EQ(disk->rename(folder / "a", folder / "empty")->code, EEXIST);
  EXPECT_EQ(disk->rename(folder / "file", folder / "a/sub/x")->code, EEXIST);
  EXPECT_EQ(disk->rename(folder / "none", folder / "b")->code, ENOENT);
  EXPECT_EQ(disk->rename(folder / "file", folder / "none/b")->code, ENOENT);
  EXPECT_EQ(disk->rename(folder / "a", folder / "a/sub/a")->code, EINVAL);
  ASSERT_FALSE(disk->rename(folder / "a", folder / "b"));
  EXPECT_EQ(disk->read(folder / "b/sub/x").value(), "text");
  EXPECT_EQ(disk->read(folder / "a/sub/x").error().code, ENOENT);
  ASSERT_FALSE(disk->rename(folder / "b/sub", folder / "c"));
  EXPECT_FALSE(disk->sync_folder(folder.path()));
  EXPECT_EQ(listed(*disk, folder.path()), "b/ c/ empty/ file:4 ");
  EXPECT_EQ(disk->rename(folder / "c", folder / "file")->text().find("cannot rename '" + (folder / "c") + "': '"), 0u);
}

TEST_P(AnyDisk, what_is_removed_is_gone_with_all_it_held) {
  ASSERT_FALSE(disk->make_directories(folder / "a/sub"));
  ASSERT_FALSE(disk->append(folder / "a/sub/x", "text"));
  ASSERT_FALSE(disk->append(folder / "file", "text"));
  ASSERT_FALSE(disk->remove(folder / "a"));
  ASSERT_FALSE(disk->remove(folder / "file"));
  EXPECT_FALSE(disk->remove(folder / "none")) << "it is fine if nothing is there";
  EXPECT_EQ(listed(*disk, folder.path()), "");
  ASSERT_FALSE(disk->make_directories(folder / "a"));
  EXPECT_EQ(listed(*disk, folder / "a"), "") << "a new folder of that name is empty";
  EXPECT_EQ(disk->sync_folder(folder / "none")->code, ENOENT);
}

TEST(RealDisk, a_link_to_a_folder_is_removed_and_the_folder_is_not) {
  TemporaryFolder folder;
  RealDisk disk;
  ASSERT_FALSE(disk.make_directories(folder / "held/a"));
  ASSERT_FALSE(disk.make_directories(folder / "elsewhere"));
  ASSERT_FALSE(disk.append(folder / "elsewhere/x", "text"));
  fs::create_directory_symlink(folder / "elsewhere", folder / "held/link");
  ASSERT_FALSE(disk.remove(folder / "held"));
  EXPECT_EQ(disk.read(folder / "elsewhere/x").value(), "text");
}

TEST(RealDisk, a_device_or_a_pipe_is_never_replaced_by_a_file) {
  RealDisk disk;
  const auto status = disk.write_whole("/dev/null", "text");
  ASSERT_TRUE(status);
  EXPECT_NE(status->text().find("/dev/null"), std::string::npos);
  struct stat there = {};
  ASSERT_EQ(stat("/dev/null", &there), 0);
  EXPECT_TRUE(S_ISCHR(there.st_mode));
}

TEST(RealDisk, a_full_disk_is_an_error_value) {
  RealDisk disk;
  const auto status = disk.append("/dev/full", "text");
  ASSERT_TRUE(status);
  EXPECT_EQ(status->code, ENOSPC);
  EXPECT_NE(status->text().find("append to '/dev/full': No space left on device; free some space"), std::string::npos)
      << status->text();
}

TEST(RealDisk, an_unreadable_file_is_an_error_value) {
  RealDisk disk;
  EXPECT_EQ(disk.read("/proc/self/mem").error().code, EIO) << "opens, but its first page is not there";
  if (::geteuid() == 0) return;  // who may read everything
  TemporaryFolder folder;
  ASSERT_FALSE(disk.append(folder / "secret", "text"));
  fs::permissions(folder / "secret", fs::perms::none);
  EXPECT_EQ(disk.read(folder / "secret").error().code, EACCES);
}

TEST(RealDisk, a_failed_write_leaves_the_old_content_and_no_litter) {
  TemporaryFolder folder;
  RealDisk disk;
  ASSERT_FALSE(disk.append(folder / "x", "old"));
  // A folder where the temporary file should be makes the write fail.
  ASSERT_FALSE(disk.make_directories(folder / "x.partial"));
  EXPECT_TRUE(disk.write_whole(folder / "x", "new"));
  EXPECT_EQ(disk.read(folder / "x").value(), "old");
  fs::remove(folder / "x.partial");
  ASSERT_FALSE(disk.write_whole(folder / "x", "new"));
  EXPECT_EQ(disk.glob(folder / "*"), std::vector{folder / "x"});
  EXPECT_EQ(disk.read(folder / "x").value(), "new");
}

TEST(RealDisk, files_without_a_size_are_read_to_their_end) {
  RealDisk disk;
  const auto read = disk.read("/proc/self/status");
  ASSERT_TRUE(read) << read.error().text();
  EXPECT_NE(read.value().find("Name:"), std::string::npos);
}

TEST(MemoryDisk, an_overlay_reads_the_disk_below_and_never_writes_it) {
  TemporaryFolder folder;
  RealDisk real;
  ASSERT_FALSE(real.append(folder / "a", "below "));
  ASSERT_FALSE(real.append(folder / "b", "below"));
  MemoryDisk overlay(std::make_shared<RealDisk>());
  ASSERT_FALSE(overlay.append(folder / "a", "above"));
  ASSERT_FALSE(overlay.append(folder / "c", "above"));
  EXPECT_EQ(overlay.read(folder / "a").value(), "below above");
  EXPECT_EQ(overlay.read(folder / "b").value(), "below");
  EXPECT_EQ(overlay.glob(folder / "*"), (std::vector{folder / "a", folder / "b", folder / "c"}));
  EXPECT_EQ(real.read(folder / "a").value(), "below ");
  EXPECT_EQ(real.glob(folder / "*"), (std::vector{folder / "a", folder / "b"}));
  EXPECT_EQ(overlay.files().size(), 2u);
}

TEST(MemoryDisk, two_spellings_of_a_path_are_one_file) {
  MemoryDisk disk;
  ASSERT_FALSE(disk.make_directories("runs/./one/"));
  ASSERT_FALSE(disk.append("./runs//one/log", "x"));
  EXPECT_EQ(disk.read("runs/one/log").value(), "x");
  EXPECT_EQ(disk.glob("./runs/*/log"), std::vector<std::string>{"runs/one/log"});
}

TEST(MemoryDisk, an_overlay_moves_and_removes_what_is_below_without_touching_it) {
  TemporaryFolder folder;
  RealDisk real;
  ASSERT_FALSE(real.make_directories(folder / "a/sub"));
  ASSERT_FALSE(real.append(folder / "a/sub/x", "below"));
  ASSERT_FALSE(real.append(folder / "a/y", "below"));
  MemoryDisk overlay(std::make_shared<RealDisk>());
  ASSERT_FALSE(overlay.append(folder / "a/sub/z", "above"));
  EXPECT_EQ(listed(overlay, folder / "a/sub"), "x:5 z:5 ");
  ASSERT_FALSE(overlay.rename(folder / "a", folder / "b"));
  EXPECT_EQ(overlay.read(folder / "b/sub/x").value(), "below");
  EXPECT_EQ(overlay.read(folder / "b/sub/z").value(), "above");
  EXPECT_EQ(listed(overlay, folder.path()), "b/ ");
  EXPECT_TRUE(overlay.glob(folder / "a/*").empty());
  ASSERT_FALSE(overlay.make_directories(folder / "a/sub"));
  EXPECT_EQ(listed(overlay, folder / "a/sub"), "") << "what was moved away does not come back";
  ASSERT_FALSE(overlay.remove(folder / "b/y"));
  EXPECT_EQ(listed(overlay, folder / "b"), "sub/ ");
  EXPECT_EQ(listed(real, folder / "a"), "sub/ y:5 ");
}

}  // namespace
}  // namespace stagecraft
