// How a checkpoint comes about, beside the training:
//
//   supervisor -> replica -> stage   take_snapshot   right after `applied`, before the next step
//   supervisor -> checkpointer       save            how many parts to expect
//   stage -> checkpointer            snapshot        its shards, copied, as tickets
//   checkpointer -> supervisor       saved           it is durable and visible
//                                    save_failed     the disk refused; nothing of it is left
//
// After save_failed the supervisor decides when to try again: with a snapshot of a later step.

#pragma once

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
  std::uint64_t attempt = 0;  ///< of the supervisor to save; the newest counts

  friend bool operator==(const take_snapshot&, const take_snapshot&) = default;
};

struct save {
  runtime::generation_id generation = {};
  runtime::step_id step = {};
  std::uint64_t consumed = 0;
  int parts = 0;
  runtime::skipped_steps skipped = {};
  runtime::loss_scale scale = {};  ///< of the next step
  std::uint64_t attempt = 0;

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

/// What was saved before is intact.
struct save_failed {
  runtime::generation_id generation = {};
  runtime::step_id step = {};
  std::string why;
  std::uint64_t attempt = 0;

  friend bool operator==(const save_failed&, const save_failed&) = default;
};

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, take_snapshot& x) {
  return f(caf::meta::type_name("take_snapshot"), x.generation, x.step, x.attempt);
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
           x.attempt);
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
