#include "actors/simulation/virtual_process.hpp"

#include "actors/faults/inject.hpp"
#include "runtime/core/error.hpp"

#include <caf/event_based_actor.hpp>
#include <caf/exit_reason.hpp>
#include <caf/send.hpp>
#include <caf/system_messages.hpp>

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

namespace troupe::actors::simulation {
namespace {

std::uint64_t ticket_process(int number) {
  return std::uint64_t(number) + 1;
}

/// A copy in the receiver's memory, as if received from a wire.
runtime::tensor copied(const runtime::tensor& x, runtime::memory_pool pool) {
  runtime::tensor out(pool.allocate(x.bytes()), x.type(), x.extents());
  std::memcpy(out.raw(), x.raw(), x.bytes());
  return out;
}

caf::behavior takes_all(caf::event_based_actor* self) {
  self->set_default_handler(caf::skip);
  return {[](caf::unit_t) {}};
}

}  // namespace

/// The message network as seen by the actors of one process.
class virtual_process::network_end final : public message_network {
 public:
  explicit network_end(virtual_process& of) : of_(of) {}

  std::optional<std::chrono::nanoseconds> transit(caf::actor_id from,
                                                  caf::actor_id to,
                                                  caf::actor_clock::time_point) override {
    auto& all = of_.network_;
    if (!reaches(from, to))
      return std::nullopt;
    const auto now = all.world_.now_ns();
    auto arrival = now;
    auto* const other = all.process_of(to);
    if (other != nullptr && other != &of_)
      arrival += all.latency(of_, *other);
    if (all.mix_.steady)
      return std::chrono::nanoseconds(arrival - now);  // equal latencies keep the order
    if (all.choices_.happens(all.mix_.delayed))
      arrival += all.choices_.below(all.mix_.longest_delay_ns) + 1;
    auto& last = all.last_arrival_[{from, to}];
    if (arrival <= last && last > now)
      arrival = last + 1;
    last = arrival;
    return std::chrono::nanoseconds(arrival - now);
  }

  bool reaches(caf::actor_id, caf::actor_id to) const override {
    const auto* const other = of_.network_.process_of(to);
    return !of_.dead_ && (other == nullptr || !other->dead_);
  }

  caf::actor nowhere() override { return of_.network_.nowhere(); }

  bool watch(const caf::actor_addr& watcher, const caf::actor& watched) override {
    const auto* const other = of_.network_.process_of(watched->id());
    auto& all = of_.network_;
    if (other == nullptr || (other == &of_ && !all.choices_.happens(all.mix_.late_news)))
      return false;
    all.watch(watcher, watched);
    return true;
  }

