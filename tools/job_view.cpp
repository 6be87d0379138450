#include "tools/job_view.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "actors/faults/fault_board.hpp"

namespace stagecraft::tools {

namespace {

using Json = nlohmann::ordered_json;

// Every place, by replica, then stage.
std::vector<Place> places_of(const Topology& topology) {
  std::vector<Place> all;
  for (std::uint32_t r = 0; r < topology.pipeline.replicas; ++r)
    for (std::uint32_t s = 0; s < topology.pipeline.stages; ++s) all.push_back({{s}, {r}});
  return all;
}

// "0-1", or of several chunks "0-1 | 4"; a dash for a chunk without layers.
std::string layers_text(const RunningJob& job, StageId stage) {
  const PipelineShape shape = job.topology().pipeline.shape();
  std::vector<std::string> runs;
  std::uint32_t next = 0;
  for (std::uint32_t c = 0; c < job.layout().size(); ++c) {
    const std::uint32_t count = job.layout()[c], first = std::exchange(next, next + count);
    if (shape.stage_of({c}) != stage) continue;
    runs.push_back(count == 0   ? "-"
                   : count == 1 ? std::to_string(first)
                                : fmt::format("{}-{}", first, first + count - 1));
  }
  return fmt::format("{}", fmt::join(runs, " | "));
}

std::uint32_t home_of(const RunningJob& job, const Outbox::Losses& losses, const Member& who) {
  const auto moved = losses.homes.find(who);
  return moved == losses.homes.end() ? job.topology().seat(who.place).node : moved->second;
}

std::string device_name(const Topology& topology, std::uint32_t device) {
  return fmt::format("{}{}", topology.emulated() ? "emulated" : "cpu", device);
}

std::uint32_t times_replaced(const Outbox::Losses& losses, const Member& who) {
  const auto it = losses.replaced.find(who);
  return it == losses.replaced.end() ? 0 : it->second;
}

std::string target_text(const FaultTarget& on) {
  using enum FaultTarget::Kind;
  const std::string of_replica = on.replica ? fmt::format(" of replica {}", on.replica->value) : "";
  switch (on.kind) {
    case link:
      return fmt::format("link/{}-{}{}{}", on.stage.value, on.other.value, of_replica,
                         !on.direction                         ? ""
                         : *on.direction == Direction::forward ? " forward"
                                                               : " backward");
    case stage:
    case twin:
      return fmt::format("{}/{}{}", on.kind == stage ? "stage" : "twin", on.stage.value, of_replica);
    case nodes:
      return fmt::format("node/{}", fmt::join(on.node_names, ", node/"));
    case disk:
      return "the checkpoints";
    case job:
      break;
  }
  return "the job";
}

Json losses_of(const Outbox::Losses& losses) {
  Json list = Json::array();
  for (const auto& [who, times] : losses.replaced) list.push_back({{"who", to_text(who)}, {"times", times}});
  return list;
}

}  // namespace

Json stages_of(const RunningJob& job) {
  const Topology& topology = job.topology();
  const Outbox::Losses losses = job.losses();
  Json list = Json::array();
  for (const Place p : places_of(topology)) {
    const Member who{Member::Role::stage, p};
    const std::uint32_t replaced = times_replaced(losses, who);
    Json row{{"stage", fmt::format("stage/{}", p.stage.value)},
             {"replica", p.replica.value},
             {"layers", layers_text(job, p.stage)},
             {"node", topology.nodes[home_of(job, losses, who)].name}};
    // One that was built anew is on a device that was free, or shares one.
    row["device"] = replaced > 0 ? Json() : Json(device_name(topology, topology.seat(p).device));
    row["replaced"] = replaced;
    list.push_back(std::move(row));
  }
  return list;
}

Json nodes_of(const RunningJob& job) {
  const Topology& topology = job.topology();
  const Outbox::Losses losses = job.losses();
  Json list = Json::array();
  for (std::uint32_t n = 0; n < topology.nodes.size(); ++n) {
    std::vector<std::string> stages;
    for (const Place p : places_of(topology))
      if (home_of(job, losses, {Member::Role::stage, p}) == n) stages.push_back(std::to_string(p.stage.value));
    const auto gone = losses.nodes.find(n);
    list.push_back({{"node", topology.nodes[n].name},
                    {"devices", topology.nodes[n].devices.size()},
                    {"stages", fmt::format("{}", fmt::join(stages, " "))},
                    {"state", gone == losses.nodes.end() ? std::string("up") : "gone: " + gone->second}});
  }
  return list;
}

Json links_of(const RunningJob& job) {
  const Topology& topology = job.topology();
  const Outbox::Losses losses = job.losses();
  const PipelineShape shape = topology.pipeline.shape();
  Json list = Json::array();
  for (std::uint32_t r = 0; r < topology.pipeline.replicas; ++r)
    for (std::uint32_t b = 0; b + 1 < shape.total_chunks(); ++b) {
      if (shape.is_inside(b)) continue;
      const StageId from = shape.stage_of({b}), to = shape.stage_of({b + 1});
      const auto node = [&](StageId stage) {
        return topology.nodes[home_of(job, losses, {Member::Role::stage, {stage, {r}}})].name;
      };
      list.push_back({{"link", fmt::format("link/{}-{}", from.value, to.value)},
                      {"replica", r},
                      {"chunks", fmt::format("{}-{}", b, b + 1)},
                      {"from", node(from)},
                      {"to", node(to)}});
    }
  return list;
}

Json devices_of(const RunningJob& job) {
  const Topology& topology = job.topology();
  Json list = Json::array();
  for (std::uint32_t n = 0; n < topology.nodes.size(); ++n)
    for (std::uint32_t d = 0; d < topology.nodes[n].devices.size(); ++d) {
      const DeviceSpec& device = topology.nodes[n].devices[d];
      std::string began_with = "-";
      for (const Place p : places_of(topology))
        if (topology.seat(p).node == n && topology.seat(p).device == d)
          began_with = fmt::format("stage/{}", p.stage.value) +
                       (topology.pipeline.replicas > 1 ? fmt::format(" of replica {}", p.replica.value) : "");
      list.push_back({{"device", device_name(topology, d)},
                      {"node", topology.nodes[n].name},
                      {"memory", device.memory.value > 0 ? format(device.memory) : "-"},
                      {"began_with", began_with}});
    }
  return list;
}

Json actors_of(const RunningJob& job) {
  Json list = Json::array();
  for (const auto& [name, times] : job.actors()) list.push_back({{"actor", name}, {"spawned", times}});
  return list;
}

Json faults_of(const RunningJob& job) {
  Json list = Json::array();
  const FaultBoard* board = job.world().faults();
  if (!board) return list;
  const std::vector<FaultSpec> faults = board->faults();
  std::vector<std::string> states(faults.size(), "not yet");
  for (const FaultMoment& moment : board->moments())
    states[moment.fault] = fmt::format("{} iteration {}",
                                       !moment.on                                ? "over since"
                                       : strikes_once(faults[moment.fault].kind) ? "struck in"
                                                                                 : "in force since",
                                       moment.iteration.value);
  for (std::size_t i = 0; i < faults.size(); ++i)
    list.push_back({{"fault", faults[i].id},
                    {"do", name_of(faults[i].kind)},
                    {"on", target_text(faults[i].on)},
                    {"state", states[i]}});
  return list;
}

Duration since_progress(const RunningJob& job) {
  const auto& newest = job.newest();
  const Duration age = job.age();
  if (!newest) return age;
  // By the clock of another process it may be, where that one led the job when the iteration was decided.
  const Duration since = job.world().now() - std::max(newest->at, job.resumed().value_or(newest->at));
  return since < Duration{} || since > age ? age : since;
}

Json status_of(const RunningJob& job) {
  const Topology& topology = job.topology();
  const auto& newest = job.newest();
  const Outbox::Losses losses = job.losses();
  Json j{{"job", topology.job.name},
         {"process", getpid()},
         {"iteration", newest ? newest->iteration.value : job.start().value},
         {"iterations", topology.job.iterations}};
  // Emulated devices carry digests instead of losses.
  j["loss"] = newest && !topology.emulated() ? Json(newest->loss) : Json();
  j["iteration_ms"] = newest ? Json(static_cast<double>(newest->time.count()) / 1e6) : Json();
  j["tokens"] = newest ? Json(newest->tokens) : Json();
  j["running_s"] = static_cast<double>(job.age().count()) / 1e9;
  j["since_progress_s"] = static_cast<double>(since_progress(job).count()) / 1e9;
  j["stopping"] = job.stopping();
  j["paused"] = job.paused();
  j["layout"] = job.layout();
  j["moves"] = job.moves();
  j["losses"] = losses_of(losses);
  j["stages"] = stages_of(job);
  j["nodes"] = nodes_of(job);
  return j;
}

}  // namespace stagecraft::tools
