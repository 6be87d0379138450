// A topology back as YAML: what load_topology.hpp promises of describe().
#include <fmt/format.h>

#include <array>

#include "config/load_topology.hpp"
#include "config/yaml_text.hpp"

namespace stagecraft {
namespace {

std::string text_of(const LinkCost& cost) {
  return fmt::format("latency: {}, occupancy: {}, bandwidth: {}", exact(cost.latency), exact(cost.occupancy),
                     exact(cost.bandwidth));
}

std::string text_of(const CapSpec& cap) {
  switch (cap.kind) {
    case CapSpec::Kind::automatic:
      return "auto";
    case CapSpec::Kind::off:
      return "off";
    case CapSpec::Kind::fixed:
      break;
  }
  return std::to_string(cap.value);
}

std::string text_of(const DeviceSpec& device) {
  if (device.kind == DeviceKind::cpu) return fmt::format("kind: cpu, memory: {}", exact(device.memory));
  const CostTable& c = device.costs;
  return fmt::format(
      "kind: emulated, memory: {}, costs: {{ per: {}, forward: {}, backward_input: {}, backward_weight: {}, reduce: "
      "{}, "
      "step: {}, activation: {}, weight_activation: {}, boundary: {}, parameters: {} }}",
      exact(device.memory), c.per_layer ? "layer" : "stage", exact(c.forward), exact(c.backward_input),
      exact(c.backward_weight), exact(c.reduce), exact(c.step), exact(c.activation), exact(c.weight_activation),
      exact(c.boundary), exact(c.parameters));
}

std::string job_and_model(const Topology& t) {
  std::string out = fmt::format("version: 1\njob:\n  name: {}\n  seed: {}\n  iterations: {}\n", in_quotes(t.job.name),
                                t.job.seed, t.job.iterations);
  const ModelSpec& m = t.model;
  out += fmt::format("model:\n  layers: {}\n", m.layers);
  if (t.emulated()) return out;
  return out + fmt::format(
                   "  width: {}\n  heads: {}\n  kv_heads: {}\n  hidden: {}\n  context: {}\n  vocabulary: bytes  "
                   "# {}\n  tied_embeddings: {}\n  rope_theta: {}\n  norm_epsilon: {}\n",
                   m.width, m.heads, m.kv_heads, m.hidden, m.context, m.vocabulary, m.tied_embeddings, m.rope_theta,
                   m.norm_epsilon);
}

std::string data(const DataSpec& d) {
  std::string out = "data:\n  sources:\n";
  for (const SourceSpec& source : d.sources) {
    out += fmt::format("    - files: {}\n      exclude: [", in_quotes(source.files));
    for (std::size_t i = 0; i < source.exclude.size(); ++i) out += (i ? ", " : "") + in_quotes(source.exclude[i]);
    out += "]\n";
    if (source.split) out += fmt::format("      split: {}\n", in_quotes(*source.split));
  }
  return out + fmt::format("  micro_batch_tokens: {}\n", d.micro_batch_tokens);
}

std::string training(const TrainingSpec& t) {
  constexpr std::array<std::string_view, 3> rate_names{"constant", "cosine", "linear"};  // by RateSchedule
  const OptimizerSpec& o = t.optimizer;
  std::string out = fmt::format(
      "training:\n  micro_batches: {}\n  logical_shards: {}\n  kernels: {}\n  optimizer:\n    kind: adamw\n    "
      "learning_rate: {}\n    "
      "beta1: {}\n    beta2: {}\n    epsilon: {}\n    weight_decay: {}\n    clip: {}\n    schedule:\n      kind: {}\n  "
      "    "
      "warmup_steps: {}\n",
      t.micro_batches, t.logical_shards, name_of(t.kernels), o.learning_rate, o.beta1, o.beta2, o.epsilon,
      o.weight_decay, o.clip, rate_names.at(static_cast<std::size_t>(o.schedule)), o.warmup_steps);
  if (o.schedule != RateSchedule::constant) out += fmt::format("      final_fraction: {}\n", o.final_fraction);
  return out;
}

std::string pipeline(const PipelineSpec& p) {
  std::string out = fmt::format(
      "pipeline:\n  stages: {}\n  chunks: {}\n  replicas: {}\n  layout: [{}]\n  schedule: {}\n  dispatch: {}\n",
      p.stages, p.chunks, p.replicas, fmt::join(p.layout, ", "), name_of(p.schedule), name_of(p.dispatch));
  if (!p.warmup.empty()) out += fmt::format("  warmup: [{}]\n", fmt::join(p.warmup, ", "));
  return out + fmt::format("  caps:\n    activations: {}\n    pending_weights: {}\n", text_of(p.activations),
                           text_of(p.pending_weights));
}

// Equal devices that follow each other share an entry.
std::string nodes(const std::vector<NodeSpec>& specs) {
  constexpr std::size_t most_of_an_entry = 4096;
  std::string out = "nodes:\n";
  for (const NodeSpec& node : specs) {
    out += fmt::format("  - name: {}\n    listen: {}\n    devices:\n", in_quotes(node.name), in_quotes(node.listen));
    for (std::size_t i = 0; i < node.devices.size();) {
      const std::string device = text_of(node.devices[i]);
      std::size_t end = i + 1;
      while (end < node.devices.size() && end - i < most_of_an_entry && text_of(node.devices[end]) == device) ++end;
      out += fmt::format("      - {{ count: {}, {} }}\n", end - i, device);
      i = end;
    }
  }
  return out;
}

std::string text_of(const RouteSpec& route) {
  if (route == RouteSpec{}) return {};
  return fmt::format(", route: {}, admission: {}, delegates: {}, staging: {}, detour: {}, detour_after: {}",
                     name_of(route.policy), route.admission, route.delegates, exact(route.staging), exact(route.detour),
                     exact(route.detour_after));
}

std::string links(const LinksSpec& spec) {
  std::string out = fmt::format("links:\n  defaults:\n    credits: {}\n  overrides:\n",
                                spec.credits ? std::to_string(*spec.credits) : "auto");
  bool any = false;
  for (const LinkSpec& link : spec.links) {
    if (link.cost.free() && link.route == RouteSpec{}) continue;
    const std::string direction = !link.direction                         ? ""
                                  : *link.direction == Direction::forward ? "direction: forward, "
                                                                          : "direction: backward, ";
    out += fmt::format("    - {{ between: [{}, {}], {}{}{} }}\n", link.from.value, link.to.value, direction,
                       text_of(link.cost), text_of(link.route));
    any = true;
  }
  if (!any) out.replace(out.rfind("overrides:\n"), std::string_view("overrides:\n").size(), "overrides: []\n");
  return out;
}

}  // namespace

std::string describe(const Topology& t) {
  std::string out = job_and_model(t);
  if (t.data) out += data(*t.data);
  out += training(t.training) + pipeline(t.pipeline) + nodes(t.nodes) + links(t.links);
  out +=
      fmt::format("timeouts:\n  operation: {}\n  iteration: {}\n  stage: {}\n  node: {}\n", exact(t.timeouts.operation),
                  exact(t.timeouts.iteration), exact(t.timeouts.stage), exact(t.timeouts.node));
  out += fmt::format("recovery: {{ twins: {}, attempts: {}, detect_after: {} }}\n", t.recovery.twins,
                     t.recovery.attempts, exact(t.recovery.detect_after));
  if (!t.security.certificates.empty())
    out += fmt::format("security:\n  certificates: {}\n", in_quotes(t.security.certificates));
  out += fmt::format("checkpoint:\n  dir: {}\n  every: {}\n  keep: {}\n", in_quotes(t.checkpoint.dir),
                     t.checkpoint.every, t.checkpoint.keep);
  return out + fmt::format("output:\n  dir: {}\n", in_quotes(t.output.dir));
}

}  // namespace stagecraft
