// What a power cut leaves of a disk in memory, and disks that fail where they are told to.
#include "transport/faulty_disk.hpp"

#include <cerrno>
#include <functional>
#include <set>

#include <gtest/gtest.h>

#include "tests/transport/disk_fixture.hpp"
#include "transport/memory_disk.hpp"

namespace stagecraft {
namespace {

using test::listed;

// A file of which every byte tells whether it was synced.
void write_some(Disk& disk, const std::string& path, const std::string& text, bool finish) {
  auto writer = disk.create(path);
  ASSERT_TRUE(writer);
  ASSERT_FALSE(writer.value()->write(text));
  if (finish) {
    ASSERT_FALSE(writer.value()->finish());
  }
}

TEST(MemoryDisk, a_power_cut_takes_what_was_not_synced) {
  MemoryDisk disk;
  ASSERT_FALSE(disk.make_directories("a/b"));
  ASSERT_FALSE(disk.write_whole("a/whole", "durable"));
  write_some(disk, "a/finished", "durable", true);
  ASSERT_FALSE(disk.sync_folder("a"));
  write_some(disk, "a/nameless", "the name is not synced", true);
  ASSERT_FALSE(disk.append("a/finished", " and lost"));
  ASSERT_FALSE(disk.rename("a/b", "a/c"));
  ASSERT_FALSE(disk.remove("a/whole"));
  EXPECT_EQ(listed(disk, "a"), "c/ finished:16 nameless:22 ");
  disk.power_cut();
  EXPECT_EQ(listed(disk, "a"), "b/ finished:7 whole:7 ");
  EXPECT_EQ(disk.read("a/finished").value(), "durable");
}

TEST(MemoryDisk, a_power_cut_may_leave_a_file_old_empty_torn_zeroed_or_whole) {
  std::set<std::string> found;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    MemoryDisk disk;
    ASSERT_FALSE(disk.write_whole("x", "old"));
    write_some(disk, "x", "new!", false);
    disk.power_cut(seed);
    found.insert(disk.read("x").value());
  }
  for (const std::string& text : {std::string("old"), std::string(), std::string("ne"), std::string("ne\0\0", 4),
                                  std::string(4, '\0'), std::string("new!")})
    EXPECT_TRUE(found.contains(text)) << text;
  EXPECT_EQ(found.size(), 10u) << "old, four beginnings and four with zeros (one is all), one of them empty";
}

TEST(MemoryDisk, a_power_cut_leaves_the_names_as_they_were_after_some_change) {
  std::set<std::string> found;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    MemoryDisk disk;
    ASSERT_FALSE(disk.make_directories("f/one"));
    ASSERT_FALSE(disk.rename("f/one", "f/two"));
    ASSERT_FALSE(disk.remove("f/two"));
    disk.power_cut(seed);
    found.insert(listed(disk, "f"));
  }
  EXPECT_EQ(found, (std::set<std::string>{"one/ ", "two/ ", ""}));
}

TEST(FaultyDisk, a_full_disk_takes_a_part_of_one_operation_and_then_works) {
  MemoryDisk below;
  FaultyDisk disk(below, DiskFault{DiskFault::Kind::no_space, 2, 3});
  EXPECT_FALSE(disk.append("x", "text"));
  EXPECT_EQ(disk.append("y", "text")->code, ENOSPC);
  EXPECT_FALSE(disk.append("z", "text"));
  EXPECT_EQ(listed(disk, "."), "x:4 y:3 z:4 ");
  EXPECT_EQ(disk.operations(), 3u);
  EXPECT_FALSE(disk.crashed());
}

TEST(FaultyDisk, after_a_crash_nothing_works_and_the_disk_below_holds_a_part) {
  MemoryDisk below;
  FaultyDisk disk(below, DiskFault{DiskFault::Kind::crash, 2});
  auto writer = disk.create("x");
  ASSERT_TRUE(writer);
  EXPECT_EQ(writer.value()->write("0123456789")->code, EIO);
  EXPECT_TRUE(disk.crashed());
  EXPECT_EQ(writer.value()->write("more")->code, EIO);
  EXPECT_EQ(writer.value()->finish()->code, EIO);
  EXPECT_EQ(disk.read("x").error().code, EIO);
  EXPECT_EQ(disk.list(".").error().code, EIO);
  EXPECT_EQ(disk.rename("x", "y")->code, EIO);
  EXPECT_EQ(disk.remove("x")->code, EIO);
  EXPECT_EQ(below.read("x").value(), "01234");
  below.power_cut();
  EXPECT_EQ(below.read("x").error().code, ENOENT);
}

TEST(FaultyDisk, every_kind_of_operation_can_fail) {
  const std::vector<std::pair<const char*, std::function<DiskStatus(Disk&)>>> operations{
      {"make_directories", [](Disk& d) { return d.make_directories("new"); }},
      {"append", [](Disk& d) { return d.append("f/x", "more"); }},
      {"write_whole", [](Disk& d) { return d.write_whole("f/x", "new"); }},
      {"create",
       [](Disk& d) -> DiskStatus {
         auto made = d.create("f/new");
         return made ? DiskStatus{} : made.error();
       }},
      {"rename", [](Disk& d) { return d.rename("f/x", "f/y"); }},
      {"remove", [](Disk& d) { return d.remove("f"); }},
      {"sync_folder", [](Disk& d) { return d.sync_folder("f"); }}};
  for (const auto& [name, operate] : operations) {
    for (const auto kind : {DiskFault::Kind::no_space, DiskFault::Kind::crash}) {
      MemoryDisk below;
      ASSERT_FALSE(below.make_directories("f"));
      ASSERT_FALSE(below.write_whole("f/x", "old"));
      ASSERT_FALSE(below.write_whole("f/z", "old"));
      FaultyDisk disk(below, DiskFault{kind, 1});
      const DiskStatus status = operate(disk);
      ASSERT_TRUE(status) << name;
      EXPECT_EQ(status->code, kind == DiskFault::Kind::crash ? EIO : ENOSPC) << name;
      EXPECT_EQ(disk.crashed(), kind == DiskFault::Kind::crash);
      EXPECT_EQ(below.read("f/z").value(), "old") << name;
    }
  }
}

TEST(FaultyDisk, a_flipped_bit_is_told_to_nobody) {
  MemoryDisk below;
  FaultyDisk disk(below, DiskFault{DiskFault::Kind::flip_bit, 2, 1});
  EXPECT_FALSE(disk.append("x", "aaaa"));
  EXPECT_FALSE(disk.append("x", "aaaa"));
  EXPECT_FALSE(disk.append("x", "aaaa"));
  EXPECT_EQ(disk.read("x").value(), "aaaaa`aaaaaa");
}

}  // namespace
}  // namespace stagecraft
