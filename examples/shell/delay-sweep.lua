-- What a slow first link costs the worked example: four stages, twelve micro-batches, every operator 10 ms. Three ways of
-- running it, under the same delays in both directions: the textbook order 1F1B kept to, whatever is ready (reactive),
-- and a list that was planned for the delay and is followed. From the root of the checkout:
--   stagecraft script examples/shell/delay-sweep.lua [-- 0 5 10 ..]
local delays = #arg > 0 and {} or {0, 10, 15, 20, 30, 40, 50, 60}
for i, text in ipairs(arg) do
  delays[i] = expect(math.tointeger(text), ("expected delays in whole milliseconds, got '%s'"):format(text))
end

local ways = {
  {"1f1b static", {"pipeline.schedule=1f1b", "pipeline.dispatch=static", "pipeline.warmup=auto"}},
  {"zb-h2 static", {"pipeline.schedule=zb-h2", "pipeline.dispatch=static"}},
  {"reactive", {"pipeline.schedule=zb-h2", "pipeline.dispatch=reactive"}},
  {"planned follow", {"pipeline.schedule=planned", "pipeline.dispatch=follow", "pipeline.warmup=auto"}},
}

local function iteration_ms(way, delay)
  local set = {("links.overrides=[{between: [0, 1], latency: %dms}]"):format(delay), table.unpack(way[2])}
  local run = stagecraft.sim{file = "examples/worked-example.yaml", set = set}
  expect(run.ok, way[1] .. ": " .. run.reason)
  return run.median_ms
end

local rows = table_of{"delay_ms", ways[1][1], ways[2][1], ways[3][1], ways[4][1]}
for _, delay in ipairs(delays) do
  local row = {delay}
  for _, way in ipairs(ways) do row[#row + 1] = iteration_ms(way, delay) end
  rows:add(row)
  expect(row[5] <= row[4] and row[4] <= row[3] and row[3] <= row[2],
         ("at %d ms the order of the four ways is another one"):format(delay))
end
rows:print()
