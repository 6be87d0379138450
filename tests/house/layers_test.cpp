// The rules of the house that a compiler does not check: which room may use which, and how files look. Each check is a
// function from a file to complaints of the form file:line: what; the tests run them over all sources, and on small
// offenders, so that a check that finds nothing is known to be able to.
#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <regex>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

namespace stagecraft {
namespace {

namespace fs = std::filesystem;

// From the ground floor up: a room uses itself and those before it.
constexpr std::array<std::string_view, 7> rooms{"planning", "config", "gpu", "transport", "model", "actors", "tools"};

struct Allowance {
  std::string_view prefix, reason;
};
// Where real time and real chance enter.
constexpr std::array<Allowance, 2> real_time_allowed{{
    {"actors/world/", "the real world is where the outside enters"},
    {"tools/", "commands and benchmarks measure and wait for people"},
}};
// The ground floor does no I/O and has no threads.
constexpr std::array<std::string_view, 12> not_on_the_ground_floor{
    "thread", "mutex",   "condition_variable", "future",   "fstream", "iostream",
    "cstdio", "stdio.h", "filesystem",         "unistd.h", "fcntl.h", "sys/socket.h"};

struct Source {
  std::string path;  // from the root of the sources
  std::vector<std::string> lines;
  bool is_header() const { return path.ends_with(".hpp"); }
  std::string room() const { return path.substr(0, path.find('/')); }
};

using Complaints = std::vector<std::string>;

std::string at(const Source& source, std::size_t line, const std::string& what) {
  return source.path + ":" + std::to_string(line + 1) + ": " + what;
}

std::optional<std::size_t> floor_of(std::string_view room) {
  const auto found = std::find(rooms.begin(), rooms.end(), room);
  if (found == rooms.end()) return std::nullopt;
  return static_cast<std::size_t>(found - rooms.begin());
}

// "<caf/all.hpp" or "\"model/batch.hpp": the opening sign and the name; empty when the line includes nothing.
std::string included(const std::string& line) {
  static const std::regex pattern(R"(^\s*#\s*include\s*([<"][^>"]+))");
  std::smatch match;
  return std::regex_search(line, match, pattern) ? match[1].str() : "";
}

// The line without what follows a //.
std::string code_of(const std::string& line) { return line.substr(0, line.find("//")); }

Complaints check_arrows(const Source& source) {
  Complaints complaints;
  const auto floor = floor_of(source.room());
  for (std::size_t i = 0; i < source.lines.size(); ++i) {
    const std::string name = included(source.lines[i]);
    if (name.empty()) continue;
    const std::string target = name.substr(1);
    if (name[0] == '"' && floor) {
      const auto other = floor_of(target.substr(0, target.find('/')));
      if (!other) {
        complaints.push_back(at(source, i, "\"" + target + "\" is no path from the root of the sources"));
      } else if (*other > *floor) {
        complaints.push_back(at(source, i,
                                source.room() + " may not use " + std::string(rooms[*other]) + " (\"" + target +
                                    "\"): arrows point downwards"));
      }
    }
    if (floor && *floor < *floor_of("actors") && target.starts_with("caf/")) {
      complaints.push_back(at(source, i, source.room() + " knows no actors, but includes <" + target + ">"));
    }
    if (source.room() == "planning" && name[0] == '<' &&
        std::find(not_on_the_ground_floor.begin(), not_on_the_ground_floor.end(), target) !=
            not_on_the_ground_floor.end()) {
      complaints.push_back(at(source, i, "planning has no I/O and no threads, but includes <" + target + ">"));
    }
  }
  return complaints;
}

Complaints check_header(const Source& source) {
  Complaints complaints;
  if (!source.is_header()) return complaints;
  if (source.lines.empty() || !source.lines[0].starts_with("//")) {
    complaints.push_back(at(source, 0, "a header opens with a comment on what it is for and its thread promise"));
  }
  if (std::find(source.lines.begin(), source.lines.end(), "#pragma once") == source.lines.end()) {
    complaints.push_back(at(source, 0, "no #pragma once"));
  }
  return complaints;
}

Complaints check_size(const Source& source) {
  constexpr std::size_t most_lines = 500;
  constexpr std::ptrdiff_t most_columns = 120;
  Complaints complaints;
  if (source.lines.size() > most_lines) {
    complaints.push_back(at(source, most_lines,
                            std::to_string(source.lines.size()) + " lines are more than " + std::to_string(most_lines) +
                                ": this file has more than one purpose"));
  }
  for (std::size_t i = 0; i < source.lines.size(); ++i) {
    const std::string& line = source.lines[i];
    // Bytes that continue a UTF-8 character take no column.
    const auto columns = std::count_if(line.begin(), line.end(), [](char c) { return (c & 0xc0) != 0x80; });
    if (columns > most_columns) {
      complaints.push_back(at(source, i, std::to_string(columns) + " columns are more than 120"));
    }
  }
  return complaints;
}

Complaints check_time_and_chance(const Source& source) {
  static const std::regex forbidden(R"(_clock::now\b|\bsleep_(for|until)\b|\brandom_device\b|\bs?rand\s*\()");
  Complaints complaints;
  if (!floor_of(source.room())) return complaints;
  for (const Allowance& allowance : real_time_allowed) {
    if (source.path.starts_with(allowance.prefix)) return complaints;
  }
  for (std::size_t i = 0; i < source.lines.size(); ++i) {
    std::smatch match;
    const std::string code = code_of(source.lines[i]);
    if (std::regex_search(code, match, forbidden)) {
      complaints.push_back(at(source, i, "no '" + match.str() + "': time and chance come from the world only"));
    }
  }
  return complaints;
}

Complaints check_unfinished(const Source& source) {
  static const std::regex forbidden(std::string("\\b(TO") + "DO|FIX" + "ME|XX" + "X)\\b");
  Complaints complaints;
  for (std::size_t i = 0; i < source.lines.size(); ++i) {
    if (std::regex_search(source.lines[i], forbidden)) complaints.push_back(at(source, i, "unfinished work"));
  }
  return complaints;
}

// The name of the type that this line defines at the margin ("struct Name {", "class Name final : public X {",
// "enum class Name : char {", "using Name = ..."); empty when it defines none.
std::string type_defined(const std::string& line) {
  static const std::regex pattern(
      R"(^(?:(?:struct|class|enum class) (\w+)(?: final)?\s*(?::[^:].*|\{.*)|using (\w+) =.*))");
  std::smatch match;
  return std::regex_match(line, match, pattern) ? match[1].str() + match[2].str() : "";
}

// Types of one namespace that stand in two files: to the linker they are one, and which one's code runs is chance.
class OneDefinition {
 public:
  Complaints check(const Source& source) {
    Complaints complaints;
    std::vector<std::string> open;
    for (std::size_t i = 0; i < source.lines.size(); ++i) {
      const std::string& line = source.lines[i];
      std::smatch match;
      if (std::regex_match(line, match, opens_)) open.push_back(match[1].str());
      if (line.starts_with("}  // namespace") && !open.empty()) open.pop_back();
      const std::string type = type_defined(line);
      // What stands in a namespace without a name is the file's own.
      if (type.empty() || std::find(open.begin(), open.end(), "") != open.end()) continue;
      std::string name;
      for (const std::string& space : open) name += space + "::";
      const auto [first, is_new] = first_.emplace(name + type, source.path);
      if (!is_new && first->second != source.path)
        complaints.push_back(at(source, i, name + type + " is also in " + first->second));
    }
    return complaints;
  }

