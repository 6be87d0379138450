// A topology while it is being read: the values with their positions, so that checks across sections can say where.
// Internal to the loader (config/load_topology.cpp and topology_*.cpp). One thread.
#pragma once

#include <optional>
#include <vector>

#include "config/common_fields.hpp"
#include "config/reader.hpp"
#include "config/topology.hpp"

namespace stagecraft {

struct TopologyDraft {
  std::optional<DeviceKind> kind;  ///< of the devices; empty when none could be read
  Field<std::vector<DeviceSpec>> devices;
  std::vector<NodeSpec> nodes;

  Field<std::uint32_t> iterations;
  Field<std::uint32_t> layers, width, heads, kv_heads, context;
  Field<std::uint32_t> micro_batch_tokens;
  Field<std::uint32_t> micro_batches, logical_shards;
  Field<std::uint32_t> warmup_steps;
  Field<std::uint32_t> stages, chunks, replicas;
  Field<ScheduleKind> schedule;
  Field<std::vector<std::uint32_t>> layout, warmup;  ///< given: a list; else `auto` or the schedule's own
  Field<CapSpec> activations, pending_weights;

  Topology topology;  ///< filled section by section
};

// The sections, in the order in which they are read: nodes first, because what a model needs depends on the devices.
void read_nodes(Section& root, TopologyDraft& draft, Report& report);
void read_job(Section& root, TopologyDraft& draft, Report& report);
void read_model(Section& root, TopologyDraft& draft, Report& report);
void read_data(Section& root, TopologyDraft& draft, Report& report);
void read_training(Section& root, TopologyDraft& draft, Report& report);
void read_pipeline(Section& root, TopologyDraft& draft, Report& report);
void read_links(Section& root, TopologyDraft& draft, Report& report);
void read_timeouts(Section& root, TopologyDraft& draft, Report& report);
void read_checkpoint(Section& root, TopologyDraft& draft, Report& report);
/// After the nodes: more than one, and there are twins by default.
void read_recovery(Section& root, TopologyDraft& draft, Report& report);
void read_security(Section& root, TopologyDraft& draft, Report& report);
void read_output(Section& root, TopologyDraft& draft, Report& report);

// Checks across sections. Each looks only at values that could be read; they fill in what follows from others.
void check_model(TopologyDraft& draft, Report& report);
void check_training(TopologyDraft& draft, Report& report);
void check_pipeline(TopologyDraft& draft, Report& report);
void check_devices(TopologyDraft& draft, Report& report);

/// "[8, 8, 7, 7]"; the middle of long lists is left out.
std::string list_text(const std::vector<std::uint32_t>& numbers);

}  // namespace stagecraft
