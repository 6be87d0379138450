-- What each part does for a link that becomes 60 ms slow in the midst of a run: how operators are chosen (static,
-- reactive, follow), and whether the list is planned again. A job of schedule zb-h2 keeps its list; one of schedule
-- planned begins with the same iteration time, has a detector that finds the link, and plans anew (reactive dispatch has
-- no list, so there is nothing to plan). From the root of the checkout:
--   stagecraft script examples/shell/ablation.lua
local struck, iterations = 10, 24

local function iterations_of(point)
  local run = stagecraft.sim{
    file = "examples/worked-example.yaml",
    iterations = iterations,
    -- More receive slots than the plan without the delay needs: it is the order that is looked at, not the credits.
    set = {"pipeline.dispatch=" .. point.dispatch, "pipeline.schedule=" .. point.schedule, "pipeline.warmup=auto",
           "links.defaults.credits=16"},
    faults = {{id = "slow", at = {iteration = struck}, ["do"] = "delay", on = {link = {0, 1}}, with = {constant = "60ms"}}},
  }
  expect(run.ok and #run.never_struck == 0, run.reason)
  return run.iteration_ms
end

local rows, last = table_of{"dispatch", "replanning", "before_ms", "struck_ms", "last_ms"}, {}
for point in stagecraft.sweep{{"dispatch", {"static", "reactive", "follow"}}, {"schedule", {"zb-h2", "planned"}}} do
  local ms = iterations_of(point)
  local replans = point.schedule == "planned" and "on" or "off"
  rows:add{point.dispatch, replans, ms[struck - 1], ms[struck], ms[iterations]}
  last[point.dispatch .. " " .. replans] = ms[iterations]
end
rows:print()

expect(last["follow off"] < last["static off"], "following the list is no better than keeping to its order")
expect(last["static on"] < last["static off"], "planning anew does not help a fixed order")
expect(last["follow on"] < last["follow off"], "planning anew does not help a list that is followed")
