#include "actors/shard_writer/shard_writer.hpp"

#include "actors/shard_writer/rank_files.hpp"
#include "actors/support/guard.hpp"
#include "actors/support/on_board.hpp"
#include "runtime/core/error.hpp"
#include "runtime/process/process_id.hpp"

#include <filesystem>
#include <utility>

namespace troupe::actors {

void shard_writer_state::start(const messages::spawn_shard_writer& told,
                               std::shared_ptr<const shared_resources> context,
                               runtime::cancel_token token) {
  process_ = told.process;
  context_ = std::move(context);
  token_ = std::move(token);
  presence_ = context_->living->enter({told.generation, name, -1, true});
  if (context_->env.own_threads)
    place_ = context_->lanes->add({.who = name,
                                   .generation = value(told.generation),
                                   .service = true,
                                   .patience = patience_with_disks});
  end_on_exception(self_, name);
}

void shard_writer_state::receive(const messages::write_shards& x) {
  if (!x.checkpointer)
    return;  // it has died: the handle of a dead actor arrives empty
  try {
    auto ranks = write(x);
    context_->messages->send(
        self_,
        x.checkpointer,
        messages::shards_written{x.generation, x.step, x.attempt, process_, std::move(ranks)});
  } catch (const runtime::cancelled&) {
    if (!token_.is_cancelled())  // otherwise this writer has been replaced, and its end is reported
                                 // elsewhere
      refuse(x, true, {});
  } catch (const runtime::io_error& failure) {
    refuse(
        x,
        false,
        fmt::format("process {} on host '{}': {}", process_, runtime::host_name(), failure.what()));
  }
}

void shard_writer_state::refuse(const messages::write_shards& x,
                                bool gone,
                                const std::string& why) {
  context_->messages->send(
      self_,
      x.checkpointer,
      messages::shards_refused{x.generation, x.step, x.attempt, process_, gone, why});
}

// Redeems everything before it writes: a complete part is written even if its ranks end meanwhile.
std::vector<messages::written_part> shard_writer_state::write(
    const messages::write_shards& x) const {
  std::vector<rank_state_to_write> ranks;
  for (const auto& one : x.ranks)
    ranks.push_back(redeemed(*context_->transport, one.parameters, one.moments, token_));
  std::error_code failure;
  if (!std::filesystem::is_directory(x.folder, failure))
    throw runtime::io_error(
        "there is no folder '{}', which the process that saves has made for this checkpoint{}; "
        "`checkpoints.save` has to be a folder that all processes of the run see under one path",
        x.folder,
        failure ? ": " + failure.message() : "");
  std::vector<messages::written_part> out;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    token_.throw_if_cancelled();
    const auto number = x.ranks[i].number;
    const auto write = [&](const char* kind, const shards_in_memory& what) {
      return told(context_->env.write_shard(
          x.folder, runtime::shard_file(kind, number, x.parts), to_write(what)));
    };
    auto model = write("model", ranks[i].parameters);
    out.push_back({number, std::move(model), write("optimizer", ranks[i].moments)});
  }
  return out;
}

messages::shard_writer_actor::behavior_type shard_writer(
    messages::shard_writer_actor::stateful_pointer<shard_writer_state> self,
    const messages::spawn_shard_writer& told,
    std::shared_ptr<const shared_resources> context,
    runtime::cancel_token token) {
  self->state.start(told, std::move(context), std::move(token));
  return {receives<messages::write_shards>(self)};
}

}  // namespace troupe::actors
