#include "actors/support/guard.hpp"

#include "runtime/core/error.hpp"

#include <caf/exit_reason.hpp>

#include <new>
#include <system_error>
#include <utility>

namespace troupe::actors {

using messages::ec;

caf::error reason_of(const std::string& who, const std::exception_ptr& thrown) {
  try {
    std::rethrow_exception(thrown);
  } catch (const runtime::cancelled& e) {
    return messages::make_error(ec::cancelled, who + ": " + e.what());
  } catch (const runtime::peer_lost& e) {
    return messages::make_error(ec::peer_lost, who + ": " + e.what());
  } catch (const runtime::error& e) {
    return messages::make_error(ec::refused, who + ": " + e.what());
  } catch (const std::bad_alloc&) {
    return messages::make_error(
        ec::refused,
        who + ": out of memory; use a smaller model, `batch.micro` or `model.sequence`");
  } catch (const std::system_error& e) {
    return messages::make_error(ec::refused, who + ": system error: " + e.what());
  } catch (const std::exception& e) {
    return messages::make_error(ec::protocol_violated, who + ": " + e.what());
  } catch (...) {
    return messages::make_error(ec::protocol_violated,
                                who + ": threw an object that is not a std::exception");
  }
}

void end_on_exception(caf::scheduled_actor* self, std::string who) {
  self->set_exception_handler([name = std::move(who)](std::exception_ptr& thrown) -> caf::error {
    return reason_of(name, thrown);
  });
}

caf::error because_of(const std::string& who, const caf::error& reason) {
  auto code = ec::peer_lost;
  for (const auto known : {ec::refused, ec::cancelled, ec::protocol_violated})
    if (messages::is(reason, known))
      code = known;
  return messages::make_error(code, who + ": " + messages::text_of(reason));
}

}  // namespace troupe::actors
