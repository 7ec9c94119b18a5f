#include "actors/simulation/moments.hpp"

#include "messages/protocol/actors.hpp"
#include "runtime/core/error.hpp"
#include "runtime/core/hash.hpp"
#include "runtime/file/file.hpp"

#include <fmt/format.h>
#include <typeinfo>

namespace troupe::actors::simulation {
namespace {

void mislead(const message_path& by,
             const messages::stage_actor& to,
             runtime::generation_id generation,
             runtime::step_id step) {
  by.send_from_outside(
      to,
      messages::decision{.generation = generation, .step = step, .update = 1, .learning_rate = 1});
  by.send_from_outside(to, messages::activation{{.generation = generation, .step = step}, {}});
  by.send_from_outside(
      to, messages::run_step{.generation = generation, .step = step, .microbatches = 1});
  by.send_from_outside(to, messages::take_snapshot{generation, step});
  by.send_from_outside(to, messages::kept_state{generation, step, true, {}});
}

void mislead(const message_path& by,
             const messages::supervisor_actor& to,
             runtime::generation_id generation,
             runtime::step_id step) {
  for (int r = 0; r < 2; ++r) {
    by.send_from_outside(to, messages::ready{generation, r});
    by.send_from_outside(to, messages::vote{.generation = generation, .step = step, .replica = r});
    by.send_from_outside(to,
                         messages::applied{.generation = generation, .step = step, .replica = r});
    by.send_from_outside(to, messages::kept{generation, step, r});
    by.send_from_outside(to, messages::process_died{generation, r, 0, "of a life before"});
  }
}

}  // namespace

std::type_index type_of_moment(const std::string& name) {
  static const std::map<std::string, std::type_index> all
      = {{"ready", typeid(messages::ready)},
         {"meet", typeid(messages::meet)},
         {"run_step", typeid(messages::run_step)},
         {"activation", typeid(messages::activation)},
         {"gradient", typeid(messages::gradient)},
         {"request_batch", typeid(messages::request_batch)},
         {"batch_ready", typeid(messages::batch_ready)},
         {"vote", typeid(messages::vote)},
         {"decision", typeid(messages::decision)},
         {"applied", typeid(messages::applied)},
         {"take_snapshot", typeid(messages::take_snapshot)},
         {"snapshot", typeid(messages::snapshot)},
         {"save", typeid(messages::save)},
         {"saved", typeid(messages::saved)},
         {"lane_done", typeid(messages::lane_done)},
         {"committed", typeid(messages::committed)},
         {"validated", typeid(messages::validated)},
         {"conclude", typeid(messages::conclude)},
         {"shut_down", typeid(messages::shut_down)},
         {"end_generation", typeid(messages::end_generation)},
         {"generation_ended", typeid(messages::generation_ended)},
         {"spawn_loader", typeid(messages::spawn_loader)},
         {"spawn_checkpointer", typeid(messages::spawn_checkpointer)},
         {"spawn_replica", typeid(messages::spawn_replica)},
         {"spawn_stage", typeid(messages::spawn_stage)},
         {"all_restored", typeid(messages::all_restored)},
         {"keep", typeid(messages::keep)},
         {"kept", typeid(messages::kept)},
         {"fetch_kept", typeid(messages::fetch_kept)},
         {"kept_state", typeid(messages::kept_state)},
         {"spawn_keeper", typeid(messages::spawn_keeper)},
         {"use_keeper", typeid(messages::use_keeper)},
         {"process_started", typeid(messages::process_started)},
         {"process_died", typeid(messages::process_died)},
         {"spawn_shard_writer", typeid(messages::spawn_shard_writer)},
         {"use_shard_writer", typeid(messages::use_shard_writer)},
         {"write_shards", typeid(messages::write_shards)},
         {"shards_written", typeid(messages::shards_written)},
         {"shards_refused", typeid(messages::shards_refused)},
         {"abandon", typeid(messages::abandon)},
         {"abandoned", typeid(messages::abandoned)}};
  const auto found = all.find(name);
  if (found == all.end())
    throw runtime::input_error("no message type is called '{}'", name);
  return found->second;
}

void send_stale(const message_path& by,
                const caf::actor& to,
                const std::string& kind,
                std::uint64_t step) {
  for (const auto generation : {runtime::generation_id(0), runtime::generation_id(7)})
    if (kind == "supervisor")
      mislead(
          by, caf::actor_cast<messages::supervisor_actor>(to), generation, runtime::step_id(step));
    else
      mislead(by, caf::actor_cast<messages::stage_actor>(to), generation, runtime::step_id(step));
}

std::map<std::string, std::string> hashes_of_weights(const std::filesystem::path& folder) {
  std::map<std::string, std::string> out;
  std::error_code missing;
  for (const auto& x : std::filesystem::recursive_directory_iterator(folder, missing))
    if (x.is_regular_file() && x.path().extension() == ".safetensors")
      out[std::filesystem::relative(x.path(), folder).string()]
          = fmt::format("{:016x}", runtime::hash64(runtime::read_text(x.path())));
  return out;
}

}  // namespace troupe::actors::simulation
