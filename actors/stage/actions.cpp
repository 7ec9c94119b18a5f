#include "actors/stage/stage_context.hpp"
#include "actors/stage/verifying.hpp"
#include "actors/support/guard.hpp"
#include "runtime/core/error.hpp"
#include "runtime/telemetry/trace.hpp"

#include <algorithm>
#include <chrono>
#include <optional>
#include <stdexcept>
#include <thread>
#include <utility>

namespace troupe::actors {

using messages::pass_id;
using runtime::action;
using runtime::action_kind;
using runtime::chunk_id;
using runtime::ticket_bundle;

namespace {

using moment = runtime::moment_of_step;

moment moment_of(action_kind x, bool validation) {
  if (validation)
    return moment::validate;
  if (x == action_kind::forward)
    return moment::forward;
  return x == action_kind::weight_gradients ? moment::weight_gradient : moment::input_gradient;
}

}  // namespace

std::uint64_t clock_ns(const messages::stage_actor& of) {
  return std::uint64_t(of.home_system().clock().now().time_since_epoch().count());
}

void stage_context::doom(int track, const std::string& why) {
  const std::lock_guard lock(doom_mutex_);
  doom_[track == 0 ? 0 : 1] = why;
}

void stage_context::die_if_doomed(int track) {
  const std::lock_guard lock(doom_mutex_);
  if (!doom_[track == 0 ? 0 : 1].empty())
    throw std::runtime_error(doom_[track == 0 ? 0 : 1]);
}

double stage_context::longest_ms(runtime::moment begin,
                                 runtime::moment end,
                                 const runtime::stream& by) {
  timed_.emplace_back(std::move(begin), std::move(end));
  for (; !timed_.empty() && by.has_passed(timed_.front().second); timed_.pop_front()) {
    const auto from = by.ns_of(timed_.front().first);
    longest_ms_ = std::max(longest_ms_, double(by.ns_of(timed_.front().second) - from) / 1e6);
  }
  return longest_ms_;
}

void stage_context::trace(runtime::trace_recorder& to,
                          runtime::span what,
                          runtime::moment begin,
                          runtime::stream& by) {
  auto& late = late_[what.track == 0 ? 0 : 1];
  late.push_back({std::move(what), std::move(begin), by.now()});
  add_passed(to, late, by);
}

void stage_context::add_passed(runtime::trace_recorder& to, late_spans& late, runtime::stream& by) {
  while (!late.empty() && by.has_passed(late.front().end)) {
    auto& x = late.front();
    x.what.begin_ns = std::uint64_t(by.ns_of(x.begin));
    x.what.end_ns = std::uint64_t(by.ns_of(x.end));
    to.add(std::move(x.what));
    late.pop_front();
  }
}

void stage_context::trace_rest(runtime::trace_recorder& to,
                               int track,
                               runtime::stream& by) noexcept {
  auto& late = late_[track == 0 ? 0 : 1];
  try {
    for (int ms = 0; !late.empty() && ms < 1000; ++ms) {
      add_passed(to, late, by);
      if (!late.empty())
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  } catch (const runtime::device_failure&) {
    // The work that waited for the device has told it.
  }
}

// A stage that plays several logical replicas carries out the micro-batches of one after those of
// the other; the plan counts them all.
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

// Of batches the second answer may come: that of a loader that died after it was asked. Both are
// the same (DATA-1), and the lease of this one goes back.
bool stage_state::is_second_batch(arrival kind, const pass_id& at, const ticket_bundle& data) {
  if (kind != arrival::batch || awaited_.erase(at) > 0)
    return false;
  if (!has(planted_bug::keep_second_batch))
    node_->transport->take_back(data.tickets);
  return true;
}

// What has not been answered is asked of the new one.
void stage_state::receive(const messages::use_loader& x) {
  if (x.generation != told_.generation)
    return;
  peers_.loader = x.loader;
  for (const auto& [at, request] : awaited_)
    node_->messages->send(self_, peers_.loader, request);
}

void stage_state::receive(const messages::use_checkpointer& x) {
  if (x.generation != told_.generation)
    return;
  peers_.checkpointer = x.checkpointer;
  node_->transport->take_back(std::exchange(snapshot_, {}));
}

// A neighbour may be a step ahead: what it sends waits until our own step begins.
void stage_state::keep(arrival kind, const pass_id& at, const ticket_bundle& data) {
  if (!is_ours(at.generation))
    return;  // HANDOFF-3
  if (is_second_batch(kind, at, data))
    return;
  const bool first = seen_.emplace(kind, at).second && at.step >= step_;
  runtime::ensure(first, "HANDOFF-1: one activation and one gradient for each pass");
  inbox_.emplace(inbox_key{kind, at}, data);
  if (!now_)
    return;
  note_arrival(kind, at);
  ask_policy();
  pump();
}

void stage_state::request_batches() {
  const auto& plan = *now_->plan;
  const auto hosted = job_->pipeline.schedule->hosted_by(told_.pipeline_rank);
  for (int m = 0; m < plan.microbatches_each(); ++m)
    for (const auto& one : hosted)
      if (int(value(one.copy)) < plan.copies && (is_first(one.chunk) || is_last(one.chunk)))
        request_batch(one, m);
}

// The copies of a model are replicas: micro-batch m of each comes from the same stretch of samples.
void stage_state::request_batch(const runtime::chunk_copy& hosted, int microbatch) {
  const action x{action_kind::forward,
                 hosted.chunk,
                 runtime::microbatch_id(std::uint32_t(microbatch)),
                 0,
                 hosted.copy};
  const auto key = key_of(hosted.chunk, x.microbatch);
  const int copies = now_->plan->copies;
  const auto logical = std::uint64_t(told_.replica * job_->replicas_each() + key.replica);
  const auto replicas = std::uint64_t(job_->job.training.batch.data_parallel);
  const auto stretch
      = (value(key.microbatch) * replicas + logical) * std::uint64_t(copies) + value(hosted.copy);
  const auto& step = now_->step;
  const messages::request_batch request{.at = pass_of(x),
                                        .replica = int(stretch % replicas),
                                        .microbatch = stretch / replicas,
                                        .consumed = step.consumed,
                                        .validation = step.validation,
                                        .test = step.test,
                                        .inputs = is_first(hosted.chunk),
                                        .labels = is_last(hosted.chunk)};
  awaited_.emplace(request.at, request);
  node_->messages->send(self_, peers_.loader, request);
}

bool stage_state::begins_backward(const action& x) const {
  const auto& blocks = now_->plan->blocks;
  const auto last = blocks.empty() ? 0 : int(blocks[runtime::value(x.chunk)].size()) - 1;
  return x.kind == action_kind::input_gradients && int(x.block) == last;
}

std::optional<ticket_bundle> stage_state::inputs_of(const action& x) {
  std::vector<arrival> wanted;
  if (x.kind == action_kind::forward) {
    if (is_first(x.chunk) || is_last(x.chunk))
      wanted.push_back(arrival::batch);
    if (!is_first(x.chunk))
      wanted.push_back(arrival::activation);
  } else if (begins_backward(x) && !is_last(x.chunk)) {
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
    if (has(planted_bug::keep_old_ticket)) {
      auto following = at;
      following.microbatch = runtime::microbatch_id(value(at.microbatch) + 1);
      inbox_.emplace(inbox_key{kind, following}, arrived);
    }
    out.names.insert(out.names.end(), arrived.names.begin(), arrived.names.end());
    out.tickets.insert(out.tickets.end(), arrived.tickets.begin(), arrived.tickets.end());
  }
  return out;
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
  struct outcome {
    std::shared_ptr<const void> credit;  ///< for the outputs
    ticket_bundle outputs;
    time_spent times = {};
    double longest_ms = 0;
    std::optional<messages::check_pass> check = {};  ///< to be sent
  };
  const auto done = std::make_shared<outcome>();
  done->credit = lend_credit(x);
  submit((now_->step.validation ? "eval " : "") + to_string(x, now_->plan->copies),
         [x,
          done,
          in = std::move(inputs),
          by = node_->transport,
          g = told_.generation,
          token = groups_->token(),
          leaks = has(planted_bug::leak_lease),
          loses = has(planted_bug::lose_gradient) && value(step_) == 2
                  && int(value(x.microbatch)) == now_->step.microbatches - 1,
          timed = now_->step.timed || now_->policy.has_value(),
          spent = takes_times(),
          verified = is_verified(x),
          faults = node_->faults,
          who = "lane:" + where_,
          step = value(now_->step.step),
          validation = now_->step.validation,
          key = key_of(x.chunk, x.microbatch)](stage_context& context, runtime::stream& by_stream) {
           const auto handed_on = [&](const runtime::bundle& parts) {
             done->outputs = deposit(*by, parts, g, std::exchange(done->credit, nullptr));
           };
           // What a device carries out waits for no core.
           const auto without_core
               = [&] { return spent && by_stream.queue() == nullptr ? context.core.ns() : 0; };
           const auto taken = [&] {
             const auto waited = without_core();
             if (spent)
               done->times.redeems = by_stream.now();
             if (!in.tickets.empty())
               faults->pass(who, step, moment::redeem);
             auto out = redeem(*by, in, {&by_stream, token});
             if (spent) {
               done->times.redeemed = by_stream.now();
               done->times.no_core_redeeming = without_core() - waited;
               for (const auto& [name, part] : out)
                 done->times.bytes += part.bytes();
             }
             return out;
           };
           const auto waited_before = without_core();
           if (timed || spent)
             done->times.begin = by_stream.now();
           const bool flips = faults->pass(who, step, moment_of(x.kind, validation))
                              == fault_injector::fate::wrong_bits;
           auto& worker = *context.worker;
           switch (x.kind) {
             case action_kind::forward: {
               const auto from = taken();
               auto out = worker.forward(key, from);
               if (flips)
                 worker.flip_output_bit(key, out);
               if (verified)
                 keep_forward(context, key, from, out);
               handed_on(out);
               if (leaks)
                 by->deposit(runtime::tensor(), g);
               break;
             }
             case action_kind::input_gradients: {
               const auto from = taken();
               if (verified)
                 keep_gradient(context, key, from);
               auto out = worker.input_gradients(key, from, x.block);
               if (flips)
                 worker.flip_output_bit(key, out);
               if (verified && x.block == 0)
                 keep_input_gradient(context, key, out);
               handed_on(out);
               break;
             }
             case action_kind::weight_gradients:
               if (loses)
                 break;
               if (flips)
                 worker.flip_added_bit(key.chunk);
               if (verified)
                 done->check = add_and_keep(context, key, x.block, *by, g);
               else
                 worker.weight_gradients(key, x.block);
               break;
             case action_kind::recompute:
               context.worker->recompute(key, x.block);
               break;
             default:
               throw runtime::broken_promise("STAGE-1: a row is split before it is carried out");
           }
           if (timed || spent)
             done->times.end = by_stream.now();
           done->times.no_core = without_core() - waited_before;
           if (timed)
             done->longest_ms = context.longest_ms(done->times.begin, done->times.end, by_stream);
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
  return peers_.pipeline.at(std::size_t(job_->pipeline.schedule->rank_of(at.chunk, at.copy)));
}

void stage_state::pass_on(const action& x, const ticket_bundle& outputs) {
  if (outputs.tickets.empty())
    return;
  auto to = pass_of(x);
  if (x.kind == action_kind::forward) {
    to.chunk = next(to.chunk);
    node_->messages->send(self_, holder_of(to), messages::activation{to, outputs});
  } else {
    to.chunk = chunk_id(value(to.chunk) - 1);
    node_->messages->send(self_, holder_of(to), messages::gradient{to, outputs});
  }
}

void lane_task::submit(runtime::lane& to, lane_work what) const {
  to.submit(
      [x = *this, what = std::move(what)](runtime::stream& by) {
        std::optional<runtime::lane_board::place::at_work> seen;
        if (const auto& place = x.context->places[x.place])
          // Building reads or draws a whole state, and not all of that tells how far it has come.
          seen.emplace(*place,
                       x.label,
                       value(x.step),
                       clock_ns(x.stage),
                       x.label == "build" ? patience_with_disks : 1);
        if (x.place < 2)
          x.context->die_if_doomed(x.place);
        if (!x.trace)
          return what(*x.context, by);
        const auto begin = by.now();
        what(*x.context, by);
        x.context->trace(*x.trace, {x.label, x.rank, x.step, 0, 0, x.track}, begin, by);
      },
      [name = label, number = work, receiver = stage, path = path](std::exception_ptr failure) {
        messages::lane_done done{.work = number};
        if (failure) {
          const auto reason = reason_of(name, failure);
          done.failure = messages::text_of(reason);
          done.cancelled = is(reason, messages::ec::cancelled);
          done.refused = is(reason, messages::ec::refused);
          done.peer_lost = is(reason, messages::ec::peer_lost);
        }
        path->send_from_outside(receiver, std::move(done));
      });
}

lane_task stage_state::task_for(std::string label, int track, std::uint64_t work) const {
  return {.label = std::move(label),
          .rank = job_->rank(told_.replica, told_.pipeline_rank, told_.tensor_rank),
          .track = track,
          .place = track == 0 ? 0 : 1,
          .step = step_,
          .work = work,
          .context = context_,
          .trace = node_->trace,
          .path = node_->messages,
          .stage = messages::stage_actor(self_)};
}

void stage_state::submit(std::string label, lane_work what, std::function<void()> after) {
  const auto work = ++submitted_;
  after_.emplace(work, std::move(after));
  task_for(std::move(label), 0, work).submit(*lane_, std::move(what));
}

void stage_state::submit_communication(std::string label,
                                       lane_work what,
                                       std::function<void()> after) {
  const auto work = ++submitted_;
  after_.emplace(work, std::move(after));
  task_for(std::move(label), 1, work).submit(*communication_lane_, std::move(what));
}

void stage_state::finish(const messages::lane_done& x) {
  if (x.cancelled)
    return;  // what ended the generation also ends us
  if (!x.failure.empty()) {
    const auto code = x.refused     ? messages::ec::refused
                      : x.peer_lost ? messages::ec::peer_lost
                                    : messages::ec::protocol_violated;
    self_->quit(messages::make_error(code, who_ + ": " + x.failure));
    return;
  }
  if (take_credit_back(x.work))
    return;
  auto after = after_.extract(x.work);
  runtime::ensure(!after.empty(), "STAGE-2: each piece of work ends once");
  after.mapped()();
}

}  // namespace troupe::actors
