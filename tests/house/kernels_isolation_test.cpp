// Code compiled for AVX2 or AVX-512 must not leak: a weak symbol of such an object (an inline function, a template of
// the standard library) could be the copy that the linker keeps for everybody, and an older CPU would meet it anywhere.
#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

namespace stagecraft {
namespace {

namespace fs = std::filesystem;

struct Symbol {
  char kind;  // as nm prints it: capital letters are seen by other files
  std::string name;
};

// Standard output of a command; none when it fails.
std::optional<std::string> output_of(const std::string& command) {
  FILE* pipe = ::popen((command + " 2>/dev/null").c_str(), "r");
  if (pipe == nullptr) return std::nullopt;
  std::string text;
  std::array<char, 4096> piece{};
  while (const std::size_t n = std::fread(piece.data(), 1, piece.size(), pipe)) text.append(piece.data(), n);
  if (::pclose(pipe) != 0) return std::nullopt;
  return text;
}

// Lines of `nm --format=posix --defined-only`: name, kind, address, size.
std::vector<Symbol> parse(const std::string& text) {
  std::vector<Symbol> symbols;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string name, kind;
    if (words >> name >> kind && kind.size() == 1) symbols.push_back({kind[0], name});
  }
  return symbols;
}

// Weak functions, weak objects and unique ones: what the linker merges across files.
bool is_shared(const Symbol& s) {
  constexpr std::string_view kinds = "WwVvu";
  return kinds.find(s.kind) != kinds.npos;
}

// What sanitizers add to an object, the same in all: hooks, and a pointer to the handler of exceptions. No code of
// ours.
bool of_a_sanitizer(const Symbol& s) {
  constexpr std::array<std::string_view, 4> pieces{"sanitizer", "asan", "tsan", "DW.ref.__gxx_personality_v0"};
  return std::any_of(pieces.begin(), pieces.end(),
                     [&](std::string_view piece) { return s.name.find(piece) != std::string::npos; });
}

// Where the build put the objects of the model: the tests run from the root of the build folder.
fs::path objects() {
  std::error_code error;
  return fs::read_symlink("/proc/self/exe", error).parent_path() / "CMakeFiles/stagecraft_model.dir/model";
}

std::optional<std::vector<Symbol>> symbols_of(const fs::path& object) {
  const auto text = output_of("nm --format=posix --defined-only '" + object.string() + "'");
  if (!text) return std::nullopt;
  return parse(*text);
}

#define SKIP_WITHOUT(object)                                                                \
  if (!output_of("nm --version")) GTEST_SKIP() << "nm is not installed (package binutils)"; \
  if (!fs::exists(object)) GTEST_SKIP() << (object).string() << " is not built in this build tree"

class KernelsIsolation : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(House, KernelsIsolation, testing::Values("avx2", "avx512"),
                         [](const auto& value) { return value.param; });

TEST_P(KernelsIsolation, kernels_export_their_table_and_nothing_that_others_could_share) {
  const fs::path object = objects() / ("kernels/kernels_" + GetParam() + ".cpp.o");
  SKIP_WITHOUT(object);
  const auto symbols = symbols_of(object);
  ASSERT_TRUE(symbols) << "nm can't read " << object;
  std::vector<std::string> exported;
  for (const Symbol& s : *symbols) {
    if (of_a_sanitizer(s)) continue;
    EXPECT_FALSE(is_shared(s)) << s.kind << " " << s.name;
    if (s.kind == 'T') exported.push_back(s.name);
  }
  ASSERT_EQ(exported.size(), 1U);
  EXPECT_NE(exported[0].find(GetParam() + "_kernels"), std::string::npos) << exported[0];
}

TEST(KernelsIsolationCheck, an_object_that_shares_symbols_would_be_noticed) {
  const fs::path object = objects() / "llama.cpp.o";  // uses the standard library as anyone does
  SKIP_WITHOUT(object);
  const auto symbols = symbols_of(object);
  ASSERT_TRUE(symbols) << "nm can't read " << object;
  EXPECT_TRUE(std::any_of(symbols->begin(), symbols->end(), is_shared));
  const auto parsed = parse("_ZSt3maxv W 0000 0010\n_Z3foov T 0 4\n_Z3barv t 0 4\n\n");
  ASSERT_EQ(parsed.size(), 3U);
  EXPECT_TRUE(is_shared(parsed[0]));
  EXPECT_FALSE(is_shared(parsed[1]) || is_shared(parsed[2]));
}

}  // namespace
}  // namespace stagecraft
