#include "config/error_tables.hpp"

namespace stagecraft {
namespace {

using enum ErrorCode;
using enum Severity;

// Each page: code, severity, sentence, explanation, example.
constexpr ErrorPage pages[] = {
    {unknown_version, error, "The file is of a version that this program does not read.",
     "This program reads version 1. Nothing else of the file is judged, because keys may mean something else there.",
     "version: 2   # write version: 1"},
    {layout_length, error, "The layout has not one entry per chunk.",
     "`pipeline.layout` lists the layers of each chunk in model order, so it has stages x chunks entries.",
     "pipeline: { stages: 4, layout: [8, 8, 8] }   # 4 entries, or layout: auto"},
    {layout_sum, error, "The layers of the layout do not add up to the model's.",
     "A layout that holds fewer layers would quietly train a smaller model. The message gives both sums and the "
     "layout that `auto` would choose.",
     "model: { layers: 30 }\npipeline: { stages: 4, layout: [7, 7, 7, 7] }   # 28; write [8, 8, 7, 7] or auto"},
    {too_few_devices, error, "There are fewer devices than stages x replicas.",
     "Each stage of each replica has a device of its own. Add devices or take fewer stages or replicas. More cpu "
     "devices than cores is allowed.",
     "pipeline: { stages: 4, replicas: 2 }\nnodes: [{ name: n0, devices: [{ kind: cpu, count: 4, memory: 2GiB }] }]   "
     "# count: 8"},
    {mixed_devices, error, "The file has devices of different kinds.",
     "Real arithmetic and emulated costs cannot feed each other. Use one kind for all devices of a file.",
     "devices: [{ kind: cpu, memory: 2GiB }, { kind: emulated, memory: 2GiB, costs: { forward: 10ms } }]"},
    {heads_and_width, error, "The width is not a multiple of the number of heads.",
     "Each head takes width / heads numbers of every token.", "model: { width: 256, heads: 6 }   # heads: 8"},
    {odd_head_size, error, "The head size (width / heads) is odd.", "Rotary position embeddings turn pairs of numbers.",
     "model: { width: 24, heads: 8 }   # head size 3; heads: 4"},
    {kv_heads_and_heads, error, "The number of heads is not a multiple of kv_heads.",
     "In grouped-query attention each key/value head serves heads / kv_heads query heads.",
     "model: { heads: 8, kv_heads: 3 }   # 1, 2, 4 or 8"},
    {micro_batch_too_small, error, "A micro-batch cannot hold the longest piece of a document.",
     "Documents are cut into pieces of at most `model.context` tokens and packed into micro-batches of "
     "`data.micro_batch_tokens`; a piece is never split between two.",
     "model: { context: 512 }\ndata: { micro_batch_tokens: 256 }   # at least 512"},
    {shards_not_power_of_two, error, "logical_shards is not a power of two.",
     "Gradients are added along a fixed binary tree over the logical shards, so that any number of replicas gives the "
     "same bits.",
     "training: { logical_shards: 6 }   # 4 or 8"},
    {shards_below_replicas, error, "There are fewer logical shards than replicas.",
     "Each replica owns at least one logical shard.",
     "training: { logical_shards: 2 }\npipeline: { replicas: 4 }   # logical_shards: 4"},
    {replicas_above_micro_batches, error, "There are more replicas than micro-batches.",
     "`training.micro_batches` counts those of all replicas together; a replica without any would have nothing to do.",
     "training: { micro_batches: 2 }\npipeline: { replicas: 4 }   # micro_batches: 8"},
    {chunks_need_schedule, error, "The schedule cannot run so many chunks per stage.",
     "`zb-v`, `v-half` and `v-min` run two chunks per stage, in a V. `interleaved` and `bfs` take any number. The "
     "other "
     "schedules know one.",
     "pipeline: { stages: 4, chunks: 2, schedule: 1f1b }   # schedule: interleaved"},
    {warmup_length, error, "The list of warm-ups has not one entry per stage.",
     "`pipeline.warmup` gives for each stage how many forwards start before its first backward.",
     "pipeline: { stages: 4, warmup: [4, 3] }   # [4, 3, 2, 1]"},
    {warmup_without_list, error, "Warm-ups are given for a schedule that has none.",
     "`gpipe` and `bfs` run all forwards before the first backward, the V schedules have a pattern of their own, and "
     "`zb-auto` and `planned` choose. Take `1f1b`, `interleaved`, `zb-h1`, `zb-h2` or `pipemorph`, or remove the key.",
     "pipeline: { stages: 4, schedule: gpipe, warmup: [4, 3, 2, 1] }"},
    {cap_below_chunks, error, "A cap is below the number of chunks per stage.",
     "A micro-batch needs a place for each of its chunks on a stage; with fewer places the pipeline could stop for "
     "good.",
     "pipeline: { stages: 2, chunks: 4, schedule: bfs, caps: { activations: 3 } }   # at least 4"},
    {timeout_ladder, error, "The timeouts do not grow from operation to node.",
     "Each deadline must be longer than the one it contains: operation < iteration < stage < node. Otherwise the outer "
     "one would fire first and hide the cause. The defaults are 60s, 300s, 330s and 360s.",
     "timeouts: { iteration: 400s }   # then also stage: 430s, node: 460s"},
    {not_neighbours, error, "`between` names two stages that no link joins.",
     "Links join neighbouring stages, and the last stage and the first when there are two or more chunks. Stages count "
     "from 0.",
     "links: { overrides: [{ between: [0, 2], latency: 20ms }] }   # [0, 1] and [1, 2]"},
    {duplicate_node, error, "Two nodes have the same name.", "`stagecraft node FILE --name` must find exactly one.",
     "nodes: [{ name: n0 }, { name: n0 }]   # n0 and n1"},
    {bad_address, error, "An address is not host:port.",
     "The host is a name, an IPv4 address, or an IPv6 address in brackets; the port is 0 to 65535, and 0 lets the "
     "system choose.",
     "listen: \"127.0.0.1\"   # \"127.0.0.1:0\"; for IPv6 \"[::1]:0\""},
    {not_available_yet, error, "A feature that this version does not have yet.",
     "The word is part of the format but this version cannot do it. The message lists what it can do.",
     "nodes: [{ name: n0, devices: [{ kind: cuda, memory: 80GiB }] }]   # cpu or emulated"},
    {costs_on_cpu, error, "A cpu device has a cost table.",
     "Costs belong to emulated devices; a cpu device takes the time that it takes.",
     "devices: [{ kind: cpu, memory: 2GiB, costs: { forward: 10ms } }]   # kind: emulated"},
    {duplicate_address, error, "Two nodes listen on the same address and port.",
     "The second one could not start. Use different ports, or port 0.",
     "nodes: [{ name: n0, listen: \"10.0.0.1:7000\" }, { name: n1, listen: \"10.0.0.1:7000\" }]"},
    {too_many_operators, error, "An iteration would have more than 16,777,216 forward operators.",
     "Micro-batches x stages x chunks is the number of forwards in one iteration. The limit keeps a schedule from "
     "taking all memory.",
     "training: { micro_batches: 65536 }\npipeline: { stages: 1024 }"},
    {kernels_missing, error, "The kernels are those of a library that this build does not have.",
     "The library is looked for when the build is configured. Install its development files and build again, or take "
     "the exact kernels, which are always there.",
     "training: { micro_batches: 8, kernels: onednn }   # kernels: exact"},

    {spare_devices, warning, "There are more devices than stages x replicas.",
     "The devices at the end of the file stay idle.",
     "pipeline: { stages: 4 }\nnodes: [{ name: n0, devices: [{ kind: cpu, count: 8, memory: 2GiB }] }]"},
    {unused_key, warning, "A key that has no effect here.",
     "For example the model's width on emulated devices, whose costs come from the cost table: of the model only "
     "`layers` counts there. The value is checked and then ignored.",
     "model: { layers: 32, width: 4096 }   # with kind: emulated"},
    {few_micro_batches, warning, "There are fewer micro-batches than stages.",
     "It runs, but most of the time most stages wait. The message gives the share of the bubble for stages of equal "
     "cost and micro-batches per replica: 1 - micro_batches x chunks / (stages x chunks + micro_batches - 1).",
     "training: { micro_batches: 2 }\npipeline: { stages: 8 }   # bubble 78 %"},
    {empty_chunks, warning, "Some chunks have no layers.",
     "There are more chunks than layers, or the layout says 0. Such a chunk only hands tensors on.",
     "model: { layers: 3 }\npipeline: { stages: 4 }   # layout [1, 1, 1, 0]"},
    {link_stated_twice, warning, "The same value of the same link is given twice.", "The later entry counts.",
     "overrides: [{ between: [0, 1], latency: 20ms }, { between: [0, 1], latency: 30ms }]"},
    {default_shards, note, "logical_shards is not given; the smallest power of two that fits is taken.",
     "It is part of the job's identity: a run with another value gives other bits, and can have at most that many "
     "replicas. Write it down if the job may grow.",
     "training: { micro_batches: 8 }   # takes logical_shards: 1 with one replica"},
    {empty_shards, warning, "There are more logical shards than micro-batches.",
     "Some shards stay empty; they cost memory and time in the reduction.",
     "training: { micro_batches: 4, logical_shards: 16 }"},
    {uneven_replicas, warning, "The replicas get different shares of the work.",
     "Micro-batches or logical shards are not a multiple of the replicas, so every iteration waits for the replica "
     "with the most.",
     "training: { micro_batches: 8, logical_shards: 4 }\npipeline: { replicas: 3 }"},
    {many_micro_batches, warning, "There are more than 1024 micro-batches per replica.",
     "The bubble is already negligible at a few times the number of stages; more only makes iterations longer. Larger "
     "micro-batches use the device better.",
     "training: { micro_batches: 20000 }\npipeline: { stages: 4 }"},
    {few_credits, warning, "There are fewer credits than chunks, or only one.",
     "A credit is a place for one arriving tensor. With one, the sender waits until the receiver has taken the last "
     "tensor, so sending and computing hardly overlap. `auto` takes what the plan needs.",
     "links: { defaults: { credits: 1 } }"},
    {warmup_above_work, warning, "A warm-up is larger than the number of forwards of its stage.",
     "A stage has micro-batches per replica x chunks forwards in an iteration; the warm-up counts as that.",
     "training: { micro_batches: 2 }\npipeline: { stages: 2, warmup: [8, 1] }"},
    {rate_never_reached, warning, "The warm-up of the learning rate is longer than the run.",
     "The rate grows from 0 during `warmup_steps` iterations; the run ends before it is reached.",
     "job: { iterations: 10 }\ntraining: { optimizer: { schedule: { kind: cosine, warmup_steps: 100 } } }"},
    {relaxed_consistency, warning, "The matrix products are a library's: the bits are not promised.",
     "`kernels: onednn` is faster, but the library picks its order of additions from the shapes, its version and the "
     "CPU. A run that is repeated in the same place gives the same bits; another CPU, another version or another size "
     "of the micro-batches may not. A checkpoint remembers the kernels, and is continued with the same ones only.",
     "training: { micro_batches: 8, kernels: onednn }   # kernels: exact"},
};

}  // namespace

std::span<const ErrorPage> topology_pages() { return pages; }

}  // namespace stagecraft