 private:
  virtual_process& of_;
};

virtual_process::virtual_process(virtual_network& of,
                                 virtual_host& on,
                                 int number,
                                 const node_context& told)
    : network_(of),
      host_(on),
      number_(number),
      leases_(std::make_shared<runtime::local_transport>(ticket_process(number))),
      context_(std::make_shared<node_context>(told)) {
  auto& here = *context_;
  here.pools = std::make_shared<pool_registry>();
  here.env.own_threads = false;
  here.began = of.world_.system().clock().now();
  here.messages = std::make_shared<message_path>(told.messages && told.messages->checks(),
                                                 std::make_shared<network_end>(*this));
  if (!of.is_steady())
    add_data_plane(here);
  if (here.faults)
    inject(here, here.faults);
}

void virtual_process::add_data_plane(node_context& here) {
  auto& of = network_;
  here.transport = std::make_shared<virtual_transport>(*this);
  here.env.make_groups = [meeting = of.meeting_](std::uint64_t generation,
                                                 runtime::collectives by,
                                                 group_registry::join_between_processes between) {
    return std::make_shared<group_registry>(
        runtime::cancel_token(), generation, by, meeting, std::move(between));
  };
  here.reaper = std::make_shared<runtime::lane_reaper>(
      [fibers = of.world_.fibers()](const char* name, std::function<void()> what) {
        fibers->start(name, std::move(what));
      });
  here.env.make_lane = [&of, fibers = of.world_.fibers()](runtime::lane_settings settings) {
    settings.before_each = [&of, name = settings.name, before = std::move(settings.before_each)] {
      if (before)
        before();
      if (of.look_)
        of.look_(name);
      if (of.choices_.happens(of.mix_.slow_lane))
        runtime::sleep_for(
            std::chrono::nanoseconds(of.choices_.below(of.mix_.longest_work_ns) + 1));
    };
    return runtime::make_fiber_lane(std::move(settings), fibers);
  };
}

virtual_process::~virtual_process() = default;

void virtual_process::take_place(messages::process_name who) {
  links_ = std::make_shared<virtual_links>(network_, *this, who);
  context_->neighbours = links_;
  network_.wiring().add(*links_);
}

virtual_network::virtual_network(world& in, choices from, mix how)
    : world_(in), choices_(from), mix_(std::move(how)) {
  // An actor belongs to the process of its parent.
  world_.on_spawned([this](caf::actor_id by, caf::actor_id first, caf::actor_id last) {
    auto* const home = process_of(by);
    for (auto id = first; home != nullptr && id <= last; ++id)
      of_actor_.emplace(id, home);
  });
}

virtual_network::~virtual_network() {
  world_.end();
}

virtual_host& virtual_network::add_host(std::string domain) {
  const int number = int(hosts_.size());
  return *hosts_.emplace_back(std::make_unique<virtual_host>(
      virtual_host{number, fmt::format("host-{}", number), std::move(domain)}));
}

virtual_process& virtual_network::add_process(virtual_host& on, const node_context& told) {
  return *processes_.emplace_back(
      std::make_unique<virtual_process>(*this, on, int(processes_.size()), told));
}

virtual_process* virtual_network::process_of(caf::actor_id actor) const {
  const auto found = of_actor_.find(actor);
  return found == of_actor_.end() ? nullptr : found->second;
}

caf::actor virtual_network::nowhere() {
  if (!nowhere_)
    nowhere_ = world_.system().spawn<caf::hidden>(takes_all);
  return nowhere_;
}

std::uint64_t virtual_network::latency(const virtual_process& from, const virtual_process& to) {
  const auto most = &from.host() == &to.host() ? mix_.host_latency_ns : mix_.network_latency_ns;
  if (mix_.steady)
    return most;
  auto out = most == 0 ? 0 : most / 2 + choices_.below(most / 2 + 1);
  if (const auto parted = parted_until_.find({from.number(), to.number()});
      parted != parted_until_.end() && parted->second > world_.now_ns())
    out += parted->second - world_.now_ns();
  return out;
}

void virtual_network::part(const virtual_process& from,
                           const virtual_process& to,
                           std::uint64_t until_ns) {
  auto& until = parted_until_[{from.number(), to.number()}];
  until = std::max(until, until_ns);
}

// Delivers the down message when the network would: at least one latency after the death, sometimes
// much later.
void virtual_network::watch(const caf::actor_addr& watcher, const caf::actor& watched) {
  watched->attach_functor([this,
                           to = caf::actor_cast<caf::weak_actor_ptr>(watcher),
                           of = watched.address(),
                           number = watched->id()](const caf::error& reason) {
    auto* const theirs = process_of(number);
    const auto tell
        = [to,
           of,
           told = theirs->is_dead() ? caf::make_error(caf::exit_reason::remote_link_unreachable)
                                    : reason] {
            if (const auto alive = caf::actor_cast<caf::actor>(to))
              caf::anon_send<caf::message_priority::high>(alive, caf::down_msg{of, told});
          };
    world_.at(world_.now_ns() + news_ns(), fmt::format("news of the death of #{}", number), tell);
  });
}

void virtual_network::kill(virtual_process& x) {
  if (std::exchange(x.dead_, true))
    return;
  std::vector<caf::actor_id> actors;
  for (const auto& [number, home] : of_actor_)
    if (home == &x)
      actors.push_back(number);
  std::ranges::sort(actors);
  world_.end_at_once(actors);
  if (x.links() != nullptr)
    wiring_.lose(*x.links());
  if (killed_)
    killed_(x);
}

runtime::ticket virtual_transport::deposit(runtime::tensor x,
                                           runtime::generation_id generation,
                                           std::shared_ptr<const void> until_taken) {
  return process_.leases().deposit(std::move(x), generation, std::move(until_taken));
}

void virtual_transport::take_back(std::span<const runtime::ticket> tickets) {
  auto& leases = process_.leases();
  const auto before = leases.counters().dropped.load();
  leases.take_back(tickets);
  process_.taken_back_ += leases.counters().dropped - before;
}

void virtual_transport::end_generation(runtime::generation_id last) {
  ended_ = std::max(ended_, last);
  process_.leases().end_generation(last);
  if (process_.links() != nullptr)
    process_.links()->end_generation();
}

virtual_process* virtual_transport::holder_of(const runtime::ticket& x) const {
  const auto& all = process_.network().processes();
  runtime::ensure(x.holder >= ticket_process(0) && x.holder - ticket_process(0) < all.size(),
                  "TICKET-2: a ticket is redeemed at its holder");
  return all[x.holder - ticket_process(0)].get();
}

void virtual_transport::wait_for(virtual_process& holder,
                                 const runtime::ticket& x,
                                 const runtime::redeemer& by) {
  auto& network = process_.network();
  const auto& fibers = network.in();
  if (x.generation <= ended_)
    throw runtime::cancelled();  // before it connects
  std::optional<virtual_links::redeeming> over;
  if (process_.links() != nullptr && holder.links() != nullptr)
    over.emplace(*process_.links(), *holder.links(), x.generation);
  const auto arrival
      = fibers.now_ns() + network.latency(process_, holder) + network.latency(holder, process_);
  const auto is_over = [&] { return by.until.is_cancelled() || x.generation <= ended_; };
  // Lets the clock advance to the arrival even if nothing else is scheduled.
  network.in().at(arrival, "bytes arrive", [] {});
  const runtime::flagged_wait told;
  runtime::running_fiber::current()->wait([&] {
    const bool is_there = fibers.now_ns() >= arrival && (!over || over->carries());
    return is_over() || (over ? over->is_lost() : holder.is_dead()) || is_there;
  });
  if (is_over())
    throw runtime::cancelled();
  if (over)
    over->throw_if_lost();
  else if (holder.is_dead())
    throw runtime::peer_lost("the process {} that holds a ticket has died", holder.number());
}

std::vector<runtime::tensor> virtual_transport::redeem_all(std::span<const runtime::ticket> tickets,
                                                           const runtime::redeemer& by) {
  std::vector<runtime::tensor> out;
  const virtual_process* answered = nullptr;  // all tickets of one holder arrive together
  for (const auto& x : tickets) {
    auto* const holder = holder_of(x);
    if (holder == &process_) {
      out.push_back(holder->leases().redeem(x, by));
      continue;
    }
    if (std::exchange(answered, holder) != holder)
      wait_for(*holder, x, by);
    out.push_back(copied(holder->leases().redeem(x, by), process_.context()->pool));
  }
  return out;
}

}  // namespace troupe::actors::simulation
