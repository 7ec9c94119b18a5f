// The code that CAF's templates and message_kind need for each message.

#define TROUPE_INSTANCES
#include "messages/core/through_bytes.hpp"
#include "messages/core/type_ids.hpp"

#include <caf/actor_system_config.hpp>

#define TROUPE_DEFINE_INSTANCES(name)            \
  TROUPE_INSTANTIATE(, name)                     \
  template const troupe::messages::message_kind& \
  troupe::messages::kind_of<troupe::messages::name>();
TROUPE_MESSAGES(TROUPE_DEFINE_INSTANCES)

void troupe::messages::add_message_types(caf::actor_system_config& config) {
  config.add_message_types<caf::id_block::troupe_messages>();
}
