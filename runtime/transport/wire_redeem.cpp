#include "runtime/core/error.hpp"
#include "runtime/core/log.hpp"
#include "runtime/core/process_key.hpp"
#include "runtime/core/waiting.hpp"
#include "runtime/transport/wire_fetch.hpp"

#include <algorithm>
#include <cerrno>
#include <utility>

namespace troupe::runtime {

namespace {

// Pieces of a device tensor: one arrives while the stream copies the other.
constexpr std::size_t pieces_at_once = 2;

std::string name_of(const ticket& x) {
  return fmt::format("tensor {} of {} ({} {})",
                     x.slot,
                     name_by_process_key(x.holder),
                     to_string(x.type),
                     to_string(x.extents));
}

}  // namespace

std::exception_ptr failure_of(wire_reason why, const ticket& x) {
  switch (why) {
    case wire_reason::ended:
      return std::make_exception_ptr(cancelled());
    case wire_reason::redeemed:
      return std::make_exception_ptr(broken_promise(
          "HANDOFF-2: a ticket is redeemed exactly once: nothing is leased as " + name_of(x)));
    case wire_reason::stranger:
      return std::make_exception_ptr(
          peer_lost("{} was requested where another process answers: its holder has died, or its "
                    "address is wrong",
                    name_of(x)));
    case wire_reason::failed:
      return std::make_exception_ptr(
          io_error("{} could not be read by its holder; see the log of that process", name_of(x)));
    case wire_reason::differs:
    case wire_reason::none:
      break;
  }
  return std::make_exception_ptr(broken_promise(
      "TICKET-3: a ticket says what its holder leased: another tensor is leased as " + name_of(x)));
}

std::exception_ptr loss_of(const ticket& x, const std::string& where, const std::string& why) {
  return std::make_exception_ptr(
      peer_lost("{} cannot be redeemed: the connection to {} is lost: {}", name_of(x), where, why));
}

/// The tensors that one call of redeem_all waits for.
class wire_transport::reception {
 public:
  reception(wire_transport& of, const redeemer& by)
      : of_(of),
        by_(by),
        on_device_(by.stream != nullptr && by.stream->queue() != nullptr),
        in_pieces_(on_device_ && !of.wire_->takes_device_memory()),
        waker_(by.until.on_cancel([&of, changed = changed_] {
          const std::lock_guard lock(of.mutex_);
          changed->notify_all();
        })) {}

  ~reception() {
    std::vector<std::pair<peer_number, wire_message>> given_up;
    {
      const std::lock_guard lock(of_.mutex_);
      of_.receptions_.erase(this);
      for (const auto& x : begun_) {
        of_.fetches_.erase(x->number);
        if (x->loan)
          given_up.emplace_back(x->from, of_.about_loan(*x, wire_verb::taken));
      }
    }
    for (const auto& [holder, said] : given_up)
      of_.wire_->send(holder, {bytes_of(said), {}, nullptr});
  }

  tensor expect(const ticket& x);
  void finish();
  /// Generation of a tensor of that process that was only partly asked for; 0: none. The mutex is
  /// held.
  generation_id half_done_of(std::uint64_t process) const {
    const bool is_half = next_ < ranges_.size() && ranges_[next_].begin > 0
                         && ranges_[next_].what.holder == process;
    return is_half ? ranges_[next_].what.generation : generation_id{};
  }

 private:
  struct range {
    ticket what;
    tensor to;
    std::uint64_t begin, end;
  };

  void begin(const range& x);
  void wait(fetch& x);
  void read(fetch& x, std::unique_lock<std::mutex>& lock);

