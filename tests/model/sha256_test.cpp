#include "model/sha256.hpp"

#include <gtest/gtest.h>

namespace stagecraft {
namespace {

TEST(Sha256, gives_the_published_values) {
  EXPECT_EQ(Sha256().hex(), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(Sha256().update("abc").hex(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(Sha256().update(std::string(1000000, 'a')).hex(),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, bytes_may_come_in_pieces_and_go_on_after_a_result) {
  Sha256 hash;
  hash.update("ab");
  const std::string early = hash.hex();
  hash.update("").update("c");
  EXPECT_EQ(hash.hex(), Sha256().update("abc").hex());
  EXPECT_EQ(early, Sha256().update("ab").hex());
}

TEST(Sha256, a_number_is_eight_bytes_lowest_first) {
  EXPECT_EQ(Sha256().update(std::uint64_t{0x0102}).hex(),
            Sha256().update(std::string_view("\x02\x01\0\0\0\0\0\0", 8)).hex());
}

}  // namespace
}  // namespace stagecraft
