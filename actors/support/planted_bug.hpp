// Bugs that a simulation plants in the code it runs, to show that its oracles find them; `troupe
// simulate` takes their names. In every other run there is none.

#pragma once

#include <array>
#include <optional>
#include <string_view>

namespace troupe::actors {

enum class planted_bug {
  none,
  lose_gradient,
  update_twice,
  keep_old_ticket,
  forget_generation,
  leak_lease,
  serve_wrong_sample,
  write_incomplete,
  open_gate_early,
  forget_scale,
  decide_early,
  commit_twice,
  vote_early,
  acknowledge_early,
  undo_wrong_slot,
  accept_late_death,
  count_old_ready,
  decide_before_kept,
  announce_replay,
  two_supervisors,
  keep_second_batch,
  decide_before_keepers,
  keep_before_all,
  keep_old_state,
  share_estate,
  believe_states,
  ignore_credits,
  lose_credit,
  commit_before_written,
  keep_broken_links,
};

struct named_bug {
  planted_bug what;
  std::string_view name;
  std::string_view about;  ///< what goes wrong, in a line
};

inline constexpr std::array<named_bug, 29> planted_bugs = {{
    {planted_bug::lose_gradient,
     "lose-gradient",
     "a stage leaves out the weight gradients of its last micro-batch, in step 2"},
    {planted_bug::update_twice, "update-twice", "a stage updates twice in step 2"},
    {planted_bug::keep_old_ticket,
     "keep-old-ticket",
     "a stage keeps the tickets of a micro-batch, and redeems them for the next one, too"},
    {planted_bug::forget_generation,
     "forget-generation",
     "a stage takes what belongs to another generation"},
    {planted_bug::leak_lease, "leak-lease", "a stage deposits an activation that nobody redeems"},
    {planted_bug::serve_wrong_sample,
     "serve-wrong-sample",
     "the loader serves the samples of the micro-batch before, in step 2"},
    {planted_bug::write_incomplete,
     "write-incomplete",
     "the checkpointer writes when all ranks but one have given their parts"},
    {planted_bug::open_gate_early,
     "open-gate-early",
     "a stage does not close the gates of parameters that are still being gathered"},
    {planted_bug::forget_scale,
     "forget-scale",
     "a stage takes a gradient scale of 1, whatever the decision says"},
    {planted_bug::decide_early,
     "decide-early",
     "the supervisor decides when all replicas but one have voted"},
    {planted_bug::commit_twice, "commit-twice", "the supervisor tells of step 2 twice"},
    {planted_bug::vote_early,
     "vote-early",
     "a stage votes before its buckets have been summed on the communication lane"},
    {planted_bug::acknowledge_early,
     "acknowledge-early",
     "a stage says that it has updated before the new state is sealed in its estate"},
    {planted_bug::undo_wrong_slot,
     "undo-wrong-slot",
     "a rank that is built anew goes back to the other state of its estate"},
    {planted_bug::accept_late_death,
     "accept-late-death",
     "the supervisor takes the death of an ended generation for one of the newest"},
    {planted_bug::count_old_ready,
     "count-old-ready",
     "the supervisor counts who was ready in another generation"},
    {planted_bug::decide_before_kept,
     "decide-before-kept",
     "the supervisor commits when all replicas but one have kept the state"},
    {planted_bug::announce_replay,
     "announce-replay",
     "the supervisor tells of a step again that runs again"},
    {planted_bug::two_supervisors,
     "two-supervisors",
     "a supervisor outlives its node, and a successor begins beside it"},
    {planted_bug::keep_second_batch,
     "keep-second-batch",
     "a stage keeps the lease of a batch that a dead loader had answered, too"},
    {planted_bug::decide_before_keepers,
     "decide-before-keepers",
     "the supervisor decides although the state before is not kept in other processes"},
    {planted_bug::keep_before_all,
     "keep-before-all",
     "a keeper says that a process's states are kept when one rank's are"},
    {planted_bug::keep_old_state,
     "keep-old-state",
     "a keeper takes what a stage gives for the state of the step after it"},
    {planted_bug::share_estate,
     "share-estate",
     "the successor of a lane that hangs works on the state itself, not on a copy"},
    {planted_bug::believe_states,
     "believe-states",
     "the supervisor commits without a look at whether replicas hold the same state"},
    {planted_bug::ignore_credits,
     "ignore-credits",
     "a stage hands on without a look at what the next has not taken"},
    {planted_bug::lose_credit,
     "lose-credit",
     "a stage forgets the credits that come back in step 2"},
    {planted_bug::commit_before_written,
     "commit-before-written",
     "the checkpointer commits when all processes but one have written their shards"},
    {planted_bug::keep_broken_links,
     "keep-broken-links",
     "a node does not close what is left between it and a process with which a connection broke"},
}};

constexpr std::optional<planted_bug> planted_bug_from(std::string_view name) {
  for (const auto& x : planted_bugs)
    if (x.name == name)
      return x.what;
  return std::nullopt;
}

}  // namespace troupe::actors
