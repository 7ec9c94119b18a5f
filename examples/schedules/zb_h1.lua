-- ZB-H1 (Qi et al., "Zero Bubble Pipeline Parallelism", 2023): 1F1B with the backward cut in two.
--
--   troupe schedule simulate examples/schedules/zb_h1.lua --ranks 4 --microbatches 8
--
-- Only I, the gradients of the inputs, is awaited by the stage before. W, the gradients of the
-- weights, can wait until this rank would have nothing to do: that is where 1F1B has its bubble.

function plan(rank, ranks, chunks, microbatches)
  local row, inputs, weights = {}, 0, 0
  local function add(kind, microbatch)
    row[#row + 1] = { kind, rank, microbatch }
  end
  local function backward()
    add("I", inputs)
    inputs = inputs + 1
    -- W lags behind I by as many micro-batches as there are stages before: the last stages, which
    -- are done with their forwards first, keep the most for the end.
    if inputs > rank then
      add("W", weights)
      weights = weights + 1
    end
  end

  local warmup = math.min(ranks - 1 - rank, microbatches)
  for m = 0, warmup - 1 do
    add("F", m)
  end
  for m = warmup, microbatches - 1 do
    add("F", m)
    backward()
  end
  while inputs < microbatches do backward() end
  for m = weights, microbatches - 1 do add("W", m) end
  return row
end
