// All messages, as CAF knows them.
//
// All processes of a job run the same build. CAF 0.17 puts the name of the type on the wire, CAF
// 0.18 its position in the list TROUPE_MESSAGES.
//
// A system config without this block drops all messages of other nodes, and the sender prints one
// line on stderr. With `check_messages` every message of a run goes through bytes.

#pragma once

#include "messages/checkpoint/keeping.hpp"
#include "messages/checkpoint/snapshot.hpp"
#include "messages/control/job.hpp"
#include "messages/control/process.hpp"
#include "messages/control/recovery.hpp"
#include "messages/control/rendezvous.hpp"
#include "messages/control/sampling.hpp"
#include "messages/control/spawn.hpp"
#include "messages/control/standing.hpp"
#include "messages/control/suspicion.hpp"
#include "messages/control/watching.hpp"
#include "messages/core/stored_message.hpp"
#include "messages/data/batch.hpp"
#include "messages/inference/serving.hpp"
#include "messages/protocol/handles.hpp"
#include "messages/training/handoff.hpp"
#include "messages/training/step.hpp"

#include <caf/fwd.hpp>
#include <caf/mailbox_element.hpp>
#include <caf/make_message.hpp>
#include <caf/type_id.hpp>

CAF_BEGIN_TYPE_ID_BLOCK(troupe_messages, caf::first_custom_type_id)
#define TROUPE_ADD_TYPE_ID(name) CAF_ADD_TYPE_ID(troupe_messages, (troupe::messages::name))
  TROUPE_MESSAGES(TROUPE_ADD_TYPE_ID)
#undef TROUPE_ADD_TYPE_ID
CAF_END_TYPE_ID_BLOCK(troupe_messages)

// CAF's containers of each message, with code to encode, copy and print it: compiled once, in
// instances.cpp.
#define TROUPE_INSTANTIATE(how, name)                                             \
  how template class caf::detail::type_erased_value_impl<troupe::messages::name>; \
  how template class caf::detail::tuple_vals_impl<caf::detail::message_data,      \
                                                  troupe::messages::name>;        \
  how template class caf::detail::tuple_vals<troupe::messages::name>;             \
  how template class caf::detail::tuple_vals_impl<caf::type_erased_tuple, troupe::messages::name>;
#ifndef TROUPE_INSTANCES
#define TROUPE_DECLARE_INSTANCES(name) TROUPE_INSTANTIATE(extern, name)
TROUPE_MESSAGES(TROUPE_DECLARE_INSTANCES)
#undef TROUPE_DECLARE_INSTANCES
#endif

namespace troupe::messages {

/// Makes all messages known to a system that is made with `config`.
void add_message_types(caf::actor_system_config& config);

}  // namespace troupe::messages
