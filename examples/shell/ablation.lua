-- What each part does for a link that, in the midst of a run, holds each message for 60 ms instead of 1: how operators
-- are chosen (static, reactive, follow), whether the list is planned again, and whether tensors go over delegates while
-- the link holds up its devices. A job of schedule zb-h2 keeps its list; one of schedule planned begins with the same
-- iteration time, hears of the slow link, and plans anew (reactive dispatch has no list, so there is nothing to plan).
-- From the root of the checkout:
--   stagecraft script examples/shell/ablation.lua
local struck, iterations = 20, 44

local function iterations_of(point)
  local run = stagecraft.sim{
    file = "examples/worked-example.yaml",
    iterations = iterations,
    -- More receive slots than the plan without the delay needs: it is the order that is looked at, not the credits.
    set = {"pipeline.dispatch=" .. point.dispatch, "pipeline.schedule=" .. point.schedule, "pipeline.warmup=auto",
           "links.defaults.credits=16", "links.defaults.occupancy=1ms", "links.defaults.staging=1ms",
           "links.defaults.delegates=8", "links.defaults.route=" .. point.route},
    faults = {{id = "slow", at = {iteration = struck}, ["do"] = "throttle", on = {link = {0, 1}}, with = {factor = 60}}},
  }
  expect(run.ok and #run.never_struck == 0, run.reason)
  return run.iteration_ms
end

local rows, last = table_of{"dispatch", "replanning", "delegation", "before_ms", "struck_ms", "last_ms"}, {}
for point in stagecraft.sweep{{"dispatch", {"static", "reactive", "follow"}}, {"schedule", {"zb-h2", "planned"}},
                              {"route", {"direct", "auto"}}} do
  local ms = iterations_of(point)
  local replans, delegates = point.schedule == "planned" and "on" or "off", point.route == "auto" and "on" or "off"
  rows:add{point.dispatch, replans, delegates, ms[struck - 1], ms[struck], ms[iterations]}
  last[point.dispatch .. " " .. replans .. " " .. delegates] = ms[iterations]
end
rows:print()

local function better(one, other, what) expect(last[one] < last[other], what .. ": " .. one .. ", " .. other) end
better("static off on", "static off off", "delegates do not help a fixed order")
better("static on on", "static off on", "planning anew does not help a fixed order")
better("reactive off on", "reactive off off", "delegates do not help dispatch by readiness")
better("follow off on", "follow off off", "delegates do not help a list that is followed")
better("follow off on", "static off on", "following the list is no better than keeping to its order")
better("follow on on", "follow off on", "planning anew does not help a list that is followed")
