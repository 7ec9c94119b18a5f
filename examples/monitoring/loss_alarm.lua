-- Raises an alarm when the loss of a run rises, at each event (such as a death), and when the run fails:
--
--   troupe monitor --run DIR --script loss_alarm.lua

local most, limit = 20, 6  -- alarm above 6 standard deviations over the mean of 20 steps
local pauses = false       -- true: pauses the run at the first alarm about the loss
local webhook = nil        -- "https://...": gets each alarm as {"text": ...}

local last = {}
local rises = false

local function tell(text)
  alarm(text)
  if webhook then post(webhook, { text = text }) end
end

local function mean_and_deviation()
  local mean, square = 0, 0
  for _, x in ipairs(last) do mean = mean + x / #last end
  for _, x in ipairs(last) do square = square + (x - mean) ^ 2 / #last end
  return mean, math.max(math.sqrt(square), 0.01 * mean)  -- at least 1 % of the mean
end

function on_step(step)
  local loss = step.lm_loss
  if not loss then return end  -- a skipped step, or a step without loss tokens
  local mean, deviation = mean_and_deviation()
  if #last == most and loss > mean + limit * deviation then
    local is_new = not step.past  -- false: the step is older than this script's connection
    if is_new and not rises then
      tell(string.format("iteration %d: the loss is %.4f; the last %d had a mean of %.4f",
        step.iteration, loss, most, mean))
      if pauses then command { "pause" } end
    end
    rises = is_new  -- one alarm for one rise
    return
  end
  rises = false
  last[#last + 1] = loss
  if #last > most then table.remove(last, 1) end
end

function on_event(event)
  if event.past then return end
  tell(string.format("iteration %d: %s of %s: %s",
    event.iteration or 0, event.event, event.who or "?", event.why or ""))
end

function on_end(x)
  if x.exit_code ~= 0 then tell("the run has failed: " .. (x.reason or "")) end
end
