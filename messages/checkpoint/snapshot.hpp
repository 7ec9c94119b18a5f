// Messages that write a checkpoint while training continues:
//
//   supervisor -> replica -> stage   take_snapshot   after `applied`, before the next step
//   supervisor -> checkpointer       save            the number of parts to expect
//   stage -> checkpointer            snapshot        a copy of its shards, as tickets
//   checkpointer -> supervisor       saved           durable and visible
//                                    save_failed     the disk refused; its files are removed
//   supervisor -> replica -> stage   drop_snapshot   after a failure in multi-process runs: unused
//                                                    tickets are not fetched anymore
//
// In multi-process runs each process writes the shards of its own ranks, so the bytes stay local:
//
//   checkpointer -> shard_writer     write_shards    after all snapshots: those of its process
//   shard_writer -> checkpointer     shards_written  durable
//                                    shards_refused  the disk refused, or the snapshots are gone
//
// docs/protocol/saving.md has a diagram.
//
// After save_failed the supervisor decides when to try again, with a snapshot of a later step.

#pragma once

#include "messages/protocol/handles.hpp"
#include "runtime/core/ids.hpp"
#include "runtime/telemetry/step_report.hpp"
#include "runtime/tensor/shard.hpp"
#include "runtime/tensor/ticket.hpp"

#include <caf/meta/type_name.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace troupe::messages {

struct take_snapshot {
  runtime::generation_id generation = {};
  runtime::step_id step = {};
  std::uint64_t attempt = 0;  ///< number of the attempt to save; the newest counts

  friend bool operator==(const take_snapshot&, const take_snapshot&) = default;
};

struct save {
  runtime::generation_id generation = {};
  runtime::step_id step = {};
  std::uint64_t consumed = 0;
  int parts = 0;
  runtime::skipped_steps skipped = {};
  runtime::loss_scale scale = {};  ///< loss scale of the next step
  std::uint64_t attempt = 0;
  std::string identity = {};  ///< after commands that change bits; empty: the job's

  friend bool operator==(const save&, const save&) = default;
};

struct snapshot {
  runtime::generation_id generation = {};
  runtime::step_id step = {};
  int rank = 0;
  std::vector<runtime::tensor_shard<runtime::ticket>> parameters = {}, moments = {};
  std::uint64_t attempt = 0;

  friend bool operator==(const snapshot&, const snapshot&) = default;
};

struct saved {
  runtime::generation_id generation = {};
  runtime::step_id step = {};
  std::uint64_t attempt = 0;

  friend bool operator==(const saved&, const saved&) = default;
};

/// Earlier checkpoints are intact.
struct save_failed {
  runtime::generation_id generation = {};
  runtime::step_id step = {};
  std::string why;
  std::uint64_t attempt = 0;

  friend bool operator==(const save_failed&, const save_failed&) = default;
};

/// The attempt to save failed; the remaining tickets will not be redeemed.
struct drop_snapshot {
  runtime::generation_id generation = {};
  runtime::step_id step = {};
  std::uint64_t attempt = 0;

  friend bool operator==(const drop_snapshot&, const drop_snapshot&) = default;
};

/// One rank's part of a checkpoint.
struct part_to_write {
  int number = 0;  ///< number in its file names, from 1
  std::vector<runtime::tensor_shard<runtime::ticket>> parameters = {}, moments = {};

  friend bool operator==(const part_to_write&, const part_to_write&) = default;
};

/// The parts of one process's ranks. All are redeemed before the first is written.
struct write_shards {
  runtime::generation_id generation = {};
  runtime::step_id step = {};
  std::uint64_t attempt = 0;
  std::string folder = {};  ///< folder created by the checkpointer
  int parts = 0;            ///< parts of the whole checkpoint
  std::vector<part_to_write> ranks = {};
  checkpointer_actor checkpointer = {};  ///< receives the answer

  friend bool operator==(const write_shards&, const write_shards&) = default;
};

struct written_file {
  std::uint64_t bytes = 0;
  std::string sha256 = {};
  std::vector<std::string> xxh3 = {};  ///< per shard, in order

  friend bool operator==(const written_file&, const written_file&) = default;
};

struct written_part {
  int number = 0;
  written_file model = {}, optimizer = {};

  friend bool operator==(const written_part&, const written_part&) = default;
};

struct shards_written {
  runtime::generation_id generation = {};
  runtime::step_id step = {};
  std::uint64_t attempt = 0;
  int process = 0;
  std::vector<written_part> ranks = {};

  friend bool operator==(const shards_written&, const shards_written&) = default;
};

struct shards_refused {
  runtime::generation_id generation = {};
  runtime::step_id step = {};
  std::uint64_t attempt = 0;
  int process = 0;
  bool gone = false;     ///< the generation has ended; not a disk failure
  std::string why = {};  ///< the disk's error

  friend bool operator==(const shards_refused&, const shards_refused&) = default;
};

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, part_to_write& x) {
  return f(caf::meta::type_name("part_to_write"), x.number, x.parameters, x.moments);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, write_shards& x) {
  return f(caf::meta::type_name("write_shards"),
           x.generation,
           x.step,
           x.attempt,
           x.folder,
           x.parts,
           x.ranks,
           x.checkpointer);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, written_file& x) {
  return f(caf::meta::type_name("written_file"), x.bytes, x.sha256, x.xxh3);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, written_part& x) {
  return f(caf::meta::type_name("written_part"), x.number, x.model, x.optimizer);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, shards_written& x) {
  return f(
      caf::meta::type_name("shards_written"), x.generation, x.step, x.attempt, x.process, x.ranks);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, shards_refused& x) {
  return f(caf::meta::type_name("shards_refused"),
           x.generation,
           x.step,
           x.attempt,
           x.process,
           x.gone,
           x.why);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, take_snapshot& x) {
  return f(caf::meta::type_name("take_snapshot"), x.generation, x.step, x.attempt);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, drop_snapshot& x) {
  return f(caf::meta::type_name("drop_snapshot"), x.generation, x.step, x.attempt);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, save& x) {
  return f(caf::meta::type_name("save"),
           x.generation,
           x.step,
           x.consumed,
           x.parts,
           x.skipped,
           x.scale,
           x.attempt,
           x.identity);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, snapshot& x) {
  return f(caf::meta::type_name("snapshot"),
           x.generation,
           x.step,
           x.rank,
           x.parameters,
           x.moments,
           x.attempt);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, saved& x) {
  return f(caf::meta::type_name("saved"), x.generation, x.step, x.attempt);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, save_failed& x) {
  return f(caf::meta::type_name("save_failed"), x.generation, x.step, x.why, x.attempt);
}

}  // namespace troupe::messages
