#include "tools/script_library.hpp"

namespace stagecraft::tools {

// Errors are raised with a level, so that they name a line of the script.
const char* const script_library = R"lua(
local fail, ask, host_show, host_write = fail, ask, host_show, host_write
local plain_load, plain_seed = load, math.randomseed

-- Texts only: Lua does not check binary chunks.
function load(chunk, name, mode, ...)
  if mode and not mode:find("t", 1, true) then error("load: binary chunks are not loaded", 2) end
  return plain_load(chunk, name, "t", ...)
end

function math.randomseed(...)
  if select("#", ...) == 0 then error("math.randomseed: expected a seed; chance comes from seeds alone", 2) end
  return plain_seed(...)
end

function expect(condition, text)
  if condition then return condition end
  fail(text == nil and "an expectation does not hold" or text)
end

-- Tables

local Rows = {}
Rows.__index = Rows

function table_of(columns)
  if type(columns) ~= "table" or #columns == 0 then
    error("table_of: expected a list of names, such as table_of{'delay_ms', 'iteration_ms'}", 2)
  end
  for i, name in ipairs(columns) do
    if type(name) ~= "string" then
      error(("table_of: expected names, got a %s as number %d"):format(type(name), i), 2)
    end
  end
  return setmetatable({columns = columns, rows = {}}, Rows)
end

function Rows:add(row)
  if type(row) ~= "table" then error("add: expected a table with a value for each column, got a " .. type(row), 2) end
  local values, given = {}, 0
  for _ in pairs(row) do given = given + 1 end
  for i, name in ipairs(self.columns) do
    values[i] = row[name]
    if values[i] == nil then values[i] = row[i] end
    if values[i] == nil then error(("add: no value for column %d, '%s'"):format(i, name), 2) end
  end
  if given ~= #self.columns then
    error(("add: expected %d values, one for each column, got %d"):format(#self.columns, given), 2)
  end
  self.rows[#self.rows + 1] = values
  return self
end

function Rows:print() host_show(self.columns, self.rows) end
function Rows:csv(path) host_write("csv", path, self.columns, self.rows) end
function Rows:json(path) host_write("json", path, self.columns, self.rows) end

-- Statistics

stats = {}

local function sorted_numbers(list, what)
  if type(list) ~= "table" or #list == 0 then error(what .. ": expected a list of one number or more", 3) end
  local sorted = {}
  for i, x in ipairs(list) do
    if type(x) ~= "number" or x ~= x then error(("%s: number %d of the list is %s"):format(what, i, tostring(x)), 3) end
    sorted[i] = x
  end
  table.sort(sorted)
  return sorted
end

local function mean_of(list)
  local sum = 0.0
  for _, x in ipairs(list) do sum = sum + x end
  return sum / #list
end

-- At position 1 + (n - 1) p / 100 of the sorted list, linear between two of its numbers.
local function percentile_of(sorted, p)
  local at = 1 + (#sorted - 1) * p / 100
  local below = math.min(math.floor(at), #sorted)
  local above = math.min(below + 1, #sorted)
  return sorted[below] + (sorted[above] - sorted[below]) * (at - below)
end

function stats.mean(list) return mean_of(sorted_numbers(list, "stats.mean")) end
function stats.median(list) return percentile_of(sorted_numbers(list, "stats.median"), 50) end
function stats.percentile(list, p)
  local sorted = sorted_numbers(list, "stats.percentile")
  if type(p) ~= "number" or not (p >= 0 and p <= 100) then
    error("stats.percentile: expected a percentage from 0 to 100, got " .. tostring(p), 2)
  end
  return percentile_of(sorted, p)
end

-- The chance that a t of so many degrees of freedom is between -t and t: the finite sums over powers of the cosine of
-- atan(t / sqrt n).
local function chance_within(t, freedom)
  local angle = math.atan(t / math.sqrt(freedom))
  local sine, cosine = math.sin(angle), math.cos(angle)
  local odd = freedom % 2 == 1
  local term, sum = odd and cosine or 1, 0
  for k = odd and 2 or 1, freedom - 1, 2 do
    sum = sum + term
    term = term * k / (k + 1) * cosine * cosine
  end
  if odd then return 2 / math.pi * (angle + sine * sum) end
  return sine * sum
end

-- Student's interval of the mean: mean -+ t s / sqrt n, with the sample deviation s and n - 1 degrees of freedom.
function stats.interval(list, confidence)
  local sorted = sorted_numbers(list, "stats.interval")
  confidence = confidence or 0.95
  if type(confidence) ~= "number" or not (confidence > 0 and confidence < 1) then
    error("stats.interval: expected a confidence between 0 and 1, such as 0.95, got " .. tostring(confidence), 2)
  end
  local n = #sorted
  if n < 2 then error("stats.interval: expected two numbers or more, got 1", 2) end
  local mean, squares = mean_of(sorted), 0.0
  for _, x in ipairs(sorted) do squares = squares + (x - mean) ^ 2 end
  local low, high = 0.0, 1.0
  while chance_within(high, n - 1) < confidence do high = high * 2 end
  for _ = 1, 200 do
    local middle = (low + high) / 2
    if chance_within(middle, n - 1) < confidence then low = middle else high = middle end
  end
  local half = high * math.sqrt(squares / (n - 1) / n)
  return {mean = mean, low = mean - half, high = mean + half}
end

-- Jobs

stagecraft = {sim = host_sim, run = host_run}

-- For each combination a table by name, in the order of the lists; the last one changes fastest.
function stagecraft.sweep(lists)
  local count = 1
  if type(lists) ~= "table" then error("sweep: expected lists, such as {{'delay_ms', {0, 10}}, ...}", 2) end
  for i, entry in ipairs(lists) do
    if type(entry) ~= "table" or type(entry[1]) ~= "string" or type(entry[2]) ~= "table" or #entry ~= 2 then
      error(("sweep: expected a name and a list of values as number %d, such as {'delay_ms', {0, 10}}"):format(i), 2)
    end
    count = count * #entry[2]
  end
  local done = 0
  return function()
    if done == count then return nil end
    local point, rest = {}, done
    for i = #lists, 1, -1 do
      local name, values = lists[i][1], lists[i][2]
      point[name] = values[rest % #values + 1]
      rest = rest // #values
    end
    done = done + 1
    return point
  end
end

-- A job that runs while the script goes on. Each request is answered by whoever drives both (script_job.hpp).

local Job = {}
Job.__index = Job

local function request(...)
  local answer = ask(...)
  if answer.error then error(answer.error, 3) end
  return answer.value
end

function stagecraft.start(options)
  local id = request("start", 0, options)
  return setmetatable({id = id}, Job)
end

-- No tail calls: errors name the line two levels up.
for _, verb in ipairs{"wait", "status", "inject", "heal", "migrate", "checkpoint", "say", "stop", "finish"} do
  Job[verb] = function(self, what)
    if getmetatable(self) ~= Job then error(("%s: call it as job:%s(...)"):format(verb, verb), 2) end
    local value = request(verb, self.id, what)
    return value
  end
end

function Job:wait_until(condition, most)
  if type(condition) ~= "function" then
    error("wait_until: expected a function of the status, got a " .. type(condition), 2)
  end
  local status = request("status", self.id)
  local last = math.min(status.iterations, status.iteration + (most or status.iterations))
  while not condition(status) do
    if status.iteration >= last then return nil end
    status = request("wait", self.id, {iteration = status.iteration + 1})
  end
  return status
end

-- Its newest decisions whose text begins with a word, such as "rerouted"; nil: there is none.
function Job:decided(word)
  local found
  for _, event in ipairs(request("say", self.id, "why 200").events) do
    if event.what:sub(1, #word + 1) == word .. ":" then found = event end
  end
  return found
end
)lua";

}  // namespace stagecraft::tools
