// The recorded cases of the straggler detector: numbers for the test of one stream, and traces with what has to be
// found in them, when, how large, and that nobody else is named.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <cmath>
#include <fstream>
#include <set>

#include "planning/detector.hpp"
#include "tests/planning/detector_traces.hpp"

namespace stagecraft::traces {
namespace {

using nlohmann::json;

json vectors() {
  std::ifstream file(STAGECRAFT_SOURCE_DIR "/tests/data/detector/vectors.json");
  return json::parse(file)["vectors"];
}

// An event in the words of the vectors; iterations are counted from 0 there.
struct Report {
  std::string event, what;
  json subject;
  std::int64_t at = 0, start = 0;
  double size = 0;  // a share of stages, ms of links
  std::string text;
};

std::int64_t from_zero(Iteration iteration) { return std::int64_t{iteration.value} - 1; }
double ms(Duration d) { return static_cast<double>(d.count()) / 1e6; }

void add_reports(const StragglerFindings& events, std::vector<Report>& reports) {
  for (const StageFinding& e : events.stages)
    reports.push_back({std::string(name_of(e.finding)), "",
                       e.stage ? json::array({"stage", *e.stage}) : json::array({"all"}), from_zero(e.at),
                       from_zero(e.start), e.size, to_text(e)});
  for (const LinkFinding& e : events.links) {
    json subject = json::array({"link", e.link});
    if (e.direction) subject.push_back(*e.direction == Direction::forward ? "down" : "up");
    reports.push_back({std::string(name_of(e.finding)), e.kind == DelayKind::latency ? "latency" : "bandwidth", subject,
                       from_zero(e.at), from_zero(e.start), ms(e.size), to_text(e)});
  }
}

bool meets(const Report& report, const json& expected) {
  const std::string& event = expected["event"].get_ref<const std::string&>();
  const bool slow = event == "slow" && (report.event == "start" || report.event == "volatile");
  if ((report.event != event && !slow) || report.subject != expected["subject"]) return false;
  if (report.at < expected["not_before"] || report.at > expected["by"]) return false;
  if (expected.contains("begin") && (report.start < expected["begin"][0] || report.start > expected["begin"][1]))
    return false;
  if (expected.contains("size") &&
      std::abs(report.size - expected["size"].get<double>()) > expected["tol"].get<double>())
    return false;
  return !expected.contains("what") || report.what == expected["what"];
}

// Who may be named at all.
std::set<json> injected(const Parameters& parameters) {
  std::set<json> subjects;
  for (const Fault& fault : parameters.faults) {
    if (fault.stages.size() == parameters.stages) {
      subjects.insert(json::array({"all"}));
    } else {
      for (const std::uint32_t s : fault.stages) subjects.insert(json::array({"stage", s}));
    }
    for (const auto& [link, direction] : fault.lanes)
      subjects.insert(json::array({"link", link, direction == 0 ? "down" : "up"}));
  }
  return subjects;
}

void judge(const json& vector, std::vector<Report> reports) {
  std::erase_if(reports, [](const Report& r) { return r.event == "clock"; });
  const std::vector<Report> all = reports;
  bool failed = false;
  for (const json& expected : vector["expect"]) {
    const auto found =
        std::find_if(reports.begin(), reports.end(), [&](const Report& r) { return meets(r, expected); });
    failed |= found == reports.end();
    EXPECT_NE(found, reports.end()) << "nothing is " << expected.dump();
    if (found != reports.end()) reports.erase(found);
  }
  const std::set<json> subjects = injected(parameters_of(vector["params"]));
  for (const Report& report : reports) {
    const json& allowed = vector["allow"];
    const bool may = std::find(allowed.begin(), allowed.end(), report.event) != allowed.end();
    failed |= !may || !subjects.contains(report.subject);
    EXPECT_TRUE(may && subjects.contains(report.subject)) << "unexpected: " << report.text;
  }
  if (!failed) return;
  for (const Report& report : all) fmt::print("  {}\n", report.text);
}

// The quantiles since the last start of the link's direction.
void judge_quantiles(const json& expected, const StragglerDetector& detector, const std::vector<Report>& reports) {
  const json& subject = expected["subject"];
  Iteration since;
  for (const Report& r : reports)
    if (r.subject == subject && (r.event == "start" || r.event == "volatile"))
      since.value = static_cast<std::uint32_t>(r.start + 1);
  const Direction direction = subject[2] == "down" ? Direction::forward : Direction::backward;
  const Spread<Duration> spread = detector.spread(subject[1].get<std::uint32_t>(), direction, since);
  const auto near = [&](const char* name, Duration measured, std::size_t i) {
    const double truth = expected[name];
    EXPECT_NEAR(ms(measured), truth, expected["rtol"][i].get<double>() * truth) << name;
  };
  near("p50", spread.p50, 0);
  near("p90", spread.p90, 1);
  near("p99", spread.p99, 2);
}

TEST(DetectorVectors, the_test_of_one_stream_alarms_as_recorded) {
  std::size_t cases = 0;
  for (const json& vector : vectors()) {
    if (!vector.contains("excess")) continue;
    SCOPED_TRACE(vector["name"]);
    ++cases;
    DetectorSettings settings;
    settings.refinement = 0;
    LevelStream stream(0);
    json alarms = json::array();
    std::uint32_t at = 0;
    for (const double excess : vector["excess"]) {
      if (const auto alarm = stream.step({at}, excess, {vector["unit"], 0}, settings))
        alarms.push_back({{"at", at}, {"start", alarm->start.value}, {"level", alarm->to}});
      ++at;
    }
    ASSERT_EQ(alarms.size(), vector["alarms"].size()) << alarms.dump();
    for (std::size_t i = 0; i < alarms.size(); ++i) {
      EXPECT_EQ(alarms[i]["at"], vector["alarms"][i]["at"]);
      EXPECT_EQ(alarms[i]["start"], vector["alarms"][i]["start"]);
      EXPECT_NEAR(alarms[i]["level"], vector["alarms"][i]["level"], 1e-6);
    }
  }
  EXPECT_EQ(cases, 3U);
}

TEST(DetectorVectors, every_fault_is_found_in_time_named_and_sized_and_nobody_else_is_blamed) {
  std::size_t cases = 0;
  for (const json& vector : vectors()) {
    if (!vector.contains("params")) continue;
    SCOPED_TRACE(vector["name"]);
    ++cases;
    Trace trace(parameters_of(vector["params"]));
    const Parameters& p = trace.parameters();
    StragglerDetector detector(p.stages - 1, p.stages);
    std::vector<Report> reports;
    std::int64_t samples = 0, sum = 0;
    for (std::uint32_t k = 0; k < p.iterations; ++k) {
      const IterationSamples iteration = trace.next();
      for (const StageSamples& stage : iteration.stages)
        for (const auto& operators : stage.operators)
          for (const OperatorSample& o : operators) ++samples, sum += o.took.count();
      for (const LinkSamples& link : iteration.links)
        for (const auto& messages : link.messages)
          for (const MessageStamps& m : messages) ++samples, sum += (m.arrived - m.handed_over + m.round_trip).count();
      add_reports(detector.step(iteration), reports);
      if (vector.contains("quantiles") && vector["quantiles"]["at"] == k)
        judge_quantiles(vector["quantiles"], detector, reports);
    }
    EXPECT_EQ(samples, vector["samples"]);
    EXPECT_LE(std::abs(sum - vector["sum_ns"].get<std::int64_t>()), samples) << "not the trace that was recorded";
    judge(vector, reports);
  }
  EXPECT_EQ(cases, 25U);
}

}  // namespace
}  // namespace stagecraft::traces
