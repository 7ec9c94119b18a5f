#include "actors/checkpointer/checkpointer.hpp"

#include "actors/checkpointer/manifest_of.hpp"
#include "actors/support/guard.hpp"
#include "actors/support/on_board.hpp"
#include "runtime/checkpoint/save_lock.hpp"
#include "runtime/core/error.hpp"
#include "runtime/core/json_text.hpp"
#include "runtime/core/log.hpp"
#include "runtime/process/process_id.hpp"

#include <algorithm>
#include <chrono>
#include <fmt/format.h>
#include <utility>

namespace troupe::actors {

void checkpointer_state::start(const messages::spawn_checkpointer& told,
                               std::shared_ptr<const opened_job> job,
                               std::shared_ptr<const saver_resources> context,
                               runtime::cancel_token token) {
  token_ = std::move(token);
  supervisor_ = told.supervisor;
  identity_ = told.job.identity;
  generation_ = told.generation;
  job_ = std::move(job);
  context_ = std::move(context);
  presence_ = context_->living->enter({told.generation, "checkpointer", -1, true});
  if (context_->env.own_threads)
    place_ = context_->lanes->add({.who = "checkpointer",
                                   .generation = value(told.generation),
                                   .service = true,
                                   .patience = patience_with_disks});
  end_on_exception(self_, "checkpointer");
}

void checkpointer_state::expect(const messages::save& x) {
  if (x.generation < generation_)
    return;
  generation_ = x.generation;
  const save_key which{x.generation, x.step, x.attempt};
  // The actors that made older parts take their tickets back.
  std::erase_if(parts_, [&](const auto& one) { return std::get<2>(one.first) < x.attempt; });
  expected_.clear();
  saving_.reset();
  expected_[which] = x;
  expected_at_ = self_->home_system().clock().now();
  write_if_complete(which);
}

void checkpointer_state::receive(const messages::snapshot& x) {
  if (x.generation < generation_)
    return;
  const save_key which{x.generation, x.step, x.attempt};
  parts_[which][x.rank] = x;
  write_if_complete(which);
}

void checkpointer_state::write_if_complete(const save_key& which) {
  const auto expected = expected_.find(which);
  if (expected == expected_.end() || int(parts_[which].size()) < expected->second.parts)
    return;
  const auto order = expected->second;
  auto given = std::move(parts_[which]);
  expected_.erase(expected);
  parts_.erase(which);
  show_collected(value(order.step));
  try {
    if (job_->job.layout.processes > 1)
      return have_written(order, std::move(given));
    write(order, given);
  } catch (const runtime::cancelled&) {
    return;  // its ranks have ended; `abandon` follows and is answered
  } catch (const runtime::io_error& failure) {
    fail(order, failure.what());
  }
}

/// Tells viewers that the snapshots of all ranks have arrived. Next they are written.
void checkpointer_state::show_collected(std::uint64_t iteration) const {
  if (!context_->records)
    return;
  const std::chrono::duration<double> passed = self_->home_system().clock().now() - expected_at_;
  context_->records->add("save", [iteration, seconds = passed.count()] {
    return runtime::json_text(
        nlohmann::json{{"iteration", iteration}, {"state", "collected"}, {"seconds", seconds}});
  });
}

// Redeems everything before it writes: a complete save is written even if its ranks end meanwhile.
void checkpointer_state::write(const messages::save& order,
                               const std::map<int, messages::snapshot>& given) {
  std::vector<rank_state_to_write> ranks;
  for (const auto& [rank, x] : given)
    ranks.push_back(redeemed(*context_->transport, x.parameters, x.moments, token_));
  const auto by = stage(order, {});
  auto manifest = manifest_of(order, *job_, identity_);
  int number = 0;
  for (const auto& x : ranks) {
    ++number;
    const auto write = [&](const char* kind, const shards_in_memory& what) {
      token_.throw_if_cancelled();
      const auto file = runtime::shard_file(kind, number, order.parts);
      by->add_written(file);
      manifest.shards.push_back(context_->env.write_shard(by->staging(), file, to_write(what)));
    };
    write("model", x.parameters);
    write("optimizer", x.moments);
  }
  tell_saved(order, publish(*by, std::move(manifest)));
}

// The folder name is unique, so that late writers of a dead checkpointer do not find it.
void checkpointer_state::have_written(const messages::save& order,
                                      std::map<int, messages::snapshot> given) {
  const auto me = runtime::this_process();
  auto by = stage(order, fmt::format("{}-{}", me.pid, me.start_time));
  const auto folder = std::filesystem::absolute(by->staging()).string();
  saving_.emplace(saving{std::move(by), collected_shards(order, std::move(given), job_->placed)});
  for (auto& [process, x] : saving_->shards.orders()) {
    const auto to = writers_.find(process);
    if (to == writers_.end() || !to->second) {
      saving_->shards.lose(process);
      continue;
    }
    x.folder = folder;
    x.checkpointer = self_;
    context_->messages->send(self_, to->second, x);
  }
  commit_if_written();
}

void checkpointer_state::use(const messages::use_shard_writer& x) {
  writers_[x.process] = x.writer;
  if (saving_ && saving_->shards.lose(x.process))
    commit_if_written();
}

void checkpointer_state::receive(const messages::shards_written& x) {
  if (saving_ && saving_->shards.take(x))
    commit_if_written();
}

void checkpointer_state::receive(const messages::shards_refused& x) {
  if (saving_ && saving_->shards.take(x))
    commit_if_written();
}

std::filesystem::path checkpointer_state::publish(runtime::checkpoint_writer& what,
                                                  runtime::checkpoint_manifest manifest) const {
  require_to_lead();
  return what.commit(std::move(manifest));
}

void checkpointer_state::require_to_lead() const {
  if (!context_->superseded)
    return;
  if (const auto by = context_->superseded(); !by.empty())
    throw runtime::io_error("{}; this process will not save again", by);
}

// Waits for all answers, also after a refusal: then no process writes there any more.
void checkpointer_state::commit_if_written() {
  if (saving_->shards.awaited() > 0)
    return;
  const auto now = std::move(*saving_);
  saving_.reset();
  const auto& order = now.shards.order();
  try {
    if (!now.shards.is_refused()) {
      auto manifest = manifest_of(order, *job_, identity_);
      manifest.shards = now.shards.records();
      for (const auto& x : manifest.shards)
        now.by->add_written(x.file);
      tell_saved(order, publish(*now.by, std::move(manifest)));
    } else if (!now.shards.why().empty()) {
      fail(order, now.shards.why());
    } else if (now.shards.has_lost()) {
      failed_ = true;  // a partly written file may be left
      if (!abandoning_)
        fail(order, "the actor that writes the shards of a process has died");
    }
  } catch (const runtime::cancelled&) {
  } catch (const runtime::io_error& failure) {
    fail(order, failure.what());
  }
  if (const auto ended = std::exchange(abandoning_, {}))
    tell_abandoned(*ended);
}

void checkpointer_state::abandon(const messages::abandon& x) {
  if (x.generation >= generation_) {
    expected_.clear();
    parts_.clear();
    generation_ = runtime::next(x.generation);
  }
  if (saving_)  // as in one process, where a complete save is written before the answer
    abandoning_ = x.generation;
  else
    tell_abandoned(x.generation);
}

void checkpointer_state::tell_abandoned(runtime::generation_id ended) {
  context_->messages->send(self_, supervisor_, messages::abandoned{ended});
}

// Tells the supervisor first, so that later saves are reported after this one.
void checkpointer_state::tell_saved(const messages::save& order,
                                    const std::filesystem::path& folder) {
  runtime::log_info(" saved iteration {} to {}", runtime::value(order.step), folder.string());
  context_->messages->send(
      self_, supervisor_, messages::saved{order.generation, order.step, order.attempt});
  failed_ = false;
  remove_older();
}

void checkpointer_state::fail(const messages::save& order, const std::string& why) {
  failed_ = true;
  context_->messages->send(
      self_, supervisor_, messages::save_failed{order.generation, order.step, why, order.attempt});
}

std::unique_ptr<runtime::checkpoint_writer> checkpointer_state::stage(const messages::save& order,
                                                                      const std::string& by) {
  const auto& job = job_->job;
  require_to_lead();  // otherwise it would remove another host's unfinished checkpoint
  if (context_->save_lock && context_->save_lock->regain())
    runtime::log_warning(
        "'{}' or its lock was removed while this run saves there: it is locked again; its other "
        "contents are lost, such as checkpoints, the configuration and the copy of the tokenizer",
        job.checkpoints.save.string());
  if (failed_)  // the failed disk may also have refused to remove files
    runtime::clear_remains(job.checkpoints.save);
  return std::make_unique<runtime::checkpoint_writer>(job.checkpoints.save,
                                                      std::int64_t(runtime::value(order.step)),
                                                      order.generation,
                                                      token_,
                                                      order.attempt,
                                                      by);
}

// Older checkpoints do no harm: a failed removal is logged and the run continues.
void checkpointer_state::remove_older() const {
  const auto& where = job_->job.checkpoints;
  if (where.keep_last < 1)
    return;
  try {
    for (const auto& folder :
         runtime::remove_all_but_latest(where.save, where.keep_last, where.keep_every))
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
    std::shared_ptr<const saver_resources> context,
    runtime::cancel_token token) {
  self->state.start(told, std::move(job), std::move(context), std::move(token));
  return {
      on_board<messages::save>(self,
                               self->state.path(),
                               self->state.place(),
                               [self](const messages::save& x) { self->state.expect(x); }),
      on_board<messages::snapshot>(self,
                                   self->state.path(),
                                   self->state.place(),
                                   [self](const messages::snapshot& x) { self->state.receive(x); }),
      on_board<messages::use_shard_writer>(
          self,
          self->state.path(),
          self->state.place(),
          [self](const messages::use_shard_writer& x) { self->state.use(x); }),
      receives<messages::shards_written>(self),
      receives<messages::shards_refused>(self),
      on_board<messages::abandon>(
          self, self->state.path(), self->state.place(), [self](const messages::abandon& x) {
            self->state.abandon(x);
          })};
}

}  // namespace troupe::actors
