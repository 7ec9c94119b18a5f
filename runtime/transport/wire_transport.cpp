#include "runtime/transport/wire_transport.hpp"

#include "runtime/core/error.hpp"
#include "runtime/core/log.hpp"
#include "runtime/core/process_key.hpp"
#include "runtime/transport/process_memory.hpp"
#include "runtime/transport/wire_fetch.hpp"
#include "runtime/transport/wire_stager.hpp"

#include <utility>

namespace troupe::runtime {

namespace {

wire_message answer_to(wire_message x, wire_verb verb) {
  x.verb = verb;
  x.reads_on = 0;
  x.place = {};
  return x;
}

}  // namespace

wire_transport::wire_transport(const wire_transport_settings& settings, const maker& make)
    : settings_(settings),
      host_(settings.shares_memory ? memory_host_number() : 0),
      lender_(settings.shares_memory ? std::make_unique<lender>() : nullptr),
      wire_(make(*this)) {
  others_[settings.process].where = wire_->address();
  wire_->start();
}

// The wire stops first: until then messages arrive and use the stager, and the stager sends by the
// wire. Staged pieces that the wire holds outlive the stager.
wire_transport::~wire_transport() {
  wire_->stop();
  stager_.reset();
}

transport_address wire_transport::address() const {
  return {settings_.process, wire_->address()};
}

ticket wire_transport::deposit(tensor x,
                               generation_id generation,
                               std::shared_ptr<const void> until_taken) {
  ticket out{settings_.process, 0, generation, x.type(), x.extents()};
  const auto bytes = x.bytes();
  const std::lock_guard lock(mutex_);
  if (generation <= ended_)
    throw cancelled();
  if (stager_ == nullptr && x.kind() == memory_kind::device)
    stager_ = std::make_unique<wire_stager>(settings_.piece, wire_->takes_device_memory());
  out.slot = next_slot_++;
  leases_.emplace(out.slot, lease{std::move(x), generation, std::move(until_taken)});
  counters_.bytes_handed += bytes;
  ++counters_.tickets;
  return out;
}

tensor wire_transport::take(const ticket& x) {
  std::shared_ptr<const void> taken;  // released without the mutex
  const std::lock_guard lock(mutex_);
  if (x.generation <= ended_ || taken_back_.contains(x.slot))
    throw cancelled();
  const auto at = leases_.find(x.slot);
  ensure(at != leases_.end() && at->second.taker == peer_number{},
         "HANDOFF-2: a ticket is redeemed exactly once");
  const auto& leased = at->second;
  ensure(leased.generation == x.generation && leased.data.type() == x.type
             && leased.data.extents() == x.extents,
         "TICKET-3: a ticket says what its holder leased");
  auto out = std::move(at->second.data);
  taken = std::move(at->second.until_taken);
  leases_.erase(at);
  return out;
}

void wire_transport::take_back(std::span<const ticket> tickets) {
  std::vector<lease> released;  // released without the mutex, because their pools lock theirs
  const std::lock_guard lock(mutex_);
  for (const auto& x : tickets) {
    const auto at = leases_.find(x.slot);
    if (x.holder != settings_.process || at == leases_.end())
      continue;
    released.push_back(std::move(at->second));
    leases_.erase(at);
    taken_back_.emplace(x.slot, x.generation);
    ++counters_.dropped;
  }
}

void wire_transport::end_generation(generation_id last) {
  std::vector<lease> released;  // released without the mutex, because their pools lock theirs
  const std::lock_guard lock(mutex_);
  ended_ = std::max(ended_, last);
  std::erase_if(taken_back_, [&](const auto& entry) { return entry.second <= last; });
  for (auto at = leases_.begin(); at != leases_.end();) {
    if (at->second.generation > last) {
      ++at;
      continue;
    }
    released.push_back(std::move(at->second));
    at = leases_.erase(at);
    ++counters_.dropped;
  }
  for (auto at = fetches_.begin(); at != fetches_.end();) {
    if (at->second->what.generation > last) {
      ++at;
      continue;
    }
    at->second->finish(std::make_exception_ptr(cancelled()));
    at = fetches_.erase(at);
  }
  for (auto& [process, x] : others_) {
    if (x.missed <= last)
      x.missed = {};
    if (std::exchange(x.heals, false)) {  // LINK-1
      x.lost.clear();
      x.number = {};
    }
  }
  if (stager_ != nullptr)
    stager_->end_generation(last);
}

std::size_t wire_transport::leased() const {
  const std::lock_guard lock(mutex_);
  return leases_.size();
}

landing wire_transport::arrived(peer_number from,
                                std::span<const std::byte> header,
                                std::size_t bytes) {
  const auto read = read_message(header);
  const auto* x = std::get_if<wire_message>(&read);
  const bool fits = x != nullptr && bytes == (x->verb == wire_verb::part ? x->end - x->begin : 0);
  if (!fits) {
    ++counters_.refused;
    wire_->close(from,
                 "it sent an invalid message: "
                     + (x == nullptr ? std::get<std::string>(read)
                                     : fmt::format("{} bytes with it", bytes)));
    return {};
  }
  try {
    return believe(from, *x, bytes);
  } catch (const std::exception& failure) {  // for example out of memory; the caller is C code
    log_error("tensor {} of {}: cannot handle its message: {}",
              x->what.slot,
              name_by_process_key(x->what.holder),
              failure.what());
    wire_->close(from, "its message could not be handled");
    return {};
  }
}

landing wire_transport::believe(peer_number from, const wire_message& x, std::size_t bytes) {
  switch (x.verb) {
    case wire_verb::ask:
      answer(from, x);
      return {};
    case wire_verb::part:
      return land(from, x, bytes);
    case wire_verb::refusal:
      fail(from, x);
      return {};
    case wire_verb::loan:
      borrow(from, x);
      return {};
    case wire_verb::taken:
    case wire_verb::unread:
      end_loan(from, x);
      return {};
  }
  return {};
}

void wire_transport::answer(peer_number from, const wire_message& x) {
  auto found = release(from, x);
  if (auto* const what = std::get_if<served>(&found))
    serve(from, x, std::move(*what));
  else
    refuse(from, x, std::get<wire_reason>(found));
}

// The lease ends when its last byte was asked for.
std::variant<wire_transport::served, wire_reason> wire_transport::release(peer_number from,
                                                                          const wire_message& x) {
  const std::lock_guard lock(mutex_);
  askers_[from] = x.asker;
  if (x.what.holder != settings_.process)
    return wire_reason::stranger;
  if (x.what.generation <= ended_ || taken_back_.contains(x.what.slot))
    return wire_reason::ended;
  const auto at = leases_.find(x.what.slot);
  if (at == leases_.end())
    return wire_reason::redeemed;
  auto& leased = at->second;
  if (leased.generation != x.what.generation || leased.data.type() != x.what.type
      || leased.data.extents() != x.what.extents)
    return wire_reason::differs;
  if ((leased.taker != peer_number{} && leased.taker != from) || !leased.asked.add(x.begin, x.end))
    return wire_reason::redeemed;
  leased.taker = from;
  if (leased.asked.bytes() < leased.data.bytes())
    return served{leased.data, nullptr};
  served out{std::move(leased.data), std::move(leased.until_taken)};
  leases_.erase(at);
  return out;
}

void wire_transport::serve(peer_number to, const wire_message& x, served what) {
  auto& data = what.data;
  if (lends(x, data))
    return lend(to, x, std::move(what));
  if (data.kind() != memory_kind::device || x.begin == x.end) {
    const std::span bytes(data.raw() + x.begin, x.end - x.begin);
    return deliver(to, x, bytes, std::make_shared<const served>(std::move(what)), {});
  }
  stager_->submit(
      {.what = data,
       .begin = x.begin,
       .end = x.end,
       .generation = x.what.generation,
       .deliver =
           [this, to, x, held = what.until_taken](wire_stager::piece part) {
             auto said = x;
             said.begin = part.begin;
             said.end = part.begin + part.bytes.size();
             deliver(to, said, part.bytes, std::move(part.keep), std::move(part.done));
           },
       .failed =
           [this, to, x](const std::string& why) {
             log_error(
                 "tensor {} of generation {}, which another process asked for, could not be "
                 "read from its device: {}",
                 x.what.slot,
                 value(x.what.generation),
                 why);
             refuse(to, x, wire_reason::failed);
           },
       .ended = [this, to, x] { refuse(to, x, wire_reason::ended); }});
}

void wire_transport::deliver(peer_number to,
                             const wire_message& x,
                             std::span<const std::byte> bytes,
                             std::shared_ptr<const void> keep,
                             std::function<void(bool)> done) {
  wire_->send(to,
              {bytes_of(answer_to(x, wire_verb::part)), bytes, std::move(keep), std::move(done)});
}

bool wire_transport::lends(const wire_message& asked, const tensor& data) const {
  return host_ != 0 && asked.reads_on == host_ && data.kind() != memory_kind::device
         && asked.end - asked.begin >= settings_.least_lent;
}

void wire_transport::lend(peer_number to, const wire_message& x, served what) {
  const auto* const at = what.data.raw() + x.begin;
  auto said = answer_to(x, wire_verb::loan);
  said.place = lender_->lend(to, x.fetch, at, std::make_shared<const served>(std::move(what)));
  wire_->send(to, {bytes_of(said), {}, nullptr});
}

// Unread bytes are sent by the wire; else the loan just ends.
void wire_transport::end_loan(peer_number of, const wire_message& x) {
  auto keep = lender_ == nullptr ? nullptr : lender_->end(of, x.fetch);
  if (x.verb != wire_verb::unread)
    return;
  if (keep == nullptr)
    return refuse(of, x, wire_reason::redeemed);
  const auto& what = *static_cast<const served*>(keep.get());
  if (x.end > what.data.bytes())
    return refuse(of, x, wire_reason::differs);
  const std::span bytes(what.data.raw() + x.begin, x.end - x.begin);
  deliver(of, x, bytes, std::move(keep), {});
}

void wire_transport::borrow(peer_number from, const wire_message& x) {
  {
    const std::lock_guard lock(mutex_);
    const auto at = fetches_.find(x.fetch);
    if (at != fetches_.end() && at->second->may_read && x.begin == at->second->begin
        && x.end == at->second->end && at->second->expects(from, x)) {
      at->second->loan = x.place;
      at->second->changed->notify_all();
      return;
    }
    ++counters_.refused;  // of an older generation, or no longer awaited
  }
  wire_->send(from, {bytes_of(answer_to(x, wire_verb::taken)), {}, nullptr});
}

void wire_transport::refuse(peer_number to, const wire_message& x, wire_reason why) {
  ++counters_.refused;
  auto said = answer_to(x, wire_verb::refusal);
  said.reason = why;
  wire_->send(to, {bytes_of(said), {}, nullptr});
}

landing wire_transport::land(peer_number from, const wire_message& x, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  const auto at = fetches_.find(x.fetch);
  if (at == fetches_.end() || !at->second->expects(from, x)) {
    ++counters_.refused;  // of an older generation, or no longer awaited
    return {};
  }
  const auto& to = at->second;
  auto done = [this, to, bytes](bool there) {
    const std::lock_guard inner(mutex_);
    if (!there)  // the sender is lost; its waits are told
      return;
    counters_.bytes_copied += bytes;
    to->landed += bytes;
    if (to->landed == to->end - to->begin) {
      to->finish();
      fetches_.erase(to->number);
    }
  };
  return {to->to + (x.begin - to->begin), to, std::move(done), to->on_device};
}

void wire_transport::fail(peer_number from, const wire_message& x) {
  const std::lock_guard lock(mutex_);
  const auto at = fetches_.find(x.fetch);
  if (at == fetches_.end() || at->second->from != from)
    return;
  at->second->finish(failure_of(x.reason, x.what));
  fetches_.erase(at);
}

}  // namespace troupe::runtime
