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

#include "messages/core/inspect.hpp"
#include "messages/protocol/handles.hpp"
#include "runtime/core/ids.hpp"
#include "runtime/telemetry/step_report.hpp"
#include "runtime/tensor/shard.hpp"
#include "runtime/tensor/ticket.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace troupe::messages {

struct take_snapshot {
  runtime::generation_id generation = {};
  runtime::step_id step = {};
  std::uint64_t attempt = 0;  ///< number of the attempt to save; the newest counts
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
};

struct snapshot {
  runtime::generation_id generation = {};
  runtime::step_id step = {};
  int rank = 0;
  std::vector<runtime::tensor_shard<runtime::ticket>> parameters = {}, moments = {};
  std::uint64_t attempt = 0;
};

struct saved {
  runtime::generation_id generation = {};
  runtime::step_id step = {};
  std::uint64_t attempt = 0;
};

/// Earlier checkpoints are intact.
struct save_failed {
  runtime::generation_id generation = {};
  runtime::step_id step = {};
  std::string why;
  std::uint64_t attempt = 0;
};

/// The attempt to save failed; the remaining tickets will not be redeemed.
struct drop_snapshot {
  runtime::generation_id generation = {};
  runtime::step_id step = {};
  std::uint64_t attempt = 0;
};

/// One rank's part of a checkpoint.
struct part_to_write {
  int number = 0;  ///< number in its file names, from 1
  std::vector<runtime::tensor_shard<runtime::ticket>> parameters = {}, moments = {};
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
};

struct written_file {
  std::uint64_t bytes = 0;
  std::string sha256 = {};
  std::vector<std::string> xxh3 = {};  ///< per shard, in order
};

struct written_part {
  int number = 0;
  written_file model = {}, optimizer = {};
};

struct shards_written {
  runtime::generation_id generation = {};
  runtime::step_id step = {};
  std::uint64_t attempt = 0;
  int process = 0;
  std::vector<written_part> ranks = {};
};

struct shards_refused {
  runtime::generation_id generation = {};
  runtime::step_id step = {};
  std::uint64_t attempt = 0;
  int process = 0;
  bool gone = false;     ///< the generation has ended; not a disk failure
  std::string why = {};  ///< the disk's error
};

}  // namespace troupe::messages
