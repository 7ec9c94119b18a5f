"""Faults in the composition, planted one at a time: (description, file, exact text, replacement).

The text must occur exactly once in its file.
"""

AXIS = "runtime/autograd/tensor_region.cpp"
LAYERS = "runtime/model/layers/"
WORKER = "runtime/trainer/worker.cpp"
REDUCTION = "runtime/trainer/worker_reduction.cpp"
OPTIMIZER = "runtime/optim/optimizer_state.cpp"
UPDATE = "runtime/optim/optimizer_update.cpp"
STAGE = "actors/stage/stage.cpp"

MUTANTS = [
    # A reduction is missing.
    ("activations leave a layer without the sum over tensor ranks", AXIS,
     ": summed(tape, x.data),", ": x.data,"),
    ("input gradients leave a layer without the sum over tensor ranks", AXIS,
     ": summed(tape, grad));", ": grad);"),
    ("gradients of norms are not summed where rows are sharded", LAYERS + "module_builder.cpp",
     "  if (in_.sequence_parallel && !all_rows &&", "  if (false && !all_rows &&"),
    ("gradients of head norms are not summed over tensor ranks", LAYERS + "norm.cpp",
     "partial_gradient = of_heads && to.tensor_ranks() > 1;", "partial_gradient = of_heads && false;"),
    ("one bucket of gradients is not summed over replicas", REDUCTION,
     "  auto& store = *found.home->store;\n  std::vector<const void*> parts;",
     "  if (buckets_.size() > 1 && &found == &buckets_[1])\n    return;\n"
     "  auto& store = *found.home->store;\n  std::vector<const void*> parts;"),
    ("gradients of a tied table are not added between stages", REDUCTION,
     "  if (ranks > 1)\n    return add_distant_ties", "  if (ranks > 1)\n    return;\n  if (ranks > 1)\n    return add_distant_ties"),
    ("the softmax of the loss covers only the words of one tensor rank", "runtime/autograd/loss.cpp",
     "    merge(tape, part, loss, lse);", "    merge(tape, part, loss, lse);\n    lse = part;"),
    ("the norm is that of the last tensor rank or stage", "actors/supervisor/transaction.cpp",
     "      runtime::add_to(out.norms, x.square_norms);",
     "      for (const auto& [name, square] : x.square_norms)\n        out.norms[name] = square;"),
    ("the norm of a distributed optimizer is that of one replica", "actors/host/merged_reports.cpp",
     "  runtime::add_to(to.square_norms, x.square_norms);\n", ""),
    ("a bucket is summed before the backward pass of its last micro-batch", REDUCTION,
     "home.store->emitted(unit) != microbatches())",
     "home.store->emitted(unit) != step_.microbatches)"),
    # A reduction is done twice.
    ("activations are summed twice over tensor ranks", AXIS,
     ": summed(tape, x.data),", ": summed(tape, summed(tape, x.data)),"),
    ("gradients are summed twice over replicas", REDUCTION,
     "    worker::reduce_bucket(b, stream_);", "    worker::reduce_bucket(b, stream_), worker::reduce_bucket(b, stream_);"),
    ("parts of gradients are summed twice over tensor ranks", REDUCTION,
     "  sum_in_place(*home.groups[along], stream_, all.data<float>(), size);",
     "  sum_in_place(*home.groups[along], stream_, all.data<float>(), size);\n"
     "  sum_in_place(*home.groups[along], stream_, all.data<float>(), size);"),
    ("a tied gradient is added twice", REDUCTION,
     "      add_ties(which, copy);", "      add_ties(which, copy), add_ties(which, copy);"),
    ("the norm counts the copy of a tied table", OPTIMIZER,
     "!told[i].repeated,",
     "!told[i].repeated || store_.entries()[std::size_t(parts_[i].range.entry)].is_foreign_copy(),"),
    ("the norm counts replicated parameters once per tensor rank", OPTIMIZER,
     "!told[i].repeated,",
     "!store_.entries()[std::size_t(parts_[i].range.entry)].is_foreign_copy(),"),
    ("norms of partial gradients are taken before the sum over tensor ranks", REDUCTION,
     "group->size() > 1 && is_partial(e, row.id))", "group->size() > 1 && is_partial(e, row.id) && false)"),
    ("the norm of a tied table is taken before its gradients are added", REDUCTION,
     "    if (is_tied(e))\n      mark(e.index);\n", "    if (is_tied(e) && false)\n      mark(e.index);\n"),
    ("a bias is added on every tensor rank", LAYERS + "linear.cpp",
     "  (out.kind != product::row || to.tensor_ranks() == 1 ? out.bias : out.late_bias) = added;",
     "  out.bias = added;"),
    ("positions are added on every tensor rank", LAYERS + "embedding.cpp",
     "together ? positions : no_parameter);", "positions);"),
    # Along another axis.
    ("tensor and data group are exchanged", WORKER,
     "for (const auto& row : axis_table())\n    if (const auto found = all.find(row.id); found",
     "for (const auto& row : axis_table())\n    if (const auto found = all.find(row.id == axis::tensor ? axis::data\n"
     "                                   : row.id == axis::data ? axis::tensor : row.id); found"),
    ("the stages of a tied table pair different tensor ranks", "runtime/job/job_seats.cpp",
     'all.at(rank)[axis::data], all.position_in_stage(rank)',
     'all.at(rank)[axis::data],\n            stage == group.members.front() ? all.position_in_stage(rank)\n'
     '                                  : fmt::format(".{}", all.extent(axis::tensor) - 1 - all.at(rank)[axis::tensor])'),
    ("workers join no groups of experts inside passes", "runtime/job/job_seats.cpp",
     "(row.dense != axis_use::none || has_experts)", "(row.dense != axis_use::none || (has_experts && false))"),
    ("the reference trainer counts the norms of each data rank", "runtime/trainer/reference_trainer.cpp",
     "return !seats_.counts(x.rank, by.layers_of(of.first));",
     "return by.layers_of(of.first) == axis_view::experts && !seats_.counts(x.rank, axis_view::experts);"),
    # A scale or an offset is missing.
    ("the loss is not divided by the number of replicas", WORKER,
     "/ double(step_.microbatches * step_.logical_replicas)", "/ double(step_.microbatches)"),
    ("dropout of attention ignores the index of its first head", "runtime/autograd/attention.cpp",
     ".first_head = tape.rank() * options.heads", ".first_head = 0 * tape.rank()"),
    ("dropout ignores the index of its first row", "runtime/autograd/dropout.cpp",
     "const auto first = first_row(tape, x);", "const auto first = 0 * first_row(tape, x);"),
    ("positions ignore the index of their first row", "runtime/autograd/embedding.cpp",
     "first = first_row(tape, x);", "first = 0 * first_row(tape, x);"),
    ("the embedding ignores the index of its first word", "runtime/autograd/embedding.cpp",
     "const auto first = tape.rank() * words;", "const auto first = 0 * tape.rank() * words;"),
    ("the loss ignores the index of its first word", "runtime/autograd/loss.cpp",
     "      first = tape.rank() * V;", "      first = 0 * tape.rank() * V;"),
    ("the loss counts the padding of the vocabulary", "runtime/autograd/loss.cpp",
     "std::clamp<std::int64_t>(all_words - first, 0, V);", "std::max(V, 0 * (all_words - first));"),
    ("recomputation uses other dropout masks", "runtime/model/chunk_pass.cpp",
     "  const auto& b = plan_.blocks.at(std::size_t(block));\n  for (std::size_t g = 0;",
     "  const auto& b = plan_.blocks.at(std::size_t(block));\n  ++pass_.settings.seed;\n"
     "  for (std::size_t g = 0;"),
    ("a recomputation counts the rows of experts again", WORKER,
     '  pass(key, "WORKER-8: recomputation comes after the forward pass").recompute(block);',
     '  auto& again = pass(key, "WORKER-8: recomputation comes after the forward pass");\n'
     "  again.recompute(block);\n"
     "  for (const auto& [segment, rows] : again.expert_rows())\n    add_to(expert_rows_, rows);"),
    # Losses.
    ("the weight of a loss is no factor of its gradient", "runtime/model/segment.cpp",
     "float(settings.loss_scale * weight)", "float(settings.loss_scale + 0 * weight)"),
    ("the weight of a loss is no factor in the sum", "runtime/trainer/decision.cpp",
     "losses[i].weight * sums[i].mean()", "sums[i].mean()"),
    ("losses are added by unit, then by replica", "runtime/telemetry/step_report.hpp",
     "std::tuple(number, unit, loss)", "std::tuple(unit, number, loss)"),
    ("all tensor ranks vote their losses", STAGE,
     "    if (leads)  // tensor ranks compute the same losses", "    if (leads || true)"),
    ("the digest of a pass leaves out its losses", "runtime/trainer/verification.cpp",
     'to.add(fmt::format("{} of {} {}", place.name, place.unit, place.segment), sums);',
     "(void)to, (void)place, (void)sums;"),
    ("a loss per token counts the tokens of the last loss", "runtime/trainer/decision.cpp",
     "sums.empty() ? 0 : sums.front().tokens", "sums.empty() ? 0 : sums.back().tokens"),
    # Texts with padding, two stacks and two heads.
    ("distances to later keys have the buckets of those to earlier keys", LAYERS + "score_bias.cpp",
     "const auto first = x.both_ways && distance > 0 ? buckets : 0;", "const auto first = 0 * buckets;"),
    ("biases by distance have the gradient of the last micro-batch alone", "runtime/autograd/attention.cpp",
     ".accumulates = to.accumulates});", ".accumulates = false && to.accumulates});"),
    ("only one of several streams has a gradient that comes back over a cut", "runtime/model/chunk_pass.cpp",
     "    for (const auto& [name, slot] : outputs_)\n      slot->sum = taken(tape_.stream(), in.at(name));",
     "    for (const auto& [name, slot] : outputs_)\n      if (name == outputs_.begin()->first)\n"
     "        slot->sum = taken(tape_.stream(), in.at(name));"),
    ("attention sees the padding behind a text", "runtime/autograd/attention.cpp",
     "return rows.documents ? rows.documents : rows.starts;", "return rows.starts;"),
    ("a scaled output layer takes rows without the scale", "runtime/family/t5/t5.cpp",
     ".scale = c.head_scaled ?", ".scale = c.head_scaled && false ?"),
    ("the gradient of the order of sentences has twice its weight", "runtime/family/bert/bert.cpp",
     "p.average(order_loss.weight)", "p.average(2 * order_loss.weight)"),
    ("numbers of rows begin anew at each tensor rank's share", "runtime/autograd/rows.cpp",
     "sharded ? tape.rank() * each : 0, each", "sharded ? 0 * tape.rank() * each : 0, each"),
    ("gradients from all rows are summed over tensor ranks where rows are sharded", LAYERS + "module_builder.cpp",
     "  if (in_.sequence_parallel && !all_rows &&", "  if (in_.sequence_parallel && (!all_rows || true) &&"),
    # Skipped steps.
    ("a skipped step advances the learning rate", "runtime/trainer/decision.cpp",
     "std::int64_t(at.consumed - at.skipped.samples)", "std::int64_t(at.consumed)"),
    ("a skipped step counts as an update", "runtime/trainer/decision.cpp",
     "out.update.step = at.iteration + 1 - skipped.iterations;", "out.update.step = at.iteration + 1;"),
    ("a stage takes a gradient scale of 1, whatever the decision says", STAGE,
     ".gradient_scale = x.gradient_scale,", ".gradient_scale = 1,"),
    ("a skipped step is applied", STAGE, "        if (!x.skip) {\n          context.worker->update", "        {\n          context.worker->update"),
    # The distributed optimizer.
    ("parameters are not gathered", REDUCTION,
     "    group->all_gather(stream,", "    if (which > 1000000)\n      group->all_gather(stream,"),
    ("the next step does not wait for gathered parameters", STAGE,
     "        if (later)\n          context.worker->close_parameter_gates(token);", "        (void)token;"),
    ("only parts at the beginning of a parameter decay", UPDATE,
     "return spec.decays ?", "return spec.decays && x.range.begin == 0 ?"),
    ("each shard takes its master weights from the beginning of the parameter", OPTIMIZER,
     "from.subspan(std::size_t(first - begin),", "from.subspan(0,"),
    ("each update uses the gradients at the beginning of the parameter", UPDATE,
     "gradients(0, x.range.entry) + x.range.begin;", "gradients(0, x.range.entry);"),
    ("all replicas of a worker use one accumulator, which is summed twice", WORKER,
     "  home.store->select_replica(key.replica);",
     "  home.store->select_replica(0);"),
]
