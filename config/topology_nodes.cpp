// The section nodes and the checks on the devices.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>

#include "config/topology_draft.hpp"

namespace stagecraft {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t most_nodes = 4096;
constexpr std::uint64_t most_devices = 65536;  // of a file
constexpr std::uint64_t pebibyte = std::uint64_t{1} << 50;
constexpr const char* default_address = "127.0.0.1:0";

// host:port, with an IPv6 host in brackets. Only the form: nothing is looked up.
bool is_address(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || colon == 0) return false;
  std::string_view host = text.substr(0, colon);
  const std::string_view port = text.substr(colon + 1);
  std::uint32_t number = 0;
  const auto parsed = std::from_chars(port.data(), port.data() + port.size(), number);
  if (port.size() > 5 || parsed.ec != std::errc{} || parsed.ptr != port.data() + port.size() || number > 65535)
    return false;
  std::string_view letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._";
  if (host.starts_with('[')) {
    if (!host.ends_with(']')) return false;
    host = host.substr(1, host.size() - 2);
    if (host.find(':') == std::string_view::npos) return false;
    letters = "0123456789abcdefABCDEF:.%";
  }
  return !host.empty() && host.find_first_not_of(letters) == std::string_view::npos;
}

CostTable read_costs(const Value& value, Report& report) {
  Section costs(value, report);
  const Bounds<Duration> time{.low = 0ns, .high = 1h}, operator_time{.low = 1ns, .high = 1h};
  const Bounds<Bytes> size{.low = {0}, .high = {pebibyte}};
  CostTable table;
  table.per_layer = costs.choice<bool>("per", {{"stage", false}, {"layer", true}}, false).value;
  table.forward = costs.duration("forward", operator_time).value;
  table.backward_input = costs.duration("backward_input", operator_time).value;
  table.backward_weight = costs.duration("backward_weight", operator_time).value;
  table.reduce = costs.duration("reduce", time, 0ns).value;
  table.step = costs.duration("step", time, 0ns).value;
  table.activation = costs.bytes("activation", size, Bytes{}).value;
  table.weight_activation = costs.bytes("weight_activation", size, Bytes{}).value;
  table.boundary = costs.bytes("boundary", size, Bytes{}).value;
  table.parameters = costs.bytes("parameters", size, Bytes{}).value;
  costs.finish();
  return table;
}

// The kinds of all devices of a file must be the same; the first one is what the others are held against.
void note_kind(const Field<DeviceKind>& kind, TopologyDraft& draft, Report& report) {
  if (!kind) return;
  if (!draft.kind) draft.kind = kind.value;
  if (*draft.kind == kind.value) return;
  const auto name = [](DeviceKind k) { return k == DeviceKind::cpu ? "cpu" : "emulated"; };
  report.add(ErrorCode::mixed_devices, kind.at, kind.path,
             fmt::format("expected {} like the first device of the file, got {}; use one kind for all",
                         name(*draft.kind), name(kind.value)));
}

void read_costs_of(Section& section, DeviceSpec& device, const Field<DeviceKind>& kind, Report& report) {
  const bool emulated = kind && kind.value == DeviceKind::emulated;
  const auto costs = emulated
                         ? section.required_value("costs", "a map of forward, backward_input, backward_weight, ...")
                         : section.value("costs");
  if (!costs) return;
  if (kind && !emulated) {
    report.add(ErrorCode::costs_on_cpu, costs->at, costs->path,
               "expected no costs on a cpu device, got some; remove them or write kind: emulated");
    return;
  }
  device.costs = read_costs(*costs, report);
}

