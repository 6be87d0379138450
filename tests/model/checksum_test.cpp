#include "model/checksum.hpp"

#include <gtest/gtest.h>

namespace stagecraft {
namespace {

// What `xxhsum -H2` prints of an empty file and of the three letters.
TEST(Checksum, is_that_of_other_programs) {
  EXPECT_EQ(Checksum().hex(), "99aa06d3014798d86001c324468d497f");
  EXPECT_EQ(Checksum().update("abc").hex(), "06b05ab6733a618578af5f94892f3950");
}
TEST(Checksum, does_not_depend_on_the_pieces) {
  const std::string text(100'000, 'x');
  Checksum pieces;
  for (std::size_t at = 0; at < text.size(); at += 777) pieces.update(std::string_view(text).substr(at, 777));
  EXPECT_EQ(pieces.hex(), Checksum().update(text).hex());
}
TEST(Checksum, notices_a_bit) {
  std::string text(5000, 'x');
  const std::string before = Checksum().update(text).hex();
  text[4321] = static_cast<char>(text[4321] ^ 4);
  EXPECT_NE(Checksum().update(text).hex(), before);
}

}  // namespace
}  // namespace stagecraft
