"""Faults in the protocol of the actors, seeded one at a time: (what, first seed, places).

A place is (file, exact text, replacement), as in mutants.py; a fault may need several. `troupe simulate` must find
each within SEEDS seeds from its first one. A change of what seeds draw moves them: search from 1 then. Unless an
invariant finds a fault, it must act only after a death or a delay: the undisturbed run that a seed is compared with has
the fault, too.
"""

SEEDS = 100
ACTIONS = "actors/stage/actions.cpp"
BATCHES = "actors/stage/batches.cpp"
BUILDING = "actors/stage/building.cpp"
CHECKING = "actors/supervisor/bit_checker.cpp"
CHECKPOINTER = "actors/checkpointer/checkpointer.cpp"
CREDITS = "actors/stage/credits.cpp"
FRONT = "actors/job/front.cpp"
KEEPER = "actors/keeper/keeper.cpp"
LOADER = "actors/loader/loader.cpp"
NODE = "actors/node/node.cpp"
PASSES = "actors/stage/passes.cpp"
PASSES_HEADER = "actors/stage/passes.hpp"
RECOVERY = "actors/supervisor/recoverer.cpp"
ROSTER = "actors/supervisor/roster.cpp"
STAGE = "actors/stage/stage.cpp"
STAGE_HEADER = "actors/stage/stage.hpp"
TRANSACTION = "actors/supervisor/transaction.cpp"


def complete(what):
    """The supervisor's count of those below it, and the same count with one less."""
    text = f"{what}.add(x, roster_.reporters(), *run_.job, one_of_each)"
    fewer = "std::max<std::size_t>(1, roster_.reporters() - 1)"
    return TRANSACTION, text, text.replace("roster_.reporters()", fewer)


