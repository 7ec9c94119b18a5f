// How stages get their micro-batches.
//
//   stage -> loader   request_batch
//   loader -> stage   batch_ready     for the same pass
//                     batch_failed    what was asked for ahead cannot be read
//
// A stage asks for those of the next step as soon as it has all of this one (run_step says what
// that step will read), so that they are read while this one is computed: two steps of them at most
// are under way.
//
// Data that cannot be read end the loader, whose end says which and why, in the step that needs
// them: of what is asked for ahead it says only that it failed, and the stage asks again when that
// step begins. The steps before are committed by then.
//
//   DATA-1  What a micro-batch holds is a function of the request alone.
//   DATA-2  What was asked for a step ahead is what that step takes.
//   DATA-3  What is asked for ahead and cannot be read disturbs no step before the one that needs
//           it.

#pragma once

#include "messages/core/pass_id.hpp"
#include "runtime/tensor/ticket.hpp"

#include <caf/meta/type_name.hpp>

#include <cstdint>

namespace troupe::messages {

struct request_batch {
  pass_id at;
  int replica = 0;  ///< logical
  std::uint64_t microbatch
      = 0;                     ///< of that replica; the pass counts those of all that a stage plays
  std::uint64_t consumed = 0;  ///< samples before this step
  bool validation = false;     ///< of the validation set
  bool test = false;           ///< with `validation`: of the test set instead
  bool inputs = false;         ///< wants "tokens", "positions", "samples", documents
  bool labels = false;         ///< wants "labels" and "mask"
  bool ahead = false;          ///< its step has not begun

  friend bool operator==(const request_batch&, const request_batch&) = default;
};

struct batch_ready {
  pass_id at;
  runtime::ticket_bundle data;

  friend bool operator==(const batch_ready&, const batch_ready&) = default;
};

struct batch_failed {
  pass_id at;

  friend bool operator==(const batch_failed&, const batch_failed&) = default;
};

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, request_batch& x) {
  return f(caf::meta::type_name("request_batch"),
           x.at,
           x.replica,
           x.microbatch,
           x.consumed,
           x.validation,
           x.test,
           x.inputs,
           x.labels,
           x.ahead);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, batch_ready& x) {
  return f(caf::meta::type_name("batch_ready"), x.at, x.data);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, batch_failed& x) {
  return f(caf::meta::type_name("batch_failed"), x.at);
}

}  // namespace troupe::messages
