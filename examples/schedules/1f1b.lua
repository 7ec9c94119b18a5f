-- One forward, one backward (Narayanan et al., 2021), as a plan: the whole step, before it begins.
--
--   troupe schedule draw examples/schedules/1f1b.lua --ranks 4 --microbatches 8
--
-- plan() is called once for each rank and returns what this rank does, in order. An action is a
-- letter, a stage and a micro-batch: F is forward, B backward (its two halves alone are I, the
-- gradients of the inputs, and W, the gradients of the weights). Here stage = rank.

function plan(rank, ranks, chunks, microbatches)
  local row = {}
  local function add(kind, microbatch)
    row[#row + 1] = { kind, rank, microbatch }
  end

  -- The first gradient is on its way back only after the stages behind have done their part: until
  -- then there is nothing but forwards to do, one for each of them.
  local warmup = math.min(ranks - 1 - rank, microbatches)
  for m = 0, warmup - 1 do
    add("F", m)
  end
  -- Now each forward is followed by a backward, so no more is held than at this point.
  for m = warmup, microbatches - 1 do
    add("F", m)
    add("B", m - warmup)
  end
  for m = microbatches - warmup, microbatches - 1 do
    add("B", m)
  end
  return row
end
