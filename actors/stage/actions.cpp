#include "actors/stage/passes.hpp"
#include "actors/stage/stage_context.hpp"
#include "runtime/core/error.hpp"

#include <algorithm>
#include <optional>
#include <utility>

namespace troupe::actors {

using messages::pass_id;
using runtime::action;
using runtime::action_kind;
using runtime::chunk_id;
using runtime::ticket_bundle;

// With several logical replicas per stage, their micro-batches run one replica after the other; the
// plan counts them all.
runtime::pass_key stage_state::key_of(chunk_id chunk, runtime::microbatch_id microbatch) const {
  const auto each = now_->step.microbatches / job_->replicas_each();
  const auto m = int(runtime::value(microbatch));
  return {m / each, chunk, runtime::microbatch_id(m % each)};
}

pass_id stage_state::pass_of(const action& x) const {
  return {.generation = told_.generation,
          .step = now_->step.step,
          .validation = now_->step.validation,
          .chunk = x.chunk,
          .copy = x.copy,
          .microbatch = x.microbatch};
}

void stage_state::receive(const messages::activation& x) {
  keep(arrival::activation, x.at, x.data);
}

void stage_state::receive(const messages::gradient& x) {
  keep(arrival::gradient, x.at, x.data);
}

void stage_state::receive(const messages::batch_ready& x) {
  keep(arrival::batch, x.at, x.data);
}

void stage_state::receive(const messages::use_checkpointer& x) {
  if (x.generation != told_.generation)
    return;
  peers_.checkpointer = x.checkpointer;
  node_->transport->take_back(std::exchange(snapshot_, {}));
}

// A neighbour may be one step ahead: its data waits until this stage's step begins.
void stage_state::keep(arrival kind, const pass_id& at, const ticket_bundle& data) {
  if (!is_ours(at.generation))
    return;  // HANDOFF-3
  if (is_second_batch(kind, at, data))
    return;
  const bool first = seen_.emplace(kind, at).second && at.step >= step_;
  runtime::ensure(first, "HANDOFF-1: a pass has one activation and one gradient");
  inbox_.emplace(inbox_key{kind, at}, data);
  note_inbox();
  traffic_with(false, rank_of_sender(kind, at)).add(bytes_of(data));
  if (now_ && !asked_ahead_.contains(at)) {
    note_arrival(kind, at);
    ask_policy();
    pump();
  }
  if (kind == arrival::batch)
    request_ahead();
}

int stage_state::rank_of_sender(arrival kind, const pass_id& at) const {
  switch (kind) {
    case arrival::activation:
      return rank_of(chunk_id(value(at.chunk) - 1), at.copy);
    case arrival::gradient:
      return rank_of(next(at.chunk), at.copy);
    default:
      return rank_of_loader;
  }
}

runtime::traffic_counter& stage_state::traffic_with(bool sent, int rank) {
  auto& found = traffic_[{sent, rank}];
  if (!found) {
    const auto peer = rank == rank_of_loader ? "loader" : "stage:" + name_of_rank(rank);
    found = sent ? node_->traffic->sent_to(peer) : node_->traffic->received_from(peer);
  }
  return *found;
}

bool stage_state::begins_backward(const action& x) const {
  const auto& blocks = now_->plan->blocks;
  const auto last = blocks.empty() ? 0 : int(blocks[runtime::value(x.chunk)].size()) - 1;
  return x.kind == action_kind::input_gradients && int(x.block) == last;
}

std::optional<ticket_bundle> stage_state::inputs_of(const action& x) {
  std::vector<arrival> wanted;
  if (x.kind == action_kind::forward) {
    if (takes_batch(x.chunk))
      wanted.push_back(arrival::batch);
    if (takes_activation(x.chunk))
      wanted.push_back(arrival::activation);
  } else if (begins_backward(x) && takes_gradient(x.chunk)) {
    wanted.push_back(arrival::gradient);
  }
  const auto at = pass_of(x);
  for (const auto kind : wanted)
    if (!inbox_.contains({kind, at}))
      return std::nullopt;
  ticket_bundle out;
  for (const auto kind : wanted) {
    auto found = inbox_.extract({kind, at});
    auto& arrived = found.mapped();
    out.names.insert(out.names.end(), arrived.names.begin(), arrived.names.end());
    out.tickets.insert(out.tickets.end(), arrived.tickets.begin(), arrived.tickets.end());
  }
  note_inbox();
  return out;
}

void stage_state::note_inbox() {
  if (!queue_length_)
    queue_length_ = node_->traffic->queue_of(who_);
  queue_length_->store(inbox_.size(), std::memory_order_relaxed);
}

void stage_state::pump() {
  fill_lane();
  note_waiting();
}

void stage_state::fill_lane() {
  while (now_->next < now_->row.size() && now_->in_lane < ahead) {
    const auto x = now_->row[now_->next];
    if (!has_credit(x))
      return;
    auto inputs = inputs_of(x);
    if (!inputs)
      return;
    ++now_->next;
    ++now_->in_lane;
    submit(x, std::move(*inputs));
  }
}

void stage_state::submit(const action& x, ticket_bundle inputs) {
  const auto done = std::make_shared<pass_outcome>(pass_outcome{.credit = lend_credit(x)});
  submit((now_->step.validation ? "eval " : "") + to_string(x, now_->plan->copies),
         [done,
          order = pass_order{.what = x,
                             .key = key_of(x.chunk, x.microbatch),
                             .inputs = std::move(inputs),
                             .transport = node_->transport,
                             .generation = told_.generation,
                             .token = groups_->token(),
                             .timed = now_->step.timed || now_->policy.has_value(),
                             .takes_times = takes_times(),
                             .verified = is_verified(x)}](stage_context& context,
                                                          runtime::stream& stream) {
           carry_out(order, *done, context, stream);
         },
         [this, x, done] {
           --now_->in_lane;
           longest_ms_ = std::max(longest_ms_, done->longest_ms);
           if (now_->step.timed)
             now_->executed.push_back({x, done->times.begin, done->times.end});
           if (done->check)
             send_to_check(x, *std::move(done->check));
           if (takes_times())
             now_->times.actions.push_back(done->times);
           pass_on(x, done->outputs);
           if (++now_->finished == now_->length)
             return vote_if_done();
           ask_policy();
           pump();
         });
}

const messages::stage_actor& stage_state::holder_of(const pass_id& at) const {
  return peers_.pipeline.at(std::size_t(rank_of(at.chunk, at.copy)));
}

int stage_state::rank_of(chunk_id chunk, runtime::copy_id copy) const {
  return job_->pipeline.schedule->rank_of(chunk, copy);
}

void stage_state::pass_on(const action& x, const ticket_bundle& outputs) {
  if (outputs.tickets.empty())
    return;
  auto to = pass_of(x);
  const bool is_forward = x.kind == action_kind::forward;
  const auto chunk = is_forward ? next(to.chunk) : chunk_id(value(to.chunk) - 1);
  traffic_with(true, rank_of(chunk, to.copy)).add(bytes_of(outputs));
  if (is_forward) {
    to.chunk = next(to.chunk);
    node_->messages->send(self_, holder_of(to), messages::activation{to, outputs});
  } else {
    to.chunk = chunk_id(value(to.chunk) - 1);
    node_->messages->send(self_, holder_of(to), messages::gradient{to, outputs});
  }
}

}  // namespace troupe::actors