// One entry of `devices`: a device and how many there are of it.
void read_device(const Value& value, NodeSpec& node, TopologyDraft& draft, Report& report) {
  Section section(value, report);
  const auto kind = section.choice<DeviceKind>("kind", {{"cpu", DeviceKind::cpu}, {"emulated", DeviceKind::emulated}},
                                               std::nullopt, {"cuda"});
  note_kind(kind, draft, report);
  DeviceSpec device;
  device.kind = kind.value;
  const auto count = section.integer<std::uint32_t>("count", 1, 4096, 1);
  device.memory = section.bytes("memory", {.low = {1 << 20}, .high = {pebibyte}}).value;
  read_costs_of(section, device, kind, report);
  section.finish();
  auto& all = draft.devices;
  if (!count) {
    all.valid = false;
  } else if (all.value.size() + count.value > most_devices) {
    report.add(ErrorCode::out_of_range, count.at, count.path,
               fmt::format("expected at most {} devices in the file, got {} with these {}; take fewer", most_devices,
                           all.value.size() + count.value, count.value));
    all.valid = false;
  } else {
    node.devices.insert(node.devices.end(), count.value, device);
    all.value.insert(all.value.end(), count.value, device);
  }
}

struct Seen {  // where names and addresses stood first
  std::map<std::string, Position> names, addresses;
};

void read_address(Section& section, NodeSpec& node, Seen& seen, Report& report) {
  const auto listen = read_line(section, "listen", 256, default_address, report);
  node.listen = listen.value;
  if (!listen) return;
  if (!is_address(listen.value)) {
    report.add(ErrorCode::bad_address, listen.at, listen.path,
               fmt::format("expected host:port, got {}; write for example \"127.0.0.1:0\" or \"[::1]:7000\"",
                           quoted(listen.value)));
    return;
  }
  if (listen.value.ends_with(":0")) return;  // the system chooses a free port
  const auto [first, is_new] = seen.addresses.emplace(listen.value, listen.at);
  if (is_new) return;
  report.add(ErrorCode::duplicate_address, listen.at, listen.path,
             fmt::format("expected an address of its own, got {} again (first {}); take another port, or 0",
                         listen.value, describe_position(first->second)));
}

void read_node(const Value& value, Seen& seen, TopologyDraft& draft, Report& report) {
  Section section(value, report);
  NodeSpec node;
  const auto name = read_name(section, "name", report);
  node.name = name.value;
  if (name) {
    const auto [first, is_new] = seen.names.emplace(name.value, name.at);
    if (!is_new) {
      report.add(ErrorCode::duplicate_node, name.at, name.path,
                 fmt::format("expected a name of its own, got {} again (first {}); rename one", name.value,
                             describe_position(first->second)));
    }
  }
  read_address(section, node, seen, report);
  const auto devices = section.required_value("devices", "a list of { kind, count, memory }");
  const auto items = devices ? read_list(*devices, {1, most_devices}, "devices", report) : std::nullopt;
  if (!items) draft.devices.valid = false;
  if (items) {
    for (const Value& item : *items) read_device(item, node, draft, report);
  }
  section.finish();
  draft.topology.nodes.push_back(std::move(node));
}

}  // namespace

void read_nodes(Section& root, TopologyDraft& draft, Report& report) {
  draft.devices.at = root.at();
  draft.devices.path = "nodes";
  const auto nodes = root.required_value("nodes", "a list of { name, listen, devices }");
  if (!nodes) return;
  draft.devices.at = nodes->at;
  const auto items = read_list(*nodes, {1, most_nodes}, "nodes", report);
  if (!items) return;
  draft.devices.valid = true;
  Seen seen;
  for (const Value& item : *items) read_node(item, seen, draft, report);
}

void check_devices(TopologyDraft& draft, Report& report) {
  const auto& devices = draft.devices;
  if (!devices || !draft.stages || !draft.replicas) return;
  const std::uint64_t needed = std::uint64_t{draft.stages.value} * draft.replicas.value, there = devices.value.size();
  if (there == needed) return;
  const bool few = there < needed;
  report.add(few ? ErrorCode::too_few_devices : ErrorCode::spare_devices, few ? draft.stages.at : devices.at,
             few ? draft.stages.path : devices.path,
             fmt::format("expected {} devices (stages {} x replicas {}), got {}; {}", needed, draft.stages.value,
                         draft.replicas.value, there,
                         few ? "raise nodes[0].devices[0].count, or take fewer stages or replicas"
                             : "the last ones stay idle"));
}

}  // namespace stagecraft
