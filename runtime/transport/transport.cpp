#include "runtime/transport/transport.hpp"

namespace troupe::runtime {

ticket_bundle deposit(transport& by, const bundle& parts, generation_id generation) {
  ticket_bundle out;
  for (const auto& [name, x] : parts) {
    out.names.push_back(name);
    out.tickets.push_back(by.deposit(x, generation));
  }
  return out;
}

bundle redeem(transport& by, const ticket_bundle& tickets, const redeemer& whom) {
  ensure(tickets.names.size() == tickets.tickets.size(), "TICKET-1: every ticket has a name");
  auto parts = by.redeem_all(tickets.tickets, whom);
  bundle out;
  for (std::size_t i = 0; i < parts.size(); ++i)
    out.add(tickets.names[i], std::move(parts[i]));
  return out;
}

}  // namespace troupe::runtime
