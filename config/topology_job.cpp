// The sections job, timeouts, checkpoint and output, and what several sections share.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

#include "config/topology_draft.hpp"

namespace stagecraft {
namespace {

using namespace std::chrono_literals;

bool is_name_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.';
}

bool has_control_character(std::string_view text) {
  return std::any_of(text.begin(), text.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte < 0x20 || byte == 0x7f;
  });
}

}  // namespace

Field<std::string> read_name(Section& section, std::string_view key, Report& report) {
  auto name = section.text(key, 64);
  if (!name) return name;
  const bool fine = std::all_of(name.value.begin(), name.value.end(), is_name_character);
  const char first = name.value.front();
  if (fine && first != '-' && first != '_' && first != '.') return name;
  report.add(ErrorCode::bad_text, name.at, name.path,
             fmt::format("expected a name of letters, digits, - _ and . that begins with a letter or digit, got {}; "
                         "write for example my-run-7",
                         quoted(name.value)));
  name.valid = false;
  return name;
}

Field<std::string> read_line(Section& section, std::string_view key, std::size_t longest,
                             std::optional<std::string> fallback, Report& report) {
  auto line = section.text(key, longest, std::move(fallback));
  if (line && has_control_character(line.value)) {
    report.add(
        ErrorCode::bad_text, line.at, line.path,
        fmt::format("expected text on one line without control characters, got {}; remove them", quoted(line.value)));
    line.valid = false;
  }
  return line;
}

std::string list_text(const std::vector<std::uint32_t>& numbers) {
  constexpr std::size_t most = 16;
  if (numbers.size() <= most) return fmt::format("[{}]", fmt::join(numbers, ", "));
  return fmt::format("[{}, ... ({} entries)]", fmt::join(numbers.begin(), numbers.begin() + most, ", "),
                     numbers.size());
}

void read_job(Section& root, TopologyDraft& draft, Report& report) {
  Section job = root.section("job", true);
  JobSpec& spec = draft.topology.job;
  spec.name = read_name(job, "name", report).value;
  spec.seed = job.integer<std::uint64_t>("seed", 0, std::numeric_limits<std::uint64_t>::max(), spec.seed).value;
  draft.iterations = job.integer<std::uint32_t>("iterations", 1, 1'000'000'000);
  spec.iterations = draft.iterations.value;
  job.finish();
}

void read_timeouts(Section& root, TopologyDraft& draft, Report& report) {
  Section timeouts = root.section("timeouts", false);
  const Range<Duration> range{.low = 1ms, .high = 24h * 7};
  struct Rung {
    std::string_view key;
    Duration fallback;
    Duration& target;
  };
  TimeoutsSpec& spec = draft.topology.timeouts;
  const std::array<Rung, 4> ladder{{{"operation", 60s, spec.operation},
                                    {"iteration", 300s, spec.iteration},
                                    {"stage", 330s, spec.stage},
                                    {"node", 360s, spec.node}}};
  std::optional<Field<Duration>> before;
  for (const Rung& rung : ladder) {
    auto field = timeouts.duration(rung.key, range, rung.fallback);
    rung.target = field.value;
    if (before && *before && field && before->value >= field.value) {
      const auto& cited = field.given ? field : *before;  // two defaults never clash
      report.add(ErrorCode::timeout_ladder, cited.at, cited.path,
                 fmt::format("expected operation < iteration < stage < node, got {} = {} and {} = {}{}; raise {}",
                             before->path, format(before->value), field.path, format(field.value),
                             field.given ? "" : " (the default)", field.path));
    }
    before = std::move(field);
  }
  timeouts.finish();
}

void read_checkpoint(Section& root, TopologyDraft& draft, Report& report) {
  Section checkpoint = root.section("checkpoint", false);
  CheckpointSpec& spec = draft.topology.checkpoint;
  spec.dir = read_line(checkpoint, "dir", 4096, spec.dir, report).value;
  spec.every = checkpoint.integer<std::uint32_t>("every", 0, 1'000'000'000, spec.every).value;
  spec.keep = checkpoint.integer<std::uint32_t>("keep", 1, 1'000'000, spec.keep).value;
  checkpoint.finish();
}

void read_recovery(Section& root, TopologyDraft& draft, Report&) {
  Section recovery = root.section("recovery", false);
  RecoverySpec& spec = draft.topology.recovery;
  spec.twins = recovery.boolean("twins", draft.topology.nodes.size() > 1).value;
  spec.attempts = recovery.integer<std::uint32_t>("attempts", 0, 1'000'000, spec.attempts).value;
  recovery.finish();
}

void read_output(Section& root, TopologyDraft& draft, Report& report) {
  Section output = root.section("output", false);
  OutputSpec& spec = draft.topology.output;
  spec.dir = read_line(output, "dir", 4096, spec.dir, report).value;
  output.finish();
}

}  // namespace stagecraft
