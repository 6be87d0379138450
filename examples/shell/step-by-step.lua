-- A job that really trains is watched, broken and moved about step by step while it runs: a link becomes slow, layers
-- move, the link heals, a stage dies; and the bits are those of a run that was left alone. Twice, with the same events.
-- From the root of the checkout:
--   stagecraft script examples/shell/step-by-step.lua
local file = "examples/tiny.yaml"

local function one_run(show)
  local job = stagecraft.start{
    file = file,
    by_hand = {
      {id = "slow", ["do"] = "delay", on = {link = {2, 3}}, with = {constant = "5ms"}},
      {id = "crash", ["do"] = "kill", on = {stage = 1}},
    },
  }
  local function note(what, status)
    local layout = table.concat(status.layout, " ")
    show(("%-28s iteration %2d  %6.2f ms  layout %s"):format(what, status.iteration, status.iteration_ms, layout))
    return status.iteration_ms
  end
  local healthy = note("healthy", job:wait{iteration = 2})
  job:inject("slow")
  local slow = note("the last link takes 5 ms", job:wait{iteration = 4})
  expect(slow > 2 * healthy, "the link is not slow")
  local move = job:migrate{layers = 3, to = {stage = 2}}
  expect(move.outcome == "done", move.text)
  note("layer 3 moved to stage 2", job:status())
  job:heal("slow")
  local healed = note("the link is healed", job:wait{iteration = 9})
  expect(healed < slow, "the link is not healed")
  job:inject("crash")
  local result = job:finish()
  expect(result.ok and result.lost == 1, result.reason)
  return result
end

local first, calm = one_run(print), stagecraft.sim{file = file}
expect(first.weights_sha256 == calm.weights_sha256, "the weights are others than without all that")
local second = one_run(function() end)
expect(second.event_hash == first.event_hash, "the same script gave other events")
print(("stage 1 was lost once; weights %s, as in a run that was left alone; events %s, twice"):format(
  first.weights_sha256:sub(1, 16), first.event_hash))
