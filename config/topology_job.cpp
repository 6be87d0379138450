// The sections job, timeouts, checkpoint and output.
#include <fmt/format.h>

#include <array>
#include <limits>

#include "config/topology_draft.hpp"

namespace stagecraft {

using namespace std::chrono_literals;

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
  const Bounds<Duration> range{.low = 1ms, .high = 24h * 7};
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
  spec.detect_after = recovery.duration("detect_after", {.low = 100ms, .high = 1h}, 1s).value;
  recovery.finish();
}

void read_security(Section& root, TopologyDraft& draft, Report& report) {
  Section security = root.section("security", false);
  draft.topology.security.certificates = read_line(security, "certificates", 4096, "", report).value;
  security.finish();
}

void read_output(Section& root, TopologyDraft& draft, Report& report) {
  Section output = root.section("output", false);
  OutputSpec& spec = draft.topology.output;
  spec.dir = read_line(output, "dir", 4096, spec.dir, report).value;
  output.finish();
}

}  // namespace stagecraft
