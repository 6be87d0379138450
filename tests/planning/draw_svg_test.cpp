// The picture of a timeline: what stands in it, and that it is a well-formed file of its own.
#include "planning/draw_svg.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>
#include <set>

#include "tests/planning/schedule_vectors.hpp"

namespace stagecraft::pipelines {
namespace {

using testing::HasSubstr;
using testing::Not;

std::size_t count(const std::string& text, std::string_view what) {
  std::size_t n = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++n;
  return n;
}

std::vector<TimedOperator> timeline_of(ScheduleKind kind, std::uint32_t p, std::uint32_t m) {
  const PipelineProblem problem = uniform_problem(shape_for(kind, p, m), {10ms, 10ms, 10ms});
  return replay(problem, generate(kind, problem)).timeline;
}

// Every tag is closed by its own, attributes are quoted, and nothing stands bare that XML would misread.
void expect_well_formed(const std::string& svg) {
  static const std::regex tag(R"re(<(/?)([a-z]+)((?: [a-zA-Z-]+="[^"<]*")*)(/?)>)re");
  std::vector<std::string> open;
  std::string rest;
  auto from = svg.cbegin();
  for (std::sregex_iterator it(svg.begin(), svg.end(), tag), end; it != end; ++it) {
    rest.append(from, (*it)[0].first);
    from = (*it)[0].second;
    if ((*it)[1].length() > 0) {
      ASSERT_FALSE(open.empty());
      EXPECT_EQ(open.back(), (*it)[2]);
      open.pop_back();
    } else if ((*it)[4].length() == 0) {
      open.push_back((*it)[2]);
    }
  }
  rest.append(from, svg.cend());
  EXPECT_TRUE(open.empty());
  EXPECT_EQ(rest.find_first_of("<>"), std::string::npos) << "a tag that is none";
  EXPECT_EQ(std::regex_replace(rest, std::regex("&(amp|lt|gt|quot);"), "").find('&'), std::string::npos);
}

TEST(DrawSvg, is_one_well_formed_file_without_scripts_or_references) {
  for (const ScheduleKind kind : {ScheduleKind::one_f_one_b, ScheduleKind::zb_h2, ScheduleKind::zb_v}) {
    const std::string svg = draw_svg(timeline_of(kind, 8, 24), {"8 stages, 24 micro-batches", 1400});
    expect_well_formed(svg);
    EXPECT_THAT(svg, testing::StartsWith("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"1400\""));
    EXPECT_THAT(svg, Not(HasSubstr("script")));
    EXPECT_THAT(svg, Not(HasSubstr("href")));
  }
}

TEST(DrawSvg, tells_of_every_operator_when_it_started_and_how_long_it_took) {
  const std::string svg = draw_svg(timeline_of(ScheduleKind::zb_h1, 4, 8));
  EXPECT_EQ(count(svg, "<title>"), 4U * 8 * 3);
  EXPECT_THAT(svg, HasSubstr("<title>2F3 on stage 2, forward of micro-batch 3: starts at 80 ms, takes 10 ms</title>"));
  EXPECT_THAT(svg, HasSubstr("1W0 on stage 1, weight gradient of micro-batch 0"));
  EXPECT_THAT(svg, HasSubstr(">idle "));
  EXPECT_THAT(svg, HasSubstr(">F forward<"));
  EXPECT_THAT(svg, Not(HasSubstr("X backward"))) << "nothing that does not appear";
}

TEST(DrawSvg, shows_the_idle_share_of_each_row_and_of_all) {
  const TimedOperator first{{{0}, {}}, parse_operator("0F0").value(), 0ms, 10ms};
  const TimedOperator second{{{1}, {}}, parse_operator("1F0").value(), 10ms, 40ms};
  const std::string svg = draw_svg({first, second});
  EXPECT_THAT(svg, HasSubstr(">idle 75.0 %<"));
  EXPECT_THAT(svg, HasSubstr(">idle 25.0 %<"));
  EXPECT_THAT(svg, HasSubstr("40 ms in all, idle 50.0 % over all stages"));
}

TEST(DrawSvg, writes_numbers_only_where_they_fit) {
  const auto labels = [](const std::string& svg) { return count(svg, "text-anchor=\"middle\">7</text></g>"); };
  EXPECT_EQ(labels(draw_svg(timeline_of(ScheduleKind::one_f_one_b, 2, 8), {"", 1400})), 2U) << "F7 on two stages";
  EXPECT_EQ(labels(draw_svg(timeline_of(ScheduleKind::one_f_one_b, 2, 400), {"", 400})), 0U);
}

TEST(DrawSvg, escapes_what_people_write) {
  const std::string svg = draw_svg(timeline_of(ScheduleKind::zb_h1, 2, 2), {"a < b & \"c\" > d\x01", 800});
  expect_well_formed(svg);
  EXPECT_THAT(svg, HasSubstr("a &lt; b &amp; &quot;c&quot; &gt; d <"));
}

// Brightness of the fill of a box whose hover text starts so.
double brightness_of(const std::string& svg, const std::string& op) {
  std::smatch found;
  const std::regex box("<title>" + op + " on [^<]*</title><rect [^>]*fill=\"#(..)(..)(..)\"");
  if (!std::regex_search(svg, found, box)) throw std::runtime_error(op + " is not drawn");
  const auto part = [&](std::size_t n) { return std::stoi(found[n].str(), nullptr, 16); };
  return 0.299 * part(1) + 0.587 * part(2) + 0.114 * part(3);
}

TEST(DrawSvg, kinds_differ_in_brightness_also_between_chunks) {
  const std::string split = draw_svg(timeline_of(ScheduleKind::zb_v, 2, 4));
  const std::string fused = draw_svg(timeline_of(ScheduleKind::one_f_one_b, 2, 4));
  const std::vector<double> falling{brightness_of(split, "0F0"), brightness_of(split, "3F0"),
                                    brightness_of(split, "0B0"), brightness_of(split, "3B0"),
                                    brightness_of(fused, "0X0"), brightness_of(split, "0W0")};
  for (std::size_t i = 1; i < falling.size(); ++i) EXPECT_LT(falling[i] + 12, falling[i - 1]) << i;
}

TEST(DrawSvg, names_replicas_and_overhead) {
  auto timeline = timeline_of(ScheduleKind::one_f_one_b, 2, 2);
  TimedOperator step{{{1}, {1}}, {}, 70ms, 80ms, true};
  timeline.push_back(step);
  const std::string svg = draw_svg(timeline);
  EXPECT_THAT(svg, HasSubstr(">stage 1 r1<"));
  EXPECT_THAT(svg, HasSubstr("<title>reduce, norm and step on stage 1 r1: starts at 70 ms, takes 10 ms</title>"));
  EXPECT_THAT(svg, HasSubstr(">reduce, norm and step<"));
}

TEST(DrawSvg, draws_nothing_and_no_time_at_all) {
  expect_well_formed(draw_svg({}));
  EXPECT_THAT(draw_svg({}), HasSubstr("no operator ran"));
  const std::string instant = draw_svg({{{{0}, {}}, parse_operator("0F0").value(), 5ms, 5ms}}, {"", 1});
  expect_well_formed(instant);
  EXPECT_THAT(instant, HasSubstr("width=\"400\"")) << "never narrower";
  EXPECT_THAT(instant, Not(HasSubstr("nan")));
}

}  // namespace
}  // namespace stagecraft::pipelines