 private:
  const std::regex opens_{R"(^(?:inline )?namespace ?([\w:]*) ?\{.*)"};
  std::map<std::string, std::string> first_;  // where a name was first seen
};

std::string read(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

Source make_source(std::string path, const std::string& text) {
  Source source{std::move(path), {}};
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) source.lines.push_back(line);
  return source;
}

fs::path root() { return STAGECRAFT_SOURCE_DIR; }

// All sources and headers of the rooms and their tests, sorted.
std::vector<Source> all_sources() {
  std::vector<Source> sources;
  std::vector<std::string_view> folders(rooms.begin(), rooms.end());
  folders.push_back("tests");
  for (std::string_view folder : folders) {
    for (const auto& entry : fs::recursive_directory_iterator(root() / folder)) {
      const std::string extension = entry.path().extension().string();
      if (extension != ".cpp" && extension != ".hpp") continue;
      sources.push_back(make_source(fs::relative(entry.path(), root()).generic_string(), read(entry.path())));
    }
  }
  std::sort(sources.begin(), sources.end(), [](const auto& a, const auto& b) { return a.path < b.path; });
  return sources;
}

void expect_none(Complaints (*check)(const Source&)) {
  for (const Source& source : all_sources()) {
    for (const std::string& complaint : check(source)) ADD_FAILURE() << complaint;
  }
}

// How many complaints a check has about a small file.
std::size_t count(Complaints (*check)(const Source&), const std::string& path, const std::string& text) {
  return check(make_source(path, text)).size();
}

TEST(House, every_room_has_sources_to_check) {
  const auto sources = all_sources();
  for (std::string_view room : rooms) {
    EXPECT_TRUE(std::any_of(sources.begin(), sources.end(), [&](const Source& s) { return s.room() == room; })) << room;
  }
}

TEST(House, include_arrows_point_downwards) { expect_none(check_arrows); }
TEST(House, headers_open_with_their_purpose_and_are_included_once) { expect_none(check_header); }
TEST(House, files_and_lines_keep_to_their_size) { expect_none(check_size); }
TEST(House, time_and_chance_enter_through_the_world_only) { expect_none(check_time_and_chance); }
TEST(House, a_type_is_defined_once) {
  OneDefinition names;
  for (const Source& source : all_sources())
    for (const std::string& complaint : names.check(source)) ADD_FAILURE() << complaint;
}
TEST(House, nothing_is_left_unfinished) { expect_none(check_unfinished); }

TEST(House, an_arrow_that_points_upwards_is_found) {
  EXPECT_EQ(check_arrows(make_source("model/x.cpp", "#include \"planning/ids.hpp\"\n#include \"actors/stage.hpp\"\n")),
            Complaints{"model/x.cpp:2: model may not use actors (\"actors/stage.hpp\"): arrows point downwards"});
  EXPECT_EQ(count(check_arrows, "model/x.cpp", "#include \"model/y.hpp\"\n// #include \"tools/z.hpp\"\n"), 0u);
  EXPECT_EQ(count(check_arrows, "model/x.cpp", "#include \"y.hpp\"\n"), 1u);
  EXPECT_EQ(count(check_arrows, "gpu/x.hpp", "#include <caf/all.hpp>\n"), 1u);
  EXPECT_EQ(count(check_arrows, "actors/x.hpp", "#include <caf/all.hpp>\n#include \"model/y.hpp\"\n"), 0u);
  EXPECT_EQ(count(check_arrows, "planning/x.cpp", "#include <thread>\n#include <vector>\n"), 1u);
  EXPECT_EQ(count(check_arrows, "tests/model/x.cpp", "#include \"actors/stage.hpp\"\n"), 0u);
}

TEST(House, a_careless_file_is_found) {
  EXPECT_EQ(count(check_header, "gpu/x.hpp", "int x;\n"), 2u);
  EXPECT_EQ(count(check_header, "gpu/x.hpp", "// What.\n#pragma once\n"), 0u);
  EXPECT_EQ(count(check_header, "gpu/x.cpp", "int x;\n"), 0u);
  EXPECT_EQ(count(check_size, "gpu/x.cpp", std::string(121, 'a')), 1u);
  EXPECT_EQ(count(check_size, "gpu/x.cpp", std::string(120, 'a')), 0u);
  EXPECT_EQ(count(check_size, "gpu/x.cpp", std::string(501, '\n')), 1u);
  EXPECT_EQ(count(check_unfinished, "gpu/x.cpp", std::string("// TO") + "DO later"), 1u);
}

TEST(House, a_second_type_of_the_same_name_is_found) {
  OneDefinition names;
  EXPECT_TRUE(names.check(make_source("gpu/x.hpp", "namespace a {\nstruct B {\n};\n}  // namespace a\n")).empty());
  EXPECT_TRUE(names.check(make_source("gpu/y.hpp", "namespace c {\nstruct B {\n};\n}  // namespace c\n")).empty());
  EXPECT_TRUE(names
                  .check(make_source("gpu/y.cpp",
                                     "namespace a {\nnamespace {\nstruct B {};\n}  // namespace\n"
                                     "struct B;\n}  // namespace a\n"))
                  .empty());
  EXPECT_EQ(names.check(make_source("model/z.hpp", "namespace a {\nclass B final : public X {\n")),
            Complaints{"model/z.hpp:2: a::B is also in gpu/x.hpp"});
  EXPECT_EQ(names.check(make_source("model/u.hpp", "namespace a {\nusing B = int;\n")).size(), 1u);
}

TEST(House, real_time_and_real_chance_are_found) {
  for (const char* code : {"std::chrono::steady_clock::now()", "auto t = Clock::time_point(system_clock::now());",
                           "std::this_thread::sleep_for(1s);", "std::random_device seed;", "int x = rand();"}) {
    EXPECT_EQ(count(check_time_and_chance, "actors/stage.cpp", code), 1u) << code;
    EXPECT_EQ(count(check_time_and_chance, "actors/world/real.cpp", code), 0u) << code;
    EXPECT_EQ(count(check_time_and_chance, "tests/actors/x.cpp", code), 0u) << code;
  }
  EXPECT_EQ(count(check_time_and_chance, "actors/stage.cpp", "int operand(int); // not rand()"), 0u);
}

TEST(House, every_source_is_compiled) {
  const std::string build = read(root() / "CMakeLists.txt"), tests = read(root() / "tests/CMakeLists.txt");
  std::smatch match;
  ASSERT_TRUE(std::regex_search(tests, match, std::regex(R"(foreach\(room ([^)]*)\))")));
  std::istringstream names(match[1].str());
  const std::vector<std::string> tested{std::istream_iterator<std::string>(names), {}};
  for (const Source& source : all_sources()) {
    if (source.is_header()) continue;
    const std::string folder = fs::path(source.path).parent_path().generic_string();
    if (source.room() == "tests") {
      std::string room = folder.substr(std::min(folder.size(), std::string("tests/").size()));
      room = room.substr(0, room.find('/'));
      // In the list of rooms, or by a line of its own.
      EXPECT_TRUE(std::find(tested.begin(), tested.end(), room) != tested.end() ||
                  tests.find("add_executable(test_" + room) != std::string::npos)
          << source.path << ":1: tests/CMakeLists.txt does not build this folder";
    } else if (source.room() == "tools") {
      EXPECT_TRUE(folder == "tools" || folder == "tools/bench")
          << source.path << ":1: CMakeLists.txt builds tools/*.cpp and tools/bench/*.cpp only";
    } else {
      EXPECT_NE(build.find("stagecraft_room(" + source.room()), std::string::npos)
          << source.path << ":1: CMakeLists.txt does not build this room";
    }
  }
}

}  // namespace
}  // namespace stagecraft
