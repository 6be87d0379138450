#include "tools/node.hpp"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <thread>

#include "actors/cluster/member.hpp"
#include "tools/control_desk.hpp"
#include "tools/open_topology.hpp"
#include "tools/output.hpp"
#include "tools/progress.hpp"
#include "tools/report.hpp"
#include "tools/resume.hpp"
#include "tools/stop_signals.hpp"
#include "transport/certificates.hpp"
#include "transport/real_disk.hpp"

namespace stagecraft::tools {

namespace {

// Launchers say which node this is: by number, or by name.
std::optional<std::uint32_t> index_of(const Topology& topology, std::string name) {
  const auto count = static_cast<std::uint32_t>(topology.nodes.size());
  std::string from = "--name";
  for (const char* variable : {"SLURM_NODEID", "SLURMD_NODENAME", "GROUP_RANK"}) {
    const char* value = std::getenv(variable);
    if (!name.empty() || !value) continue;
    name = value;
    from = variable;
  }
  std::vector<std::string> names;
  for (std::uint32_t n = 0; n < count; ++n) {
    if (topology.nodes[n].name == name) return n;
    names.push_back(topology.nodes[n].name);
  }
  std::uint32_t number = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  const bool is_number = error == std::errc{} && end == name.data() + name.size() && from != "--name";
  if (is_number && number < count) return number;
  if (name.empty()) {
    complain("{}: expected --name with one of {}; neither SLURM_NODEID nor SLURMD_NODENAME nor GROUP_RANK is set\n",
             topology.file, fmt::join(names, ", "));
  } else {
    complain("{}: {} says '{}': expected one of the file's nodes: {}\n", topology.file, from, name,
             fmt::join(names, ", "));
  }
  return std::nullopt;
}

std::optional<NetworkAddress> leader_of(const Topology& topology, const std::string& given) {
  const NetworkAddress address = parse_network_address(given.empty() ? topology.nodes[0].listen : given);
  if (address.port > 0 && !address.host.empty()) return address;
  complain(
      "{}: expected where node '{}' listens, got '{}': give it a port in the file, or say it with --leader "
      "HOST:PORT\n",
      topology.file, topology.nodes[0].name, given.empty() ? topology.nodes[0].listen : given);
  return std::nullopt;
}

}  // namespace

std::size_t worker_threads() { return std::max(2U, std::thread::hardware_concurrency()); }

std::optional<NetworkOptions> network_of(const Topology& topology, std::uint32_t index) {
  const NodeSpec& node = topology.nodes[index];
  NetworkOptions options;
  options.silence = topology.recovery.detect_after;
  const std::string& folder = topology.security.certificates;
  if (folder.empty()) {
    if (is_loopback(parse_network_address(node.listen))) return options;
    complain(
        "{}: node '{}' listens at {}, which other machines reach: expected security.certificates, got none; make "
        "them with `stagecraft certificate {} --out FOLDER`\n",
        topology.file, node.name, node.listen, topology.file);
    return std::nullopt;
  }
  const std::string host = parse_network_address(node.listen).host;
  if (host == "0.0.0.0" || host == "::") {
    complain(
        "{}: node '{}' listens at {}, on all interfaces: expected the one address at which the other nodes reach it\n",
        topology.file, node.name, node.listen);
    return std::nullopt;
  }
  options.authority = folder + "/ca.pem";
  options.certificate = fmt::format("{}/{}.pem", folder, node.name);
  options.key = fmt::format("{}/{}.key", folder, node.name);
  RealDisk disk;
  std::vector<std::string> texts;
  for (const std::string& path : {options.authority, options.certificate, options.key}) {
    auto text = disk.read(path);
    if (!text) {
      complain("{}: node '{}': {} (security.certificates)\n", topology.file, node.name, text.error().text());
      return std::nullopt;
    }
    texts.push_back(std::move(text).value());
  }
  const auto now = std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
  if (const auto why = check_certificates(texts[0], texts[1], texts[2], now)) {
    complain("{}: node '{}' can't use {}: {}\n", topology.file, node.name, options.certificate, *why);
    return std::nullopt;
  }
  return options;
}

RunOptions::StartUp start_up_of(ChildProcesses* children) {
  RunOptions::StartUp start_up;
  start_up.ends = [children]() -> std::optional<std::string> {
    if (stop_is_asked()) return "stopped on request before all nodes were there";
    return children ? children->failed() : std::nullopt;
  };
  start_up.say = [](const std::string& text) { complain("{}\n", text); };
  return start_up;
}

int node_command(const NodeOptions& options) {
  end_with_parent();
  const auto topology = open_topology(options.run.file);
  if (!topology) return bad_input;
  const auto index = index_of(*topology, options.name);
  if (!index) return bad_input;
  if (*index == 0) return lead_command(*topology, options.run);
  const auto leader = leader_of(*topology, options.leader);
  const auto network = network_of(*topology, *index);
  if (!leader || !network) return bad_input;
  catch_stop_signals();
  const auto world = make_real_world(worker_threads(), &*network);
  const std::string& name = topology->nodes[*index].name;
  try {
    Cluster cluster(*world, *topology, *index);
    const BeginJob begin = cluster.join(*leader, start_up_of(nullptr));
    std::optional<Progress> progress;
    MemberOptions member{
        stop_is_asked, [](const std::string& text) { complain("{}\n", text); }, {}, checkpoint_folder(*topology), {}};
    member.on_iteration = [&](const IterationReport& report) {
      if (!progress) progress.emplace(topology->job.iterations, report.iteration.value - 1, topology->emulated());
      progress->show(report);
    };
    // Beside the socket of the one that led before, which may still hold its own.
    ControlDesk desk(fmt::format("{}/control-{}.sock", begin.folder, name), member.say);
    if (!begin.folder.empty()) member.attend = [&](RunningJob& job) { desk.attend(job); };
    const auto [end, led] = run_member(*world, *topology, cluster, begin, member);
    progress.reset();
    if (led)
      return report_run(world->disk(), *topology, *led, fmt::format("{}/run-{}.json", begin.folder, name),
                        options.run.file.json);
    if (end.ending != Ending::done && end.ending != Ending::stopped) complain("node '{}': {}\n", name, end.reason);
    RunResult result;
    result.ending = end.ending;
    return end.ending == Ending::stopped ? stopped : exit_code(result);
  } catch (const CannotStart& problem) {
    complain("{}: {}\n", topology->file, problem.what());
    std::_Exit(bad_input);  // an attempt to connect may be under way, and CAF would wait for its end
  }
}

}  // namespace stagecraft::tools
