-- A behaviour: decided while the step runs, by what has arrived.
--
--   troupe schedule simulate examples/schedules/reactive.lua --ranks 4 --microbatches 8
--
-- next() is called whenever this rank is free and something has arrived or was done. It returns one
-- of state.ready, or nil to wait for more. What a rank decides is recorded, and the record is a plan
-- like any other. Plans are made for stages that take equally long; this one need not be.

function next(state)
  -- Of one stage, no more than one action of each kind is ready: the next micro-batch's.
  local ready = {}
  for _, action in ipairs(state.ready) do
    ready[action.kind] = action
  end

  -- Another stage waits for the gradients of the inputs: they go first.
  if ready.I then
    return ready.I
  end
  -- Forwards go ahead as far as memory reaches: here as far as 1F1B's on its first rank. A
  -- micro-batch is held from its F to its W.
  local done = state.done[state.hosted[1]]
  if ready.F and done.F - done.W < state.ranks then
    return ready.F
  end
  -- No action waits for W. It fills the time until something arrives; without any, wait: nil.
  return ready.W
end
