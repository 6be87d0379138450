#include "planning/units.hpp"

#include <limits>

#include <gtest/gtest.h>

#include "planning/cost.hpp"

namespace stagecraft {
namespace {

using namespace std::chrono_literals;

TEST(Units, durations_with_every_unit_are_read_exactly) {
  EXPECT_EQ(parse_duration("7ns"), Duration(7));
  EXPECT_EQ(parse_duration("250us"), Duration(250us));
  EXPECT_EQ(parse_duration("10ms"), Duration(10ms));
  EXPECT_EQ(parse_duration("1.5s"), Duration(1500ms));
  EXPECT_EQ(parse_duration("2m"), Duration(2min));
  EXPECT_EQ(parse_duration("1h"), Duration(1h));
  EXPECT_EQ(parse_duration("0"), Duration(0));
  EXPECT_EQ(parse_duration("0s"), Duration(0));
  EXPECT_EQ(parse_duration("0.1s"), Duration(100ms));
  EXPECT_EQ(parse_duration("123456789.123456789s"), Duration(123456789123456789));
}

TEST(Units, a_part_of_a_nanosecond_is_rounded_to_the_nearest) {
  EXPECT_EQ(parse_duration("1.4ns"), Duration(1));
  EXPECT_EQ(parse_duration("1.5ns"), Duration(2));
  EXPECT_EQ(parse_duration("0.0000000004s"), Duration(0));
}

TEST(Units, durations_that_are_not_exactly_the_grammar_are_refused) {
  for (const char* text :
       {"",         "10",    "1",   "ms",  ".5s",  "5.s",         "1.2.3s", " 10ms",
        "10ms ",    "10 ms", "-1s", "+1s", "1e3s", "0x10s",       "10MS",   "10sec",
        "10ms10ms", "1,5s",  "nan", "inf", "infs", "10\xC2\xB5s", "0.0",    "1.0000000000000000001s"}) {
    EXPECT_FALSE(parse_duration(text)) << text;
  }
  EXPECT_FALSE(parse_duration(std::string_view("1s\0", 3)));
}

TEST(Units, durations_beyond_64_bit_nanoseconds_are_refused) {
  EXPECT_EQ(parse_duration("9223372036854775807ns"), Duration::max());
  EXPECT_FALSE(parse_duration("9223372036854775808ns"));
  EXPECT_FALSE(parse_duration("9223372036854775807.5ns"));
  EXPECT_FALSE(parse_duration("18446744073709551616ns"));
  EXPECT_FALSE(parse_duration("99999999999999999999999999999999h"));
  EXPECT_FALSE(parse_duration("18446744073709551615h"));
}

TEST(Units, sizes_are_binary_or_decimal_as_their_unit_says) {
  EXPECT_EQ(parse_bytes("100B"), Bytes{100});
  EXPECT_EQ(parse_bytes("512KiB"), Bytes{524288});
  EXPECT_EQ(parse_bytes("64MiB"), Bytes{67108864});
  EXPECT_EQ(parse_bytes("2GiB"), Bytes{2147483648});
  EXPECT_EQ(parse_bytes("1.5TiB"), Bytes{1649267441664});
  EXPECT_EQ(parse_bytes("50GB"), Bytes{50000000000});
  EXPECT_EQ(parse_bytes("3kB"), Bytes{3000});
  EXPECT_EQ(parse_bytes("0"), Bytes{0});
  EXPECT_EQ(parse_bytes("18446744073709551615B"), Bytes{std::numeric_limits<std::uint64_t>::max()});
}

TEST(Units, sizes_without_a_unit_or_too_large_are_refused) {
  for (const char* text : {"", "64", "MiB", "64Mi", "64mib", "64MiB/s", "-1B", "1e3B", "64 MiB",
                           "18446744073709551616B", "16777216TiB", "20000000TB"}) {
    EXPECT_FALSE(parse_bytes(text)) << text;
  }
}

TEST(Units, bandwidths_need_bytes_per_second) {
  EXPECT_EQ(parse_bandwidth("50GB/s"), Bandwidth{50e9});
  EXPECT_EQ(parse_bandwidth("100MiB/s"), Bandwidth{104857600});
  EXPECT_EQ(parse_bandwidth("0.5kB/s"), Bandwidth{500});
  for (const char* text : {"", "0", "/s", "50GB", "50GB/m", "50/s", "-1GB/s", "50GB/s/s", "50Gb/s"}) {
    EXPECT_FALSE(parse_bandwidth(text)) << text;
  }
}

TEST(Units, durations_print_as_a_person_writes_them) {
  EXPECT_EQ(format(Duration(0)), "0 ns");
  EXPECT_EQ(format(Duration(999)), "999 ns");
  EXPECT_EQ(format(Duration(12300)), "12.3 us");
  EXPECT_EQ(format(Duration(390ms)), "390 ms");
  EXPECT_EQ(format(Duration(1250ms)), "1.25 s");
  EXPECT_EQ(format(Duration(90s)), "90 s");
  EXPECT_EQ(format(Duration(5min)), "5 m");
  EXPECT_EQ(format(Duration(90min)), "90 m");
  EXPECT_EQ(format(Duration(2h)), "2 h");
  EXPECT_EQ(format(Duration(3723500ms)), "3723.5 s");
  EXPECT_EQ(format(Duration(1234567)), "1.235 ms");
  EXPECT_EQ(format(Duration(-1500us)), "-1.5 ms");
}

TEST(Units, rounding_moves_on_to_the_next_unit) {
  EXPECT_EQ(format(Duration(999999)), "999.999 us");
  EXPECT_EQ(format(Duration(999999600)), "1 s");
  EXPECT_EQ(format(Bytes{1048575}), "1 MiB");
  EXPECT_FALSE(format(Duration::min()).empty());
}

TEST(Units, sizes_print_as_a_person_writes_them) {
  EXPECT_EQ(format(Bytes{12}), "12 B");
  EXPECT_EQ(format(Bytes{655360}), "640 KiB");
  EXPECT_EQ(format(Bytes{1610612736}), "1.5 GiB");
  EXPECT_EQ(format(Bytes{1000000}), "976.56 KiB");
  EXPECT_EQ(format(Bytes{std::numeric_limits<std::uint64_t>::max()}), "16777216 TiB");
}

TEST(LinkCost, a_message_occupies_the_link_for_its_occupancy_and_its_bytes) {
  const LinkCost link{20ms, 1ms, {1e9}};
  EXPECT_EQ(service_time(link, {1000000}), Duration(2ms));
  EXPECT_EQ(service_time(link, {0}), Duration(1ms));
  EXPECT_EQ(service_time({20ms, 3ms, {}}, {1000000}), Duration(3ms)) << "bandwidth zero means unlimited";
  EXPECT_TRUE(LinkCost{}.free());
  EXPECT_FALSE(link.free());
}

TEST(LinkCost, an_endless_transfer_takes_a_week_so_that_thousands_still_add_up) {
  EXPECT_EQ(service_time({0ms, 1ms, {1e-9}}, {1000000}), 168h);
}

}  // namespace
}  // namespace stagecraft