  wire_transport& of_;
  const redeemer& by_;
  const bool on_device_, in_pieces_;
  const std::shared_ptr<std::condition_variable> changed_
      = std::make_shared<std::condition_variable>();
  std::shared_ptr<void> waker_;
  std::vector<range> ranges_;  ///< unchanged while this is among the receptions
  std::size_t next_ = 0;  ///< first range that was not asked for; guarded by the transport's mutex
  std::vector<std::shared_ptr<fetch>> begun_;
};

tensor wire_transport::reception::expect(const ticket& x) {
  const auto bytes = bytes_of(x);
  if (!bytes)
    throw io_error("{} is invalid: its extents do not fit into memory", name_of(x));
  const tensor out(
      by_.stream != nullptr ? by_.stream->allocate(*bytes) : of_.pool_.allocate(*bytes),
      x.type,
      x.extents);
  const auto each = in_pieces_ ? std::uint64_t(of_.settings_.piece) : *bytes;
  std::uint64_t at = 0;
  do {
    const auto end = std::min(at + each, *bytes);
    ranges_.push_back({x, out, at, end});
    at = end;
  } while (at < *bytes);
  return out;
}

void wire_transport::reception::finish() {
  if (on_device_ && !in_pieces_)
    by_.stream->mark()->wait();  // the previous user of this memory has finished
  {
    const std::lock_guard lock(of_.mutex_);
    of_.receptions_.insert(this);
  }
  const auto window = in_pieces_ ? pieces_at_once : ranges_.size();
  for (std::size_t i = 0; i < ranges_.size(); ++i) {
    while (begun_.size() < std::min(i + window, ranges_.size()))
      begin(ranges_[begun_.size()]);
    auto& x = *begun_[i];
    wait(x);
    if (!in_pieces_)
      continue;
    const auto& to = ranges_[i];
    by_.stream->copy(to.to.block().get() + to.begin, x.to, to.end - to.begin);
    x.keep.reset();  // returns to its pool after the copy
  }
  if (const auto written = on_device_ ? by_.stream->mark() : nullptr)
    for (const auto& x : ranges_)
      publish(x.to.block(), written);  // another queue may take it, as a stager does
}

void wire_transport::reception::begin(const range& x) {
  auto out = std::make_shared<fetch>(fetch{.what = x.what, .begin = x.begin, .end = x.end});
  out->changed = changed_;
  if (in_pieces_) {
    auto pool = by_.stream->pool();
    const auto block = pool.allocate_pinned(x.end - x.begin);
    out->to = block.get();
    out->keep = block;
  } else {
    out->to = x.to.block().get() + x.begin;
    out->keep = x.to.block();
    out->on_device = on_device_;
  }
  of_.start(out);
  begun_.push_back(std::move(out));
  const std::lock_guard lock(of_.mutex_);
  next_ = begun_.size();
}

void wire_transport::reception::wait(fetch& x) {
  std::unique_lock lock(of_.mutex_);
  while (!x.over) {
    {
      const flagged_wait told({wait_reason::party::process, "a tensor", x.what.holder});
      changed_->wait(lock, [&] { return x.over || x.loan || by_.until.is_cancelled(); });
    }
    if (!x.over && by_.until.is_cancelled())
      throw cancelled();
    if (!x.over)
      read(x, lock);
  }
  if (x.failure != nullptr)
    std::rethrow_exception(x.failure);
}

// Reads without the lock, so that the end of a generation does not wait for the read.
void wire_transport::reception::read(fetch& x, std::unique_lock<std::mutex>& lock) {
  constexpr std::uint64_t stretch = std::uint64_t{8} << 20;
  const auto place = *x.loan;
  const auto bytes = x.end - x.begin;
  lock.unlock();
  lent_reading found;
  for (std::uint64_t done = 0; done < bytes && found.bytes == lent_bytes::there; done += stretch) {
    mark_progress();
    if (by_.until.is_cancelled())
      throw cancelled();
    found = read_lent(place, done, {x.to + done, std::min(stretch, bytes - done)});
  }
  lock.lock();
  if (x.over)
    return;
  if (found.bytes == lent_bytes::gone) {
    if (auto& holder = of_.others_[x.what.holder]; holder.number == x.from)
      holder.missed = std::max(holder.missed, x.what.generation);
    throw peer_lost("{} cannot be read in the process with pid {}: it was released",
                    name_of(x.what),
                    place.pid);
  }
  x.loan.reset();
  if (found.bytes == lent_bytes::unread) {
    of_.learn_unreadable(x, place, found.failure);
    return;
  }
  of_.counters_.bytes_copied += bytes;
  of_.counters_.bytes_read += bytes;
  x.finish();
  of_.fetches_.erase(x.number);
  of_.wire_->send(x.from, {bytes_of(of_.about_loan(x, wire_verb::taken)), {}, nullptr});
}

generation_id wire_transport::half_redeemed_of(std::uint64_t process) const {
  generation_id out = {};
  for (const auto* x : receptions_)
    out = std::max(out, x->half_done_of(process));
  return out;
}

std::vector<tensor> wire_transport::redeem_all(std::span<const ticket> tickets,
                                               const redeemer& by) {
  std::vector<tensor> out;
  reception all(*this, by);
  for (const auto& x : tickets)
    if (x.holder == settings_.process && !settings_.through_the_wire)
      out.push_back(take(x));
    else
      out.push_back(all.expect(x));
  all.finish();
  return out;
}

void wire_transport::start(const std::shared_ptr<fetch>& x) {
  const std::lock_guard lock(mutex_);
  if (x->what.generation <= ended_)
    throw cancelled();
  x->from = peer_of(x->what);
  x->may_read = host_ != 0 && !x->on_device && !others_[x->what.holder].is_unreadable;
  x->number = next_fetch_++;
  fetches_.emplace(x->number, x);
  wire_->send(x->from,
              {bytes_of(wire_message{.what = x->what,
                                     .fetch = x->number,
                                     .begin = x->begin,
                                     .end = x->end,
                                     .asker = settings_.process,
                                     .reads_on = x->may_read ? host_ : 0}),
               {},
               nullptr});
}

// ESRCH: the holder is gone; its loss is reported in another way. After any other error the holder
// has to send the bytes. The mutex is held.
void wire_transport::learn_unreadable(fetch& x, const lent_place& place, int failure) {
  x.may_read = false;
  x.announced = {};
  if (failure != ESRCH) {
    auto& holder = others_[x.what.holder];
    if (holder.number == x.from && !std::exchange(holder.is_unreadable, true))
      log_warning(
          "the memory of {} (pid {}) cannot be read from here: {}; its tensors are sent, which is "
          "slower. Allow process_vm_readv between processes of one user",
          name_by_process_key(x.what.holder),
          place.pid,
          system_message(failure));
  }
  wire_->send(x.from, {bytes_of(about_loan(x, wire_verb::unread)), {}, nullptr});
}

wire_message wire_transport::about_loan(const fetch& x, wire_verb verb) const {
  return {.verb = verb,
          .what = x.what,
          .fetch = x.number,
          .begin = x.begin,
          .end = x.end,
          .asker = settings_.process};
}

peer_number wire_transport::peer_of(const ticket& x) {
  const auto at = others_.find(x.holder);
  if (at == others_.end())
    throw io_error("{} cannot be redeemed: the address of {} is unknown",
                   name_of(x),
                   name_by_process_key(x.holder));
  auto& peer = at->second;
  if (!peer.lost.empty())
    std::rethrow_exception(loss_of(x, peer.where, peer.lost));
  if (peer.number == peer_number{})
    peer.number = wire_->connect(peer.where);
  return peer.number;
}

}  // namespace troupe::runtime
