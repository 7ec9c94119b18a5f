#include "actors/host/rank_states.hpp"

#include <utility>

namespace troupe::actors {

messages::state_of_rank deposited(runtime::transport& to,
                                  const runtime::rank_state& x,
                                  runtime::generation_id generation) {
  messages::state_of_rank out{.own = x.digests.own, .copies = x.digests.copies};
  for (const auto& [id, part] : x.parts) {
    auto& told = out.parts.emplace_back(messages::state_part{
        .chunk = id, .elements = part.elements, .own_weights = part.own_weights});
    for (const auto& one : part.weights)
      told.weights.push_back(to.deposit(one, generation));
    told.kept = to.deposit(part.kept, generation);
    if (part.digested)
      told.digested = *part.digested;
  }
  return out;
}

std::vector<runtime::ticket> tickets_of(const messages::state_of_rank& x) {
  std::vector<runtime::ticket> out;
  for (const auto& part : x.parts) {
    out.insert(out.end(), part.weights.begin(), part.weights.end());
    out.push_back(part.kept);
  }
  return out;
}

runtime::rank_state redeemed(runtime::transport& from,
                             const messages::state_of_rank& x,
                             const runtime::redeemer& by) {
  return assembled(x, from.redeem_all(tickets_of(x), by));
}

runtime::rank_state assembled(const messages::state_of_rank& x,
                              std::vector<runtime::tensor> tensors) {
  runtime::rank_state out{.digests = {x.own, x.copies}};
  auto next = tensors.begin();
  for (const auto& told : x.parts) {
    auto& part = out.parts[told.chunk];
    part.elements = told.elements;
    part.own_weights = told.own_weights;
    for (std::size_t i = 0; i < told.weights.size(); ++i)
      part.weights.push_back(std::move(*next++));
    part.kept = std::move(*next++);
    if (!told.digested.parts.empty())
      part.digested = std::make_shared<const runtime::digested_chunk>(told.digested);
  }
  return out;
}

}  // namespace troupe::actors
