#include "model/job_plan.hpp"

#include <algorithm>
#include <numeric>

#include "config/load_topology.hpp"
#include "model/digest.hpp"
#include "model/llama.hpp"
#include "planning/bug.hpp"

namespace stagecraft {

namespace {

// Chunk c holds the embedding if it is the first, its layers, and the head if it is the last.
std::vector<Range> units_of_chunks(const Topology& topology) {
  std::vector<Range> units;
  std::uint32_t next = 1;
  for (const std::uint32_t layers : topology.pipeline.layout) {
    units.push_back({next, next + layers});
    next += layers;
  }
  STAGECRAFT_ASSERT(next == topology.model.layers + 1, "the layout holds {} layers, the model {}", next - 1,
                    topology.model.layers);
  units.front().begin = 0;
  units.back().end = topology.model.layers + 2;
  return units;
}

std::uint32_t layers_of_stage(const Topology& topology, std::uint32_t stage) {
  const auto layers = topology.pipeline.layers_of(StageId{stage});
  return std::accumulate(layers.begin(), layers.end(), 0U);
}

// One for all stages where they compute; emulated ones differ in what they charge, and share the rest.
std::vector<std::shared_ptr<const Arithmetic>> arithmetic_of_stages(const Topology& topology) {
  const ModelSpec& model = topology.model;
  const std::uint32_t stages = topology.pipeline.stages;
  if (!topology.emulated())
    return {stages, std::make_shared<LlamaArithmetic>(model, topology.job.seed, kernels_of(topology.training.kernels))};
  std::vector<std::shared_ptr<const Arithmetic>> all;
  const DigestArithmetic first(model.layers, model.tied_embeddings, topology.job.seed, {}, 1);
  for (std::uint32_t s = 0; s < stages; ++s)
    all.push_back(
        std::make_shared<DigestArithmetic>(first, topology.device({{s}, {0}}).costs, layers_of_stage(topology, s)));
  return all;
}

std::uint32_t capacity(const Topology& topology) { return topology.data ? topology.data->micro_batch_tokens : 1; }

Duration scaled(Duration d, std::uint32_t times, std::uint32_t parts) { return d * times / std::max(parts, 1U); }

OperatorTimes emulated_times(const Topology& topology, std::uint32_t chunk) {
  const PipelineSpec& pipeline = topology.pipeline;
  const CostTable& costs = topology.device({pipeline.shape().stage_of({chunk}), {0}}).costs;
  const std::uint32_t times = costs.per_layer ? pipeline.layout[chunk] : 1;
  const std::uint32_t parts = costs.per_layer ? 1 : pipeline.chunks;
  return {scaled(costs.forward, times, parts), scaled(costs.backward_input, times, parts),
          scaled(costs.backward_weight, times, parts)};
}

OperatorTimes cpu_times(const Topology& topology, const Arithmetic& arithmetic, Range units) {
  const std::uint32_t tokens = capacity(topology), document = std::min(tokens, topology.model.context);
  const auto time = [&](OperatorKind kind) {
    double flops = 0;
    for (std::uint32_t u = units.begin; u < units.end; ++u)
      flops += arithmetic.flops(UnitId{u}, kind, tokens, document);
    return Duration(static_cast<std::int64_t>(flops / assumed_cpu_flops * 1e9));
  };
  return {time(OperatorKind::forward), time(OperatorKind::backward_input), time(OperatorKind::backward_weight)};
}

ChunkBytes bytes_of_chunk(const Arithmetic& arithmetic, Range units, std::uint32_t tokens, Bytes input) {
  ChunkBytes bytes;
  bytes.input = input;
  for (std::uint32_t u = units.begin; u < units.end; ++u) {
    const ActivationBytes a = arithmetic.activation_bytes(UnitId{u}, tokens);
    bytes.activation += a.after_forward;
    bytes.weight_activation += a.after_backward_input;
    if (u + 1 < units.end) bytes.activation += a.output;  // kept as the input of the next unit
    bytes.output = a.output;
    for (Bytes* scratch : {&bytes.forward_scratch, &bytes.backward_scratch, &bytes.weight_scratch})
      *scratch = std::max(*scratch, a.scratch);
    for (const GroupId g : arithmetic.groups_of(UnitId{u}))
      bytes.gradient += arithmetic.charged(g, arithmetic.elements(g));
  }
  // Behind the embedding nothing is sent, but the gradient that reaches it is there for a moment.
  if (units.begin == 0 && units.size() > 1)
    bytes.backward_scratch += arithmetic.activation_bytes(UnitId{1}, tokens).input_gradient;
  if (units.size() == 0) bytes.output = input;
  return bytes;
}

// Plays the binary counter of shards: how many buffers are alive while and after each micro-batch's W.
std::vector<GradientBuffers> gradient_buffers(const Topology& topology, ReplicaId replica) {
  const std::uint32_t shards = topology.training.logical_shards, total = topology.training.micro_batches;
  const Range own = shards_of(replica, topology.pipeline.replicas, shards);
  std::vector<GradientBuffers> result;
  std::vector<Range> stack;  // of present subtrees
  std::vector<bool> present;
  const auto alive = [&] { return static_cast<std::uint32_t>(std::count(present.begin(), present.end(), true)); };
  for (std::uint32_t s = own.begin; s < own.end; ++s) {
    const Range batches = micro_batches_of_shard(s, shards, total);
    for (std::uint32_t m = batches.begin; m < batches.end; ++m) result.push_back({alive() + 1, alive() + 1});
    stack.push_back({s, s + 1});
    present.push_back(batches.size() > 0);
    while (stack.size() > 1 && can_merge(stack[stack.size() - 2], stack.back())) {
      stack[stack.size() - 2].end = stack.back().end;
      present[present.size() - 2] = present[present.size() - 2] || present.back();
      stack.pop_back();
      present.pop_back();
    }
    if (!result.empty()) result.back().after = alive();  // absent shards behind it close with it
  }
  return result;
}

std::vector<LinkCost> link_costs(const Topology& topology, Direction direction) {
  const PipelineShape shape = topology.pipeline.shape();
  std::vector<LinkCost> costs;
  for (std::uint32_t b = 0; b + 1 < shape.total_chunks(); ++b)
    costs.push_back(link_cost(topology, shape.stage_of({b}), shape.stage_of({b + 1}), direction));
  return costs;
}

PlanRequest request_for(const Topology& topology, const JobPlan& job, ReplicaId replica,
                        const std::vector<ChunkBytes>& bytes) {
  const PipelineSpec& pipeline = topology.pipeline;
  const Range batches =
      micro_batches_of(replica, pipeline.replicas, topology.training.logical_shards, topology.training.micro_batches);
  PlanRequest request;
  request.shape = pipeline.shape();
  request.shape.first = MicroBatch{batches.begin};
  request.shape.micro_batches = batches.size();
  request.schedule = pipeline.schedule;
  request.dispatch = pipeline.dispatch;
  request.warmup = pipeline.warmup;
  request.activations = pipeline.activations;
  request.pending_weights = pipeline.pending_weights;
  request.credits = topology.links.credits;
  request.times = job.times;
  request.forward_links = link_costs(topology, Direction::forward);
  request.backward_links = link_costs(topology, Direction::backward);
  request.bytes = bytes;
  request.buffers = gradient_buffers(topology, replica);
  return request;
}

std::vector<MemoryEstimate> estimate(const JobPlan& job, const PipelinePlan& plan, ReplicaId replica,
                                     std::uint32_t replicas, bool saves) {
  std::vector<MemoryEstimate> result;
  for (std::size_t s = 0; s < job.chunks.size(); ++s) {
    const Arithmetic& arithmetic = *job.arithmetic[s];
    MemoryEstimate e;
    bool has_embedding = false;
    for (const ChunkUnits& c : job.chunks[s]) has_embedding |= c.units.contains(0);
    for (const ChunkUnits& c : job.chunks[s])
      for (std::uint32_t u = c.units.begin; u < c.units.end; ++u)
        for (const GroupId g : arithmetic.groups_of(UnitId{u})) {
          if (arithmetic.tied() && g == arithmetic.head_group() && has_embedding) continue;  // shares the embedding's
          e.parameters += arithmetic.charged(g, arithmetic.elements(g));
          const std::size_t owned = owned_elements(arithmetic, g, replica, replicas);
          e.moments += Bytes{2 * arithmetic.charged(g, owned).value};
        }
    if (saves) e.snapshot = e.parameters + e.moments;
    e.working = plan.forecast.peak_bytes[s];
    result.push_back(e);
  }
  return result;
}

JobLayout lay_out(const Topology& topology, std::vector<std::shared_ptr<const Arithmetic>> arithmetic) {
  const PipelineSpec& pipeline = topology.pipeline;
  const PipelineShape shape = pipeline.shape();
  const std::vector<Range> units = units_of_chunks(topology);
  JobLayout layout{pipeline.layout, std::move(arithmetic), {}, {}};
  for (std::uint32_t s = 0; s < pipeline.stages; ++s) {
    layout.chunks.emplace_back();
    for (std::uint32_t c = 0; c < pipeline.chunks; ++c) {
      const ChunkId chunk = shape.chunk_of({s}, c);
      layout.chunks[s].push_back({chunk, units[chunk.value]});
    }
  }
  for (std::uint32_t c = 0; c < units.size(); ++c) {
    const Arithmetic& a = *layout.arithmetic[shape.stage_of({c}).value];
    layout.times.push_back(topology.emulated() ? emulated_times(topology, c) : cpu_times(topology, a, units[c]));
  }
  return layout;
}

}  // namespace

StageShare JobLayout::share(const Topology& topology, Place place) const {
  return {place, topology.pipeline.replicas, topology.training.micro_batches, topology.training.logical_shards,
          chunks[place.stage.value]};
}

JobLayout lay_out(const Topology& topology, const JobLayout& present, const Layout& layers) {
  Topology other = topology;
  other.pipeline.layout = layers;
  return lay_out(other, topology.emulated() ? arithmetic_of_stages(other) : present.arithmetic);
}

JobPlan plan_job(const Topology& topology, const NegativeControls& controls) {
  const PipelineSpec& pipeline = topology.pipeline;
  JobPlan job;
  static_cast<JobLayout&>(job) = lay_out(topology, arithmetic_of_stages(topology));
  const std::vector<Range> units = units_of_chunks(topology);
  const PipelineShape shape = pipeline.shape();
  std::vector<ChunkBytes> bytes;
  Bytes boundary;
  for (std::uint32_t c = 0; c < units.size(); ++c) {
    const Arithmetic& arithmetic = *job.arithmetic[shape.stage_of({c}).value];
    bytes.push_back(bytes_of_chunk(arithmetic, units[c], capacity(topology), boundary));
    boundary = bytes.back().output;
  }
  if (topology.emulated()) {
    job.reduce_time = topology.device({}).costs.reduce;
    job.step_time = topology.device({}).costs.step;
  }
  for (std::uint32_t g = 0; g < job.arithmetic[0]->groups(); ++g)
    if (!(job.arithmetic[0]->tied() && GroupId{g} == job.arithmetic[0]->head_group()))
      job.parameters += job.arithmetic[0]->elements(GroupId{g});
  // Without a cost table the plan's own times are guesses: it says what stages may hold, and they choose by readiness
  // until operators are measured.
  job.replans = pipeline.schedule == ScheduleKind::planned && pipeline.dispatch != Dispatch::reactive;
  job.knows_times = topology.emulated();
  for (std::uint32_t r = 0; r < pipeline.replicas; ++r) {
    job.requests.push_back(request_for(topology, job, ReplicaId{r}, bytes));
    PlanRequest first = job.requests.back();
    if (job.replans && !job.knows_times) first.dispatch = Dispatch::reactive;
    job.replicas.push_back(make_plan(first));
    for (StagePlan& plan : job.replicas.back().stages) plan.free_weight_order = controls.free_weight_order;
    job.memory.push_back(
        estimate(job, job.replicas.back(), ReplicaId{r}, pipeline.replicas, topology.checkpoint.every > 0));
  }
  return job;
}

}  // namespace stagecraft
