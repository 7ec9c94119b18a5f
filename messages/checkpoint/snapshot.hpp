// How a checkpoint comes about, beside the training:
//
//   supervisor -> replica -> stage   take_snapshot   right after `applied`, before the next step
//   supervisor -> checkpointer       save            how many parts to expect
//   stage -> checkpointer            snapshot        its arrays, copied, as tickets
//   checkpointer -> supervisor       saved           it is durable and visible
//
// A checkpointer that cannot save ends with the reason.

#pragma once

#include "runtime/core/ids.hpp"
#include "runtime/tensor/ticket.hpp"

#include <caf/meta/type_name.hpp>

#include <cstdint>

namespace troupe::messages {

struct take_snapshot {
  runtime::generation_id generation = {};
  runtime::step_id step = {};

  friend bool operator==(const take_snapshot&, const take_snapshot&) = default;
};

struct save {
  runtime::generation_id generation = {};
  runtime::step_id step = {};
  std::uint64_t consumed = 0;
  int parts = 0;

  friend bool operator==(const save&, const save&) = default;
};

struct snapshot {
  runtime::generation_id generation = {};
  runtime::step_id step = {};
  int part = 0;  ///< pipeline rank
  runtime::ticket_bundle parameters = {};
  runtime::ticket_bundle moments = {};

  friend bool operator==(const snapshot&, const snapshot&) = default;
};

struct saved {
  runtime::generation_id generation = {};
  runtime::step_id step = {};

  friend bool operator==(const saved&, const saved&) = default;
};

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, take_snapshot& x) {
  return f(caf::meta::type_name("take_snapshot"), x.generation, x.step);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, save& x) {
  return f(caf::meta::type_name("save"), x.generation, x.step, x.consumed, x.parts);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, snapshot& x) {
  return f(caf::meta::type_name("snapshot"), x.generation, x.step, x.part, x.parameters, x.moments);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, saved& x) {
  return f(caf::meta::type_name("saved"), x.generation, x.step);
}

}  // namespace troupe::messages
