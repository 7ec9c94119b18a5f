// Rows chosen at run time by a behaviour.

#include "actors/stage/stage_context.hpp"
#include "runtime/core/error.hpp"
#include "runtime/core/log.hpp"
#include "runtime/schedule/lower.hpp"

#include <algorithm>
#include <chrono>
#include <fmt/format.h>
#include <utility>

namespace troupe::actors {
namespace {

/// Minimum time that a behaviour may leave an idle lane idle although an action is ready.
constexpr auto shortest_wait = std::chrono::seconds(2);

/// After this number of overrides, the behaviour counts as stuck.
constexpr int most_passed_over = 2;

/// Longer than any useful wait in a schedule: several times the longest action of this stage,
/// forward and back through all stages.
std::chrono::milliseconds longest_wait(double longest_ms, int ranks) {
  const auto long_enough = std::chrono::milliseconds(std::int64_t(20 * ranks * longest_ms));
  return std::max<std::chrono::milliseconds>(shortest_wait, long_enough);
}

/// Input gradients first, since other ranks wait for them; then weight gradients, which free
/// memory.
const runtime::action& most_wanted(const std::vector<runtime::action>& ready) {
  const auto rank = [](const runtime::action& x) {
    return x.kind == runtime::action_kind::input_gradients    ? 0
           : x.kind == runtime::action_kind::weight_gradients ? 1
                                                              : 2;
  };
  return *std::min_element(
      ready.begin(), ready.end(), [&](const auto& a, const auto& b) { return rank(a) < rank(b); });
}

/// Lowers a choice to what the worker executes: blocks of the backward pass, B split into I and W.
std::vector<runtime::action> spelt_out(const runtime::action& x, const runtime::plan& frame) {
  runtime::plan one{.name = frame.name, .ranks = {{x}}};
  if (!frame.blocks.empty())
    one = runtime::with_recomputation(std::move(one), frame.blocks);
  return runtime::with_split_backward(one.ranks.front());
}

}  // namespace

void stage_state::note_arrival(arrival kind, const messages::pass_id& at) {
  if (!now_->policy || at.step != now_->step.step || at.validation)
    return;
  using runtime::chunk_id;
  const auto own_neighbour
      = [&](int by) { return hosts(chunk_id(std::uint32_t(int(value(at.chunk)) + by)), at.copy); };
  if (kind == arrival::activation && !own_neighbour(-1))
    now_->policy->book.arrive_activation(at.chunk, at.microbatch);
  else if (kind == arrival::gradient && !own_neighbour(1))
    now_->policy->book.arrive_gradient(at.chunk, at.microbatch);
}

void stage_state::append_chosen(const runtime::action& x) {
  ++now_->choices;
  for (const auto& part : spelt_out(x, *now_->plan))
    now_->row.push_back(part);
}

void stage_state::choose(const runtime::action& x) {
  ask([&] { now_->policy->book.choose(x, job_->pipeline.schedule->name()); });
  const auto number = now_->choices;
  append_chosen(x);
  for (const auto& follower : peers_.followers)
    node_->messages->send(self_, follower, messages::chosen{told_.generation, step_, x, number});
}

void stage_state::ask_policy() {
  if (!now_ || !now_->policy)
    return;
  auto& policy = *now_->policy;
  while (now_->row.size() < now_->finished + chosen_ahead && !policy.book.is_complete()) {
    const auto& view = policy.book.view();
    if (view.ready.empty())
      return;
    ++policy.questions;
    const auto choice = ask([&] { return policy.by->next(view); });
    if (!choice) {
      if (now_->row.size() == now_->finished)
        node_->messages->send_later(self_,
                                    messages::stage_actor(self_),
                                    longest_wait(longest_ms_, job_->pipeline_ranks()),
                                    messages::ask_again{told_.generation, step_, policy.questions});
      return;
    }
    choose(*choice);
  }
}

// Choices may arrive out of order, or before our own step begins.
void stage_state::receive(const messages::chosen& x) {
  if (x.generation != told_.generation)
    return;
  early_.emplace(std::pair(x.step, x.number), x.action);
  if (!now_ || now_->step.validation)
    return;
  append_early();
  pump();
}

void stage_state::append_early() {
  for (;;) {
    const auto found = early_.find({step_, now_->choices});
    if (found == early_.end())
      return;
    append_chosen(found->second);
    early_.erase(found);
  }
}

// All ranks may be waiting for this one while its behaviour waits by choice. To avoid a deadlock,
// the stage executes a ready action.
void stage_state::ask_again(const messages::ask_again& x) {
  if (!now_ || !now_->policy || x.generation != told_.generation || x.step != step_)
    return;
  auto& policy = *now_->policy;
  const auto& ready = policy.book.view().ready;
  if (policy.questions != x.question || now_->row.size() != now_->finished || ready.empty())
    return;
  const auto first = most_wanted(ready);
  if (++passed_over_ > most_passed_over)
    throw runtime::input_error(
        "the behaviour {} leaves {} undone in step {}, and nothing else can arrive: it was "
        "overridden {} times before; let next() choose an action when no other rank can continue",
        job_->pipeline.schedule->name(),
        to_string(first),
        runtime::value(step_),
        most_passed_over);
  runtime::log_warning(
      "{}: the behaviour {} has left {} undone for {:.0f} s, and nothing has arrived: the stage "
      "executes it",
      who_,
      job_->pipeline.schedule->name(),
      to_string(first),
      double(longest_wait(longest_ms_, job_->pipeline_ranks()).count()) / 1e3);
  choose(first);
  pump();
}

}  // namespace troupe::actors
