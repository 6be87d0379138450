#include "config/error_tables.hpp"

namespace stagecraft {
namespace {

using enum ErrorCode;
using enum Severity;

// Each page: code, severity, sentence, explanation, example.
constexpr ErrorPage pages[] = {
    {one_of_keys, error, "Of several keys that exclude one another, none or more than one is given.",
     "A fault has one trigger (`at`, `when` or `every`; none of them: it strikes at the start), one target, one "
     "measure "
     "of its duration, and an expectation is one thing. The message lists the keys.",
     "faults: [{ id: f, at: { iteration: 5, time: 10s }, do: kill, on: { stage: 1 } }]   # at: { iteration: 5 }"},
    {wrong_target, error, "The fault cannot strike this kind of target.",
     "A delay strikes a link, a crash a stage or a twin, a partition lies between two different nodes. "
     "docs/scenarios.md lists what each fault strikes.",
     "faults: [{ id: f, do: delay, on: { stage: 1 }, with: { mean: 30ms } }]   # on: { link: [0, 1] }"},
    {key_not_of_fault, error, "The fault does not take this key.",
     "`with` is for faults that have arguments, and `for` is for faults that last. A crash, a failed operator or a "
     "disk "
     "fault is over in the moment in which it strikes.",
     "faults: [{ id: f, do: kill, on: { stage: 1 }, for: { iterations: 3 } }]   # remove for"},
    {filter_not_of_event, error, "The event does not have what the trigger asks of it.",
     "Only operators have a micro-batch, and only what happens on a stage has a stage and a replica. Such a condition "
     "could never be met.",
     "when: { event: committed, stage: 2 }   # when: { event: ready, stage: 2 }"},
    {duplicate_fault, error, "Two faults have the same id.",
     "Expectations name a fault by its id, and so does the report of a run.",
     "faults: [{ id: crash, do: kill, on: { stage: 1 } }, { id: crash, do: kill, on: { stage: 2 } }]   # crash-2"},
    {unknown_fault, error, "An expectation names a fault that the scenario does not have.",
     "`during` and `after` take the id of a fault of the same file.",
     "faults: [{ id: slow, do: slow, on: { stage: 1 }, with: { factor: 2 } }]\n"
     "expect: [iteration_time: { during: slwo, at_most: 2x }]   # during: slow"},
    {nothing_to_measure, error, "No iteration is left that the expectation could look at.",
     "`settle` takes away as many iterations as the fault lasts, or as the job has left after it; or the fault strikes "
     "once, so that nothing is during it; or it lasts to the end, so that nothing is after it. The expectation would "
     "hold whatever happens.",
     "faults: [{ id: f, do: slow, on: { stage: 1 }, with: { factor: 2 }, for: { iterations: 3 } }]\n"
     "expect: [iteration_time: { during: f, settle: 3, at_most: 2x }]   # settle: 1"},
    {never_fires, error, "The fault can never strike.",
     "Its trigger waits for an iteration beyond the job or the calm, for a time beyond the deadline, or for an event "
     "that this job does not have: a weight gradient of its own where the backward is in one piece, a save where no "
     "checkpoints are kept, a recovery where nothing else fails. A scenario that passes because nothing happened is "
     "worse than none.",
     "at: { iteration: 50 }   # with job.iterations: 40"},
    {not_in_real_world, error, "The real world cannot make this fault.",
     "Losing and reordering control messages, partitions, wrong clocks and broken disks need the simulated control "
     "plane, clock and disk of the virtual world. Links, devices and actors can fail in both.",
     "world: real\nfaults: [{ id: f, do: drop, with: { probability: 0.01 } }]   # world: virtual"},
    {no_such_link, error, "`link` names two stages that no link of the topology joins.",
     "Links join neighbouring stages, and the last stage and the first when there are two or more chunks and no V. "
     "Stages count from 0.",
     "on: { link: [0, 2] }   # [0, 1] or [1, 2]"},
    {no_such_place, error, "The topology has no such stage, replica or micro-batch.",
     "All of them count from 0. The message says how many there are.", "on: { stage: 4 }   # with pipeline.stages: 4"},
    {no_such_node, error, "The topology has no node of this name.", "The message lists the nodes of the topology.",
     "on: { nodes: [n0, n7] }   # with nodes n0 and n1"},
    {nothing_computed, error, "Emulated devices compute nothing that could go wrong.",
     "`nan` spoils a number that an operator computes. Take a topology with cpu devices, or another fault.",
     "faults: [{ id: f, do: nan, on: { stage: 1 } }]   # with kind: emulated"},
    {no_checkpoints, error, "The job keeps no checkpoints.",
     "Disk faults strike the disk of the checkpoints, and an expectation about checkpoints needs some. The topology "
     "says `checkpoint.every: 0`, which is the default.",
     "set: [\"checkpoint.every=10\"]   # in the scenario"},
    {beyond_the_job, error, "The job has fewer iterations than that.",
     "So many can't be committed or kept, or the calm would begin when all is over. The message has job.iterations of "
     "the topology, which `set` can change.",
     "expect: [committed: { at_least: 50 }]   # with job.iterations: 40"},
    {impossible_move, error, "The layers cannot move like that.",
     "Layers keep their order, so a stage gets the last ones of the chunk before one of its own, or the first ones of "
     "the "
     "chunk behind it; a whole `layout` can move more at once. A move needs twins, which follow the layers, and two "
     "iterations before it is in force. Moves are looked at one after the other, each under the layout that the one "
     "before has left.",
     "moves: [{ at: { iteration: 5 }, layers: 2, to: { stage: 0 } }]   # layers: 1-2, where stage 1 begins with 1"},
};

}  // namespace

std::span<const ErrorPage> scenario_pages() { return pages; }

}  // namespace stagecraft
