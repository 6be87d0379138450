-- A stage becomes a little slower while the job runs. The detector's threshold is lowered in the running job, so that it
-- says so; then a layer moves away from that stage. Twice, with the same events. From the root of the checkout:
--   stagecraft script examples/shell/move-under-load.lua
local function run(seed)
  local job = stagecraft.start{
    file = "examples/worked-example.yaml",
    seed = seed,
    iterations = 90,
    set = {"model.layers=8", "pipeline.layout=[2, 2, 2, 2]", "recovery.twins=true"},
    faults = {},
  }
  local rows = table_of{"iteration", "ms", "what"}
  local function note(what)
    local status = job:status()
    rows:add{status.iteration, status.iteration_ms, what}
    return status.iteration_ms
  end
  expect(job:say("set smallest 0.3").outcome == "done")
  job:wait{iteration = 20}
  local healthy = note("healthy")
  job:say("inject slow on stage/2 factor 1.15")
  job:wait{iteration = 35}
  local slow = note("stage 2 is 15 % slower")
  expect(slow > healthy, "it costs nothing")
  expect(not job:decided("straggler"), "less than 30 % is nobody's business")
  expect(job:say("set smallest 0.08").outcome == "done")
  expect(job:wait_until(function() return job:decided("straggler") end, 20), "8 % is, and it is not found")
  local found = job:decided("straggler").what
  expect(found:find("stage 2", 1, true), "another one is blamed: " .. found)
  note("found: " .. found:match("^straggler: ([^,;]+)"))
  local move = job:say("migrate layers 5 to stage/3")
  expect(move.outcome == "done", move.text)
  job:wait{iteration = move.iteration + 2}
  note("layer 5 has moved to stage 3")
  local result = job:finish()
  expect(result.ok and result.moves == 1, result.reason)
  return result, rows
end

local first, rows = run(1)
rows:print()
expect(run(1).event_hash == first.event_hash, "the same seed has other events")
expect(run(2).weights_sha256 == first.weights_sha256, "another order of events changed a digest")
