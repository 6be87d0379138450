#include "config/topology.hpp"

#include "planning/bug.hpp"

namespace stagecraft {

std::string_view name_of(KernelKind kernels) { return kernels == KernelKind::exact ? "exact" : "onednn"; }

std::vector<std::uint32_t> PipelineSpec::layers_of(StageId stage) const {
  std::vector<std::uint32_t> layers;
  for (std::uint32_t c = 0; c < chunks; ++c) layers.push_back(layout.at(shape().chunk_of(stage, c).value));
  return layers;
}

Topology::Seat Topology::seat(Place place) const {
  STAGECRAFT_ASSERT(place.stage.value < pipeline.stages && place.replica.value < pipeline.replicas,
                    "stage {} of replica {} in a pipeline of {} stages and {} replicas", place.stage.value,
                    place.replica.value, pipeline.stages, pipeline.replicas);
  std::size_t left = std::size_t{place.replica.value} * pipeline.stages + place.stage.value;
  for (std::uint32_t node = 0; node < nodes.size(); ++node) {
    const std::size_t here = nodes[node].devices.size();
    if (left < here) return {node, static_cast<std::uint32_t>(left)};
    left -= here;
  }
  raise_bug(__FILE__, __LINE__, "devices >= stages x replicas", "a checked topology has a device for every stage");
}

std::vector<Topology::Seat> Topology::spares() const {
  std::vector<Seat> spare;
  std::uint32_t taken = pipeline.stages * pipeline.replicas;
  for (std::uint32_t n = 0; n < nodes.size(); ++n)
    for (std::uint32_t d = 0; d < nodes[n].devices.size(); ++d)
      if (taken > 0) {
        --taken;
      } else {
        spare.push_back({n, d});
      }
  return spare;
}

const DeviceSpec& Topology::device(Place place) const {
  const Seat found = seat(place);
  return nodes[found.node].devices[found.device];
}

}  // namespace stagecraft
