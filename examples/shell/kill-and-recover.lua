-- A stage dies at some message of a run that really trains, under several seeds: it is built anew from its twin, the
-- iteration is begun again, and not one bit is other than without the death. From the root of the checkout:
--   stagecraft script examples/shell/kill-and-recover.lua
local file = "examples/tiny.yaml"
local calm = stagecraft.sim{file = file}
expect(calm.ok and calm.lost == 0, calm.reason)

local rows, delays = table_of{"event", "stage", "seed", "lost", "begun_again", "slowest_ms", "bits"}, {}
for point in stagecraft.sweep{{"event", {"forward_started", "backward_done", "ready"}}, {"stage", {0, 2}}, {"seed", {1, 2}}} do
  local run = stagecraft.sim{
    file = file,
    seed = point.seed,
    faults = {{id = "crash", ["do"] = "kill", on = {stage = point.stage},
               when = {event = point.event, stage = point.stage, iteration = 5}}},
    expect = [[
      - loss: { equals: fault_free, tolerance: exact }
      - never: [stale_epoch_accepted, step_before_commit, micro_batch_twice, left_behind]
    ]],
  }
  local why = run.broken[1]
  expect(run.ok, why and why.what .. ": " .. why.text)
  expect(run.lost == 1, ("%d were lost, not one stage"):format(run.lost))
  local same = run.weights_sha256 == calm.weights_sha256 and run.moments_sha256 == calm.moments_sha256
  expect(same, "the weights are others than without the death")
  local slowest = math.max(table.unpack(run.iteration_ms))
  delays[#delays + 1] = slowest - calm.median_ms
  rows:add{point.event, point.stage, point.seed, run.lost, run.begun_again, slowest, "the same"}
end
rows:print()
print(("a death costs the iteration %.2f ms in the median, %.2f ms at most"):format(stats.median(delays),
                                                                                stats.percentile(delays, 100)))
