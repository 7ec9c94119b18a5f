#include "runtime/transport/transport.hpp"

namespace troupe::runtime {

ticket_bundle deposit(transport& to,
                      const bundle& parts,
                      generation_id generation,
                      const std::shared_ptr<const void>& until_taken) {
  ticket_bundle out;
  for (const auto& [name, x] : parts) {
    out.names.push_back(name);
    out.tickets.push_back(to.deposit(x, generation, until_taken));
  }
  return out;
}

bundle redeem(transport& from, const ticket_bundle& tickets, const redeemer& by) {
  ensure(tickets.names.size() == tickets.tickets.size(), "TICKET-1: every ticket has a name");
  auto parts = from.redeem_all(tickets.tickets, by);
  bundle out;
  for (std::size_t i = 0; i < parts.size(); ++i)
    out.add(tickets.names[i], std::move(parts[i]));
  return out;
}

}  // namespace troupe::runtime
