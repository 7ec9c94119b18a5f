#include "actors/stage/bench.hpp"
#include "actors/support/guard.hpp"
#include "runtime/core/error.hpp"
#include "runtime/telemetry/trace.hpp"

#include <caf/send.hpp>

#include <cstring>
#include <utility>

namespace troupe::actors {

using messages::place;
using runtime::action;
using runtime::action_kind;
using runtime::chunk_id;
using runtime::ticket_bundle;

std::vector<action> lowered(const std::vector<action>& row) {
  std::vector<action> out;
  for (const auto& x : row) {
    if (x.kind != action_kind::backward) {
      out.push_back(x);
      continue;
    }
    out.push_back({action_kind::input_gradients, x.chunk, x.microbatch});
    out.push_back({action_kind::weight_gradients, x.chunk, x.microbatch});
  }
  return out;
}

runtime::bundle copied(const std::vector<runtime::named_array>& arrays, runtime::stream& by) {
  runtime::bundle out;
  for (const auto& array : arrays) {
    auto x = runtime::tensor::empty<float>(by, array.part.extents);
    std::memcpy(x.raw(), array.elements.data(), array.elements.size_bytes());
    out.add(array.name, std::move(x));
  }
  return out;
}

std::vector<messages::fragment> places_of(const std::vector<runtime::named_array>& arrays) {
  std::vector<messages::fragment> out;
  for (const auto& array : arrays)
    out.push_back({array.whole, array.part});
  return out;
}

// A stage that plays several logical replicas carries out the micro-batches of one after those of
// the other; the plan counts them all.
runtime::pass_key stage_state::key_of(chunk_id chunk, runtime::microbatch_id microbatch) const {
  const auto each = now_->step.what.microbatches / shared_->replicas_each();
  const auto m = int(runtime::value(microbatch));
  return {m / each, chunk, runtime::microbatch_id(m % each)};
}

place stage_state::place_of(runtime::microbatch_id microbatch, int chunk) const {
  return {.generation = seat_.generation,
          .step = now_->step.step,
          .validation = now_->step.validation,
          .chunk = chunk_id(chunk),
          .microbatch = microbatch};
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

// A neighbour may be a step ahead: what it sends waits until our own step begins.
void stage_state::keep(arrival kind, const place& at, const ticket_bundle& data) {
  if (at.generation != seat_.generation)
    return;  // HANDOFF-3
  const bool first = seen_.emplace(kind, at).second && at.step >= step_;
  runtime::ensure(first, "HANDOFF-1: one activation and one gradient for each place");
  inbox_.emplace(inbox_key{kind, at}, data);
  if (now_)
    pump();
}

void stage_state::request_batches() {
  if (!is_first() && !is_last())
    return;
  const auto& step = now_->step;
  for (const auto& x : now_->row) {
    if (x.kind != action_kind::forward)
      continue;
    const auto key = key_of(x.chunk, x.microbatch);
    const int replica = seat_.replica * shared_->replicas_each() + key.replica;
    shared_->planted->send(self_,
                           caf::actor_cast<messages::loader_actor>(peers_.loader),
                           messages::request_batch{.at = place_of(x.microbatch, seat_.part),
                                                   .replica = replica,
                                                   .microbatch = runtime::value(key.microbatch),
                                                   .consumed = step.consumed,
                                                   .validation = step.validation,
                                                   .inputs = is_first(),
                                                   .labels = is_last()});
  }
}

bool stage_state::begins_the_way_back(const action& x) const {
  const auto& blocks = now_->step.what.blocks;
  const auto last = blocks.empty() ? 0 : int(blocks[runtime::value(x.chunk)].size()) - 1;
  return x.kind == action_kind::input_gradients && int(x.block) == last;
}

std::optional<ticket_bundle> stage_state::inputs_of(const action& x) {
  std::vector<arrival> wanted;
  if (x.kind == action_kind::forward) {
    if (is_first() || is_last())
      wanted.push_back(arrival::batch);
    if (!is_first())
      wanted.push_back(arrival::activation);
  } else if (begins_the_way_back(x) && !is_last()) {
    wanted.push_back(arrival::gradient);
  }
  const auto at = place_of(x.microbatch, seat_.part);
  for (const auto kind : wanted)
    if (!inbox_.contains({kind, at}))
      return std::nullopt;
  ticket_bundle out;
  for (const auto kind : wanted) {
    auto found = inbox_.extract({kind, at});
    auto& part = found.mapped();
    out.names.insert(out.names.end(), part.names.begin(), part.names.end());
    out.tickets.insert(out.tickets.end(), part.tickets.begin(), part.tickets.end());
  }
  return out;
}

void stage_state::pump() {
  while (now_->next < now_->row.size() && now_->in_lane < ahead) {
    const auto x = now_->row[now_->next];
    auto inputs = inputs_of(x);
    if (!inputs)
      return;
    ++now_->next;
    ++now_->in_lane;
    submit(x, std::move(*inputs));
  }
}

void stage_state::submit(const action& x, ticket_bundle inputs) {
  const auto outputs = std::make_shared<ticket_bundle>();
  submit((now_->step.validation ? "eval " : "") + to_string(x),
         [x,
          outputs,
          in = std::move(inputs),
          by = shared_->transport,
          g = seat_.generation,
          key = key_of(x.chunk, x.microbatch)](bench& on, runtime::stream&) {
           switch (x.kind) {
             case action_kind::forward:
               *outputs = deposit(*by, on.worker->forward(key, redeem(*by, in)), g);
               break;
             case action_kind::input_gradients:
               *outputs
                   = deposit(*by, on.worker->input_gradients(key, redeem(*by, in), x.block), g);
               break;
             case action_kind::weight_gradients:
               on.worker->weight_gradients(key, x.block);
               break;
             case action_kind::recompute:
               on.worker->recompute(key, x.block);
               break;
             default:
               throw runtime::broken_promise("STAGE-1: a row is lowered before it is carried out");
           }
         },
         [this, x, outputs] {
           --now_->in_lane;
           pass_on(x, *outputs);
           if (++now_->finished == now_->row.size())
             vote_if_done();
           else
             pump();
         });
}

void stage_state::pass_on(const action& x, const ticket_bundle& outputs) {
  if (outputs.tickets.empty())
    return;
  if (x.kind == action_kind::forward)
    shared_->planted->send(self_,
                           caf::actor_cast<messages::stage_actor>(peers_.next),
                           messages::activation{place_of(x.microbatch, seat_.part + 1), outputs});
  else
    shared_->planted->send(self_,
                           caf::actor_cast<messages::stage_actor>(peers_.previous),
                           messages::gradient{place_of(x.microbatch, seat_.part - 1), outputs});
}

void stage_state::errand::submit(runtime::lane& to, lane_work what) const {
  to.submit(
      [x = *this, what = std::move(what)](runtime::stream& by) {
        const auto begin = x.trace ? runtime::now_ns() : 0;
        what(*x.on, by);
        if (x.trace)
          x.trace->add({x.label, x.rank, x.step, begin, runtime::now_ns(), x.track});
      },
      [name = label, number = work, to_whom = whom](std::exception_ptr failure) {
        messages::lane_done done{.work = number};
        if (failure) {
          const auto reason = reason_of(name, failure);
          done.failure = messages::text_of(reason);
          done.cancelled = is(reason, messages::ec::cancelled);
          done.refused = is(reason, messages::ec::refused);
        }
        caf::anon_send(to_whom, std::move(done));
      });
}

stage_state::errand stage_state::errand_for(std::string label,
                                            int track,
                                            std::uint64_t work) const {
  return {.label = std::move(label),
          .rank = shared_->rank(seat_.replica, seat_.part, seat_.tensor),
          .track = track,
          .step = step_,
          .work = work,
          .on = bench_,
          .trace = shared_->trace,
          .whom = messages::stage_actor(self_)};
}

void stage_state::submit(std::string label, lane_work what, std::function<void()> after) {
  const auto work = ++submitted_;
  after_.emplace(work, std::move(after));
  errand_for(std::move(label), 0, work).submit(*lane_, std::move(what));
}

void stage_state::submit_to_wire(std::string label, lane_work what, std::function<void()> after) {
  const auto work = ++submitted_;
  after_.emplace(work, std::move(after));
  errand_for(std::move(label), 1, work).submit(*wire_, std::move(what));
}

void stage_state::finish(const messages::lane_done& x) {
  if (x.cancelled)
    return;  // whoever ended the generation also ends us
  if (!x.failure.empty()) {
    const auto code = x.refused ? messages::ec::refused : messages::ec::protocol_violated;
    self_->quit(messages::make_error(code, who_ + ": " + x.failure));
    return;
  }
  auto after = after_.extract(x.work);
  runtime::ensure(!after.empty(), "STAGE-2: each piece of work ends once");
  after.mapped()();
}

}  // namespace troupe::actors
