"""Faults in the composition, seeded one at a time: (what, file, exact text, replacement).

The text occurs once in its file. Where several places would do, it is cut long enough to be one.
"""

AXIS = "runtime/autograd/tensor_region.cpp"
LAYERS = "runtime/model/layers/"
WORKER = "runtime/trainer/worker.cpp"
REDUCTION = "runtime/trainer/worker_reduction.cpp"
OPTIMIZER = "runtime/optim/optimizer_state.cpp"
UPDATE = "runtime/optim/optimizer_update.cpp"
STAGE = "actors/stage/stage.cpp"
BUILDING = "actors/stage/building.cpp"

MUTANTS = [
    # A reduction is missing.
    ("activations leave a layer without the sum over tensor ranks", AXIS,
     ": summed(tape, x.data),", ": x.data,"),
    ("gradients leave a layer backward without the sum over tensor ranks", AXIS,
     ": summed(tape, grad));", ": grad);"),
    ("gradients of norms are not summed where rows are sharded", LAYERS + "module_builder.cpp",
     "(!along_tensor.sharded() && in_.sequence_parallel);",
     "(!along_tensor.sharded() && in_.sequence_parallel && false);"),
    ("gradients of norms of heads are not summed over tensor ranks", LAYERS + "norm.cpp",
     "partial_gradient = of_heads && to.tensor_ranks() > 1;", "partial_gradient = false;"),
    ("one bucket of gradients is not summed over replicas", REDUCTION,
     "  const auto& x = found.stretch();\n  auto& store = *found.home->store;\n  std::vector<const void*> parts;",
     "  if (which == 1)\n    return;\n"
     "  const auto& x = found.stretch();\n  auto& store = *found.home->store;\n  std::vector<const void*> parts;"),
    ("gradients of a tied table are not added between stages", REDUCTION,
     "if (e.is_foreign_copy() || e.spec.has_copies)", "if (e.is_foreign_copy() && e.spec.has_copies)"),
    ("the softmax of the loss knows only the words of one tensor rank", "runtime/autograd/loss.cpp",
     "    merge(tape, part, loss, lse);", "    merge(tape, part, loss, lse);\n    lse = part;"),
    ("the norm is that of the last tensor rank or stage", "actors/replica/replica.cpp",
     "all.square_norms[parameter] += square;", "all.square_norms[parameter] = square;"),
    ("the norm of a distributed optimizer is that of one replica", "actors/supervisor/transaction.cpp",
     "r < (distributed ? votes_.size() : 1)", "r < (distributed ? votes_.size() - 1 : 1)"),
    ("a bucket is summed before its last micro-batch has come back", REDUCTION,
     "home.store->emitted(unit) != microbatches())",
     "home.store->emitted(unit) != step_.microbatches)"),
    # It is done twice.
    ("activations are summed twice over tensor ranks", AXIS,
     ": summed(tape, x.data),", ": summed(tape, summed(tape, x.data)),"),
    ("gradients are summed twice over replicas", REDUCTION,
     "    reduce_bucket(b, stream_);", "    reduce_bucket(b, stream_), reduce_bucket(b, stream_);"),
    ("parts of gradients are summed twice over tensor ranks", REDUCTION,
     "  sum_in_place(*home.groups[along], stream_, all.data<float>(), size);",
     "  sum_in_place(*home.groups[along], stream_, all.data<float>(), size);\n"
     "  sum_in_place(*home.groups[along], stream_, all.data<float>(), size);"),
    ("a tied gradient is added twice", REDUCTION,
     "    add_tied_gradients(stream_, *home->store, home->owned);",
     "    add_tied_gradients(stream_, *home->store, home->owned);\n"
     "    add_tied_gradients(stream_, *home->store, home->owned);"),
    ("the norm counts the copy of a tied table", OPTIMIZER,
     "!x.repeated,",
     "!x.repeated || store_.entries()[std::size_t(parts_[ranges.size()].range.entry)]"
     ".is_foreign_copy(),"),
    ("the norm counts what every tensor rank has once for each", OPTIMIZER,
     "!x.repeated,",
     "!store_.entries()[std::size_t(parts_[ranges.size()].range.entry)].is_foreign_copy(),"),
    ("norms of parts of tensor ranks are taken before the parts are added", REDUCTION,
     "group->size() > 1 && is_partial(e, row.id))", "group->size() > 1 && is_partial(e, row.id) && false)"),
    ("the norm of a tied table is taken before its uses are added", REDUCTION,
     "    if (is_tied(e))\n      mark(e.index);\n", ""),
    ("a bias is added on every tensor rank", LAYERS + "linear.cpp",
     "  (outputs_sharded || to.tensor_ranks() == 1 ? out.bias : out.late_bias) = added;",
     "  out.bias = added;"),
    ("positions are added on every tensor rank", LAYERS + "embedding.cpp",
     "together ? positions : no_parameter);", "positions);"),
    # Along another axis.
    ("tensor and data group are exchanged", BUILDING,
     "groups.along[row.id] = context.groups[row.id].get();",
     "groups.along[row.id == runtime::axis::tensor ? runtime::axis::data\n"
     "                     : row.id == runtime::axis::data ? runtime::axis::tensor : row.id]\n"
     "              = context.groups[row.id].get();"),
    ("the ends of a tied table meet between other tensor ranks", BUILDING,
     'fmt::format("ties of replica {}.{}", r, t)',
     'fmt::format("ties of replica {}.{}", r, is_first() ? t : shared_->tensor() - 1 - t)'),
    # A scale or an offset is left out.
    ("the loss is not divided by the replicas", WORKER,
     "/ double(step_.microbatches * step_.logical_replicas)", "/ double(step_.microbatches)"),
    ("dropout of attention does not know which heads these are", "runtime/autograd/attention.cpp",
     ".first_head = tape.rank() * options.heads", ".first_head = 0 * tape.rank()"),
    ("dropout does not know which rows these are", "runtime/autograd/dropout.cpp",
     "const auto first = first_row(tape, x);", "const auto first = 0 * first_row(tape, x);"),
    ("positions do not know which rows these are", "runtime/autograd/embedding.cpp",
     "first = first_row(tape, x);", "first = 0 * first_row(tape, x);"),
    ("the embedding does not know which words these are", "runtime/autograd/embedding.cpp",
     "const auto first = tape.rank() * words;", "const auto first = 0 * tape.rank() * words;"),
    ("the loss does not know which words these are", "runtime/autograd/loss.cpp",
     "const auto first = tape.rank() * V;", "const auto first = 0 * tape.rank() * V;"),
    ("the loss counts the padding of the vocabulary", "runtime/autograd/loss.cpp",
     "std::clamp<std::int64_t>(all_words - first, 0, V);", "std::max(V, 0 * (all_words - first));"),
    ("recomputation draws another dropout", "runtime/model/chunk_pass.cpp",
     "  const auto& b = plan_.blocks.at(std::size_t(block));\n  for (std::size_t g = 0;",
     "  const auto& b = plan_.blocks.at(std::size_t(block));\n  ++pass_.settings.seed;\n"
     "  for (std::size_t g = 0;"),
    # Steps that are left out.
    ("the learning rate goes on over a step that is left out", "runtime/trainer/decision.cpp",
     "std::int64_t(at.consumed - at.skipped.samples)", "std::int64_t(at.consumed)"),
    ("a step that is left out counts as an update", "runtime/trainer/decision.cpp",
     "out.update.step = at.iteration + 1 - skipped.iterations;", "out.update.step = at.iteration + 1;"),
    ("a step that is left out is not left out", STAGE, "        if (!x.skip) {\n          context.worker->update", "        {\n          context.worker->update"),
    # The distributed optimizer.
    ("parameters are not gathered", REDUCTION,
     "    group->all_gather(stream,", "    if (which > 1000000)\n      group->all_gather(stream,"),
    ("the next step does not wait for gathered parameters", STAGE,
     "        if (later)\n          context.worker->close_parameter_gates(token);", "        (void)token;"),
    ("weights decay by the beginning of their part", UPDATE,
     "return spec.decays ?", "return spec.decays && x.range.begin == 0 ?"),
    ("moments are sharded, and the master is taken from the beginning", OPTIMIZER,
     "from.data() + (first - begin),", "from.data(),"),
    ("gradients of an update are those of the beginning", UPDATE,
     "gradients(0, x.range.entry) + x.range.begin;", "gradients(0, x.range.entry);"),
    ("all replicas of a worker add to one accumulator that is summed twice", WORKER,
     "  home.store->select_replica(key.replica);",
     "  home.store->select_replica(0);"),
]
