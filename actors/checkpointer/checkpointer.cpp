#include "actors/checkpointer/checkpointer.hpp"

#include "actors/support/guard.hpp"
#include "actors/support/on_board.hpp"
#include "runtime/checkpoint/regained_lock.hpp"
#include "runtime/core/error.hpp"
#include "runtime/core/json_text.hpp"
#include "runtime/core/log.hpp"
#include "runtime/model/stages.hpp"
#include "runtime/trainer/device_setup.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

namespace troupe::actors {

void checkpointer_state::start(const messages::spawn_checkpointer& told,
                               std::shared_ptr<const opened_job> job,
                               std::shared_ptr<const node_context> context,
                               runtime::cancel_token token) {
  token_ = std::move(token);
  supervisor_ = told.supervisor;
  identity_ = told.job.identity;
  generation_ = told.generation;
  job_ = std::move(job);
  context_ = std::move(context);
  presence_ = context_->living->enter({told.generation, "checkpointer", -1, true});
  if (context_->own_threads)
    place_ = context_->lanes->add({.who = "checkpointer",
                                   .generation = value(told.generation),
                                   .service = true,
                                   .patience = patience_with_disks});
  locks_ = runtime::is_locked(job_->job.checkpoints.save);
  end_on_exception(self_, "checkpointer");
}

void checkpointer_state::expect(const messages::save& x) {
  if (x.generation < generation_)
    return;
  generation_ = x.generation;
  context_->faults->inject("checkpointer", runtime::value(x.step));
  context_->faults->pass("checkpointer", runtime::value(x.step), runtime::moment_of_step::snapshot);
  const save_key which{x.generation, x.step, x.attempt};
  // Their tickets are taken back by whoever made them.
  std::erase_if(parts_, [&](const auto& one) { return std::get<2>(one.first) < x.attempt; });
  expected_.clear();
  expected_[which] = x;
  write_if_complete(which);
}

void checkpointer_state::receive(const messages::snapshot& x) {
  if (x.generation < generation_)
    return;
  const save_key which{x.generation, x.step, x.attempt};
  parts_[which][x.rank] = x;
  write_if_complete(which);
}

void checkpointer_state::abandon(const messages::abandon& x) {
  if (x.generation >= generation_) {
    expected_.clear();
    parts_.clear();
    generation_ = runtime::next(x.generation);
  }
  context_->messages->send(self_, supervisor_, messages::abandoned{x.generation});
}

checkpointer_state::shards checkpointer_state::redeemed(
    const std::vector<runtime::tensor_shard<runtime::ticket>>& told) const {
  std::vector<runtime::ticket> tickets;
  for (const auto& x : told)
    tickets.push_back(x.elements);
  auto tensors = context_->transport->redeem_all(tickets, {.until = token_});
  shards out;
  for (std::size_t i = 0; i < told.size(); ++i)
    out.push_back(told[i].with(std::move(tensors[i])));
  return out;
}

runtime::shard_record checkpointer_state::write(runtime::checkpoint_writer& by,
                                                const std::string& file,
                                                const shards& what) {
  std::vector<runtime::shard_to_write> out;
  for (const auto& x : what)
    out.push_back(x.with(runtime::elements_to_write{runtime::stored_type::f32, x.elements.raw()}));
  return by.write_shard(file, out);
}

void checkpointer_state::write_if_complete(const save_key& which) {
  const auto expected = expected_.find(which);
  const int missing = context_->bug == planted_bug::write_incomplete ? 1 : 0;
  if (expected == expected_.end()
      || int(parts_[which].size()) < std::max(1, expected->second.parts - missing))
    return;
  const auto order = expected->second;
  const auto step = order.step;
  context_->faults->pass("checkpointer", runtime::value(step), runtime::moment_of_step::save);
  const auto given = std::move(parts_[which]);
  expected_.erase(expected);
  parts_.erase(which);
  try {
    std::vector<std::pair<shards, shards>> parts;  // parameters, moments
    for (const auto& [rank, x] : given)
      parts.emplace_back(redeemed(x.parameters), redeemed(x.moments));
    const auto folder = write(order, parts);
    // Told first: whatever the supervisor begins then is told after it.
    runtime::log_info(" saved iteration {} to {}", runtime::value(step), folder.string());
    context_->messages->send(
        self_, supervisor_, messages::saved{order.generation, step, order.attempt});
  } catch (const runtime::cancelled&) {
    return;  // its ranks have ended meanwhile: `abandon` follows, and tells
  } catch (const runtime::io_error& failure) {
    failed_ = true;
    context_->messages->send(
        self_,
        supervisor_,
        messages::save_failed{order.generation, step, failure.what(), order.attempt});
    return;
  }
  failed_ = false;
  remove_older();
}

std::filesystem::path checkpointer_state::write(
    const messages::save& order, const std::vector<std::pair<shards, shards>>& parts) {
  const auto& job = job_->job;
  if (locks_)
    if (auto lock = runtime::regained_lock(job.checkpoints.save)) {
      lock_ = std::move(lock);
      runtime::log_warning(
          "'{}' was removed, or its lock, while this run saves there: it is locked again; what "
          "else was "
          "there is lost, as checkpoints, the configuration and the copy of the tokenizer",
          job.checkpoints.save.string());
    }
  if (failed_)  // a disk that refuses to write may have refused to remove
    runtime::clear_remains(job.checkpoints.save);
  runtime::checkpoint_writer by(job.checkpoints.save,
                                std::int64_t(runtime::value(order.step)),
                                order.generation,
                                token_,
                                order.attempt);
  runtime::checkpoint_manifest manifest;
  manifest.consumed_samples = std::int64_t(order.consumed);
  manifest.skipped = order.skipped;
  manifest.scale = order.scale;
  manifest.model = job.training.model;
  manifest.identity = identity_;
  manifest.products = runtime::products_of(job);
  manifest.layout = runtime::json_text(
      nlohmann::json{{"world_size", job.layout.world},
                     {"tensor_model_parallel_size", job.layout.tensor},
                     {"pipeline_model_parallel_size", job.layout.pipeline},
                     {"sequence_parallel", job.layout.sequence_parallel},
                     {"pipeline_model_parallel_layout", to_text(job_->pipeline.chunks)},
                     {"distributed_optimizer", job.reduction.distributed_optimizer},
                     {"replicas_per_worker", job.layout.replicas_per_worker},
                     {"rank_order", job.layout.order}});
  int number = 0;
  for (const auto& [parameters, moments] : parts) {
    ++number;
    const auto file
        = [&](const char* kind) { return runtime::shard_file(kind, number, order.parts); };
    if (context_->before_write)
      context_->before_write();
    manifest.shards.push_back(write(by, file("model"), parameters));
    manifest.shards.push_back(write(by, file("optimizer"), moments));
  }
  return by.commit(std::move(manifest));
}

// Older checkpoints do no harm: what cannot be removed is told, and the run goes on.
void checkpointer_state::remove_older() const {
  const auto& where = job_->job.checkpoints;
  if (where.keep_last < 1)
    return;
  try {
    for (const auto& folder : runtime::remove_all_but_latest(where.save, where.keep_last))
      runtime::log_info(
          " removed {} (`checkpoints.keep_last` {})", folder.string(), where.keep_last);
  } catch (const runtime::error& failure) {
    runtime::log_warning("`checkpoints.keep_last` {}: {}", where.keep_last, failure.what());
  }
}

messages::checkpointer_actor::behavior_type checkpointer(
    messages::checkpointer_actor::stateful_pointer<checkpointer_state> self,
    const messages::spawn_checkpointer& told,
    std::shared_ptr<const opened_job> job,
    std::shared_ptr<const node_context> context,
    runtime::cancel_token token) {
  self->state.start(told, std::move(job), std::move(context), std::move(token));
  return {
      on_board<messages::save>(
          self, self->state.place(), [self](const messages::save& x) { self->state.expect(x); }),
      on_board<messages::snapshot>(self,
                                   self->state.place(),
                                   [self](const messages::snapshot& x) { self->state.receive(x); }),
      on_board<messages::abandon>(self, self->state.place(), [self](const messages::abandon& x) {
        self->state.abandon(x);
      })};
}

}  // namespace troupe::actors
