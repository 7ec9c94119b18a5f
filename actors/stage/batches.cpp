// Requests micro-batches. A stage requests those of the next step as soon as it has all of this
// step, so the loader reads them during the computation.

#include "actors/stage/stage.hpp"
#include "runtime/core/error.hpp"

#include <utility>
#include <vector>

namespace troupe::actors {

using messages::pass_id;
using messages::request_batch;
using messages::run_step;

// The copies of a model share the samples of its replica.
request_batch stage_state::batch_of(const run_step& step,
                                    const runtime::chunk_copy& hosted,
                                    int microbatch) const {
  const int copies = copies_in(step);
  const int each = step.microbatches / job_->replicas_each();
  return {.at = {.generation = told_.generation,
                 .step = step.step,
                 .validation = step.validation,
                 .chunk = hosted.chunk,
                 .copy = hosted.copy,
                 .microbatch = runtime::microbatch_id(std::uint32_t(microbatch))},
          .replica = replica_ * job_->replicas_each() + microbatch / each,
          .microbatch = std::uint64_t(microbatch % each * copies) + value(hosted.copy),
          .consumed = step.consumed,
          .validation = step.validation,
          .test = step.test,
          .names = job_->pipeline.flow(hosted.chunk).batch};
}

// Validation runs forward on the first copy only.
int stage_state::copies_in(const run_step& step) const {
  return step.validation ? 1 : job_->pipeline.schedule->copies();
}

std::vector<request_batch> stage_state::batches_of(const run_step& step) const {
  std::vector<request_batch> out;
  const int copies = copies_in(step);
  const auto hosted = job_->pipeline.schedule->hosted_by(pipeline_rank_);
  for (int m = 0; m < step.microbatches / copies; ++m)
    for (const auto& one : hosted)
      if (int(value(one.copy)) < copies && takes_batch(one.chunk))
        out.push_back(batch_of(step, one, m));
  return out;
}

void stage_state::request(const request_batch& x) {
  awaited_.emplace(x.at, x);
  send_request(x);
}

void stage_state::send_request(request_batch x) {
  x.ahead = asked_ahead_.contains(x.at);
  node_->messages->send(self_, peers_.loader, x);
}

void stage_state::request_batches() {
  constexpr const char* as_foretold = "DATA-2: a step takes the batches that were requested ahead";
  for (const auto& x : batches_of(now_->step)) {
    const auto found = asked_ahead_.find(x.at);
    if (found == asked_ahead_.end()) {
      request(x);
      continue;
    }
    runtime::ensure(found->second == x, as_foretold);
    asked_ahead_.erase(found);
    if (failed_ahead_.erase(x.at) > 0)
      request(x);
  }
  runtime::ensure(asked_ahead_.empty() || asked_ahead_.begin()->first.step > step_, as_foretold);
}

// Waits until this step has all its batches, so that requests ahead never delay them. Requests one
// step at most, since batches stay in memory until they are used.
void stage_state::request_ahead() {
  if (!now_ || now_->step.next_microbatches == 0 || !awaited_.empty() || !asked_ahead_.empty())
    return;
  auto following = now_->step;
  following.step = runtime::next(following.step);
  following.consumed = now_->step.next_consumed;
  following.microbatches = now_->step.next_microbatches;
  for (const auto& x : batches_of(following)) {
    asked_ahead_.emplace(x.at, x);
    request(x);
  }
}

// A batch may arrive twice: a second time from a loader that died after the request. Both are equal
// (DATA-1), so the lease of the second one is returned.
bool stage_state::is_second_batch(arrival kind,
                                  const pass_id& at,
                                  const runtime::ticket_bundle& data) {
  if (kind != arrival::batch || awaited_.erase(at) > 0)
    return false;
  node_->transport->take_back(data.tickets);
  return true;
}

// DATA-3. The failure may arrive after the step has begun, or from a loader that has died.
void stage_state::receive(const messages::batch_failed& x) {
  if (!is_ours(x.at.generation))
    return;  // HANDOFF-3
  const auto asked = awaited_.find(x.at);
  if (asked == awaited_.end())
    return;  // another loader has already answered
  if (!asked_ahead_.contains(x.at))
    return send_request(asked->second);
  awaited_.erase(asked);
  failed_ahead_.insert(x.at);
}

// Repeats all unanswered requests at the new loader.
void stage_state::receive(const messages::use_loader& x) {
  if (x.generation != told_.generation)
    return;
  peers_.loader = x.loader;
  for (const auto& [at, asked] : awaited_)
    send_request(asked);
}

}  // namespace troupe::actors