MUTANTS = [
    ("lose-gradient: a stage leaves out the weight gradients of its first micro-batch in step 2", 1, [
        (ACTIONS, ".verified = is_verified(x)}]", ".step = value(step_), .verified = is_verified(x)}]"),
        (PASSES_HEADER, "  bool verified = false; ", "  std::uint64_t step = 0;\n  bool verified = false; "),
        (PASSES, "      case action_kind::weight_gradients:\n",
         "      case action_kind::weight_gradients:\n"
         "        if (of_.step == 2 && value(of_.what.microbatch) == 0)\n          return;\n")]),
    ("update-twice: a stage updates twice in step 2", 1, [
        (STAGE, "          context.worker->update(update_of(x));\n",
         "          context.worker->update(update_of(x));\n"
         "          if (value(x.step) == 2)\n            context.worker->update(update_of(x));\n")]),
    ("keep-old-ticket: a stage redeems the tickets of a micro-batch for the next one, too", 1, [
        (ACTIONS, "    auto& arrived = found.mapped();\n",
         "    auto& arrived = found.mapped();\n"
         "    auto following = at;\n"
         "    following.microbatch = runtime::microbatch_id(value(at.microbatch) + 1);\n"
         "    inbox_.emplace(inbox_key{kind, following}, arrived);\n")]),
    ("forget-generation: a stage takes messages of other generations", 1, [
        (STAGE_HEADER, "{ return x == told_.generation; }", "{ return x == told_.generation || node_; }")]),
    ("leak-lease: a stage deposits an activation that no stage redeems", 1, [
        (PASSES, "        return hand_on(forward(take()));\n",
         "        of_.transport->deposit(runtime::tensor(), of_.generation);\n        return hand_on(forward(take()));\n")]),
    ("serve-wrong-sample: after a death the loader answers with the micro-batch before", 1, [
        (LOADER, "      const auto asked = read(*recent, source_of(x, *context), x);\n",
         "      auto wanted = x;\n"
         "      if (runtime::number_of(x.at.generation) > 1 && x.microbatch > 0)\n        --wanted.microbatch;\n"
         "      const auto asked = read(*recent, source_of(x, *context), wanted);\n")]),
    ("write-incomplete: the checkpointer writes when one rank's part is missing", 1, [
        (CHECKPOINTER, "int(parts_[which].size()) < expected->second.parts)",
         "int(parts_[which].size()) < std::max(1, expected->second.parts - 1))")]),
    ("open-gate-early: a stage does not close the gates of parameters that are still being gathered", 1, [
        (STAGE, "       later,\n", "       later = later && x.skip,\n")]),
    ("decide-early: the supervisor decides when one replica's vote is missing", 1, [complete("votes_")]),
    ("commit-twice: the supervisor tells of step 2 twice", 1, [
        (TRANSACTION, "    roster_.tell_watchers(commit(std::move(done)));\n",
         "    [this](const messages::committed& told) {\n"
         "      for (int n = 0; n < (report_.iteration == 2 ? 2 : 1); ++n)\n        roster_.tell_watchers(told);\n"
         "    }(commit(std::move(done)));\n")]),
    ("vote-early: a stage votes before its buckets have been summed on the communication lane", 1, [
        (STAGE, "  if (now_->finished < now_->length || now_->unreduced > 0)\n",
         "  if (now_->finished < now_->length)\n"),
        (STAGE, "      --now_->unreduced;\n", "      if (!now_)\n        return;\n      --now_->unreduced;\n")]),
    ("acknowledge-early: a stage says that it has updated before the new state is sealed in its estate", 1, [
        (STAGE, "        else if (context.worker->estate())\n",
         "        else if (context.worker->estate() && value(x.step) == 0)\n"),
        (STAGE, "        give_to_keeper(skip);\n",
         "        give_to_keeper(skip);\n"
         "        submit(\n"
         "            \"seal\",\n"
         "            [step = result->step](stage_context& context, runtime::stream&) {\n"
         "              auto& worker = *context.worker;\n"
         "              if (worker.estate() && !worker.estate()->holds(value(step)))\n"
         "                worker.seal(value(step), worker.digests());\n"
         "            },\n"
         "            [] {});\n")]),
    ("undo-wrong-slot: a rank that is built anew goes back to the other state of its estate", 1, [
        (BUILDING, "  if (source.tier == runtime::state_tier::estate)\n    return",
         "  if (source.tier == runtime::state_tier::estate)\n"
         "    for (const auto other : {value(source.step) + 1, value(source.step) - 1})\n"
         "      if (node.estates->of(mesh_rank)->holds(other))\n"
         "        return node.estates->gone_back(mesh_rank, other, by);\n"
         "  if (source.tier == runtime::state_tier::estate)\n    return")]),
    ("accept-late-death: the supervisor takes the death of an ended generation for one of the newest", 1, [
        (ROSTER,
         "  std::erase_if(watched_, [](const auto& x) { return x.second.where.role == member_role::rank; });\n",
         ""),
        (RECOVERY, "      .generation = who->generation,\n", "      .generation = run_.generation(),\n")]),
    ("count-old-ready: the supervisor counts replicas that were ready in another generation", 850, [
        (RECOVERY, "  if (x.generation != run_.generation() || run_.members.now() != membership::phase::forming)\n",
         "  if (run_.members.now() != membership::phase::forming)\n")]),
    ("decide-before-kept: the supervisor commits when one replica has not applied the update", 1,
     [complete("applied_")]),
    ("announce-replay: the supervisor tells again of a step that runs again", 90, [
        (TRANSACTION, "    roster_.tell_watchers(commit(std::move(done)));\n",
         "    roster_.tell_watchers(commit(std::move(done)));\n  else\n"
         "    roster_.tell_watchers(report_step(run_.pen()));\n")]),
    ("two-supervisors: a supervisor outlives its node, and a successor begins beside it", 180, [
        (RECOVERY,
         "      run_.self->quit(steps_.diagnosis().empty()\n"
         "                          ? because_of(\"node\", x.reason)\n"
         "                          : messages::make_error(messages::ec::refused, steps_.diagnosis()));\n",
         "      static_cast<void>(x.reason);\n"),
        (FRONT, "  if (!over_ && stands)\n", "  if (!over_ && (stands || ended_))\n"),
        (FRONT, "  if (supervisor_ || (node_ && node_is_dead))\n",
         "  if (of_node)\n    return replace(\"node\", std::exchange(cause_, {}));\n"
         "  if (supervisor_ || (node_ && node_is_dead))\n"),
        (FRONT, "  ledger.belongs_to(after_.epoch);  // LEDGER-3\n", "")]),
    ("keep-second-batch: a stage keeps the lease of a batch that a dead loader had answered, too", 1670, [
        (BATCHES, "  node_->transport->take_back(data.tickets);\n", "  static_cast<void>(data);\n")]),
    ("decide-before-keepers: the supervisor decides although no other process keeps the state before", 1000, [
        (TRANSACTION, "  if (!saves_.is_kept(run_.at.iteration)) {\n    waits_to_decide_",
         "  if (!saves_.is_kept(run_.at.iteration) && gives_up_) {\n    waits_to_decide_")]),
    ("keep-before-all: a keeper says that a process's states are kept when it has one rank's", 750, [
        (KEEPER, "  if (!context_->kept->has(generation, ranks(), value(step)))\n",
         "  if (!context_->kept->has(generation, ranks(), value(step)) && value(step) == 0)\n")]),
    ("keep-old-state: a keeper takes what a stage gives for the state of the step after it", 1, [
        (KEEPER, "{value(x.since), value(x.step)}", "{value(x.since) + 1, value(x.step) + 1}")]),
    ("share-estate: the successor of a lane that hangs works on the state itself, not on a copy", 1, [
        (NODE, "    context_->estates->leave_behind(rank);\n", "    static_cast<void>(rank);\n")]),
    ("believe-states: the supervisor commits although replicas hold different states", 110, [
        (CHECKING, "  if (!run_.job->job.reduction.distributed_optimizer\n      && !agree(",
         "  if (!run_.job->job.reduction.distributed_optimizer && steps_.gives_up()\n      && !agree(")]),
    ("ignore-credits: a stage hands on more than its credits", 1, [
        (CREDITS, "handoffs_of(x).lent < credits;", "handoffs_of(x).lent >= 0;")]),
    ("lose-credit: a stage forgets the credits that come back in step 2", 1, [
        (CREDITS, "  --handoffs_of(x).lent;\n",
         "  if (value(step_) == 2)\n    return true;\n  --handoffs_of(x).lent;\n")]),
    ("commit-before-written: the checkpointer commits when one process has not written its shards", 1, [
        (CHECKPOINTER, "  if (saving_->shards.awaited() > 0)\n", "  if (saving_->shards.awaited() > 1)\n")]),
    ("keep-broken-links: a node does not close the other connections to a process after one broke", 1, [
        (NODE, "  if (context_->neighbours)\n    for (const int process : x.broken_with)",
         "  if (context_->neighbours && closing_)\n    for (const int process : x.broken_with)")]),
]
